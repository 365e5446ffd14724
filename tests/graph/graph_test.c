#include "graph/graph.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define FLOAT_INPUT "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}}} "
#define INT_INPUT "node{name:'i' op:'Placeholder' attr{key:'dtype' value{type:DT_INT32}}} "

static weft_status_t *add(weft_graph_t *g, const char *name, const char *op, const weft_output_t *inputs,
                          int n, const weft_named_attr_t *attrs, int num_attrs, weft_node_t **out) {
  const weft_node_spec_t spec = {.name = weft_str(name),
                                 .op = weft_str(op),
                                 .inputs = inputs,
                                 .num_inputs = n,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs};
  return weft_graph_add(g, &spec, out);
}

static void types_follow_from_inputs(void) {
  weft_graph_t *g = weft_test_graph(FLOAT_INPUT INT_INPUT);
  weft_output_t x = {weft_test_node(g, "x"), 0}, i = {weft_test_node(g, "i"), 0};
  weft_node_t *n = NULL;
  const weft_output_t two[] = {x, x}, mixed[] = {x, i}, concat[] = {x, x, i};
  weft_test_expect(add(g, "sum", "AddV2", two, 2, NULL, 0, &n), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_node_attr_type(n, "T"), WEFT_F32);
  CU_ASSERT_EQUAL(n->output_types[0], WEFT_F32);
  weft_test_expect(add(g, "addn", "AddN", two, 2, NULL, 0, &n), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_node_attr_int(n, "N", 0), 2);
  weft_test_expect(add(g, "both", "IdentityN", mixed, 2, NULL, 0, &n), WEFT_OK, "");
  CU_ASSERT_EQUAL(n->num_outputs, 2);
  CU_ASSERT_EQUAL(n->output_types[1], WEFT_I32);
  weft_test_expect(add(g, "concat", "ConcatV2", concat, 3, NULL, 0, &n), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_node_attr_int(n, "N", 0), 2);
  CU_ASSERT_EQUAL(weft_node_attr_type(n, "Tidx"), WEFT_I32);
  weft_graph_destroy(g);
}

static void wrong_nodes_are_refused_and_leave_no_trace(void) {
  weft_graph_t *g = weft_test_graph(FLOAT_INPUT INT_INPUT);
  weft_output_t x = {weft_test_node(g, "x"), 0}, i = {weft_test_node(g, "i"), 0};
  const weft_output_t mixed[] = {x, i}, one[] = {x};
  weft_node_t *n = NULL;
  weft_test_expect(add(g, "a", "AddV2", mixed, 2, NULL, 0, &n), WEFT_INVALID_ARGUMENT,
                   "Inconsistent values for attr 'T' DT_FLOAT vs. DT_INT32 while building NodeDef 'a' using "
                   "Op<name=AddV2;");
  weft_test_expect(add(g, "a", "AddV2", one, 1, NULL, 0, &n), WEFT_INVALID_ARGUMENT, "do not match 1 inputs");
  weft_test_expect(add(g, "a", "Nope", one, 1, NULL, 0, &n), WEFT_NOT_FOUND, "Op type not registered 'Nope'");
  weft_test_expect(add(g, "x", "NoOp", NULL, 0, NULL, 0, &n), WEFT_INVALID_ARGUMENT,
                   "Duplicate node name in graph: 'x'");
  weft_test_expect(add(g, "a b", "NoOp", NULL, 0, NULL, 0, &n), WEFT_INVALID_ARGUMENT,
                   "contains invalid characters");
  weft_test_expect(add(g, "a", "Placeholder", NULL, 0, NULL, 0, &n), WEFT_INVALID_ARGUMENT,
                   "NodeDef missing attr 'dtype' from Op<name=Placeholder;");
  weft_test_expect(add(g, "a", "LogicalNot", one, 1, NULL, 0, &n), WEFT_INVALID_ARGUMENT,
                   "Input 'x' passed float expected bool while building NodeDef 'a'");
  CU_ASSERT_PTR_NULL(weft_graph_find(g, WEFT_STR("a")));
  CU_ASSERT_EQUAL(g->num_live, 2);
  weft_graph_destroy(g);
}

static void names_are_made_unique(void) {
  weft_graph_t *g = weft_test_graph("node{name:'a' op:'NoOp'} node{name:'a_1' op:'NoOp'}");
  CU_ASSERT(weft_str_is(weft_graph_unique_name(g, WEFT_STR("b")), "b"));
  CU_ASSERT(weft_str_is(weft_graph_unique_name(g, WEFT_STR("a")), "a_2"));
  CU_ASSERT(weft_str_is(weft_graph_unique_name(g, WEFT_STR("a_1")), "a_1_1"));
  weft_graph_destroy(g);
}

static void attributes_are_set_and_stay_sorted(void) {
  weft_graph_t *g = weft_test_graph(FLOAT_INPUT);
  weft_node_t *x = weft_test_node(g, "x");
  const weft_attr_t yes = {.kind = WEFT_ATTR_BOOL, .b = true}, no = {.kind = WEFT_ATTR_BOOL, .b = false};
  weft_test_expect(weft_graph_set_attr(g, x, "e", &yes), WEFT_OK, "");
  weft_test_expect(weft_graph_set_attr(g, x, "_a", &yes), WEFT_OK, "");
  weft_test_expect(weft_graph_set_attr(g, x, "e", &no), WEFT_OK, "");
  CU_ASSERT_EQUAL(x->num_attrs, 4);
  CU_ASSERT_FALSE(weft_node_attr_bool(x, "e", true));
  CU_ASSERT_TRUE(weft_node_attr_bool(x, "_a", false));
  for (int i = 1; i < x->num_attrs; i++)
    CU_ASSERT(weft_str_compare(x->attrs[i - 1].name, x->attrs[i].name) < 0);
  weft_graph_destroy(g);
}

static void nodes_print_as_in_tensorflows_messages(void) {
  weft_graph_t *g = weft_test_graph(
      FLOAT_INPUT
      "node{name:'s' op:'Unpack' input:'x' attr{key:'num' value{i:2}} attr{key:'T' value{type:DT_FLOAT}}} "
      "node{name:'y' op:'MatMul' input:'x' input:'s:1' input:'^s' attr{key:'T' value{type:DT_FLOAT}}}");
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_node_print(weft_test_node(g, "y"), &text);
  CU_ASSERT_STRING_EQUAL(text.data,
                         "{{node y}} = MatMul[T=DT_FLOAT, grad_a=false, grad_b=false, transpose_a=false, "
                         "transpose_b=false](x, s:1, ^s)");
  weft_strbuf_deinit(&text);
  weft_graph_destroy(g);
}

static void tensor_names_are_parsed(void) {
  static const struct {
    const char *text;
    bool ok;
    const char *name;
    int index;
  } cases[] = {
      {"a", true, "a", 0},     {"a:3", true, "a", 3}, {"a/b_1:10", true, "a/b_1", 10},
      {"", false, "", 0},      {"^a", false, "", 0},  {":1", false, "", 0},
      {"a:", false, "", 0},    {"a:b", false, "", 0}, {"a:99999999999", true, "a", INT32_MAX},
      {"a:1:2", false, "", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_str_t name = WEFT_STR("");
    int index = 0;
    CU_ASSERT_EQUAL(weft_tensor_name_parse(weft_str(cases[i].text), &name, &index), cases[i].ok);
    if (!cases[i].ok) continue;
    CU_ASSERT(weft_str_is(name, cases[i].name));
    CU_ASSERT_EQUAL(index, cases[i].index);
  }
}

static void fanout_lists_every_edge_once(void) {
  weft_graph_t *g = weft_test_graph(FLOAT_INPUT
                                    "node{name:'y' op:'AddV2' input:'x' input:'x' input:'^c' "
                                    "attr{key:'T' value{type:DT_FLOAT}}} node{name:'c' op:'NoOp'}");
  weft_fanout_t f;
  weft_test_expect(weft_fanout_build(g, &f), WEFT_OK, "");
  const weft_node_t *x = weft_test_node(g, "x"), *c = weft_test_node(g, "c"), *y = weft_test_node(g, "y");
  CU_ASSERT_EQUAL(f.begin[x->id + 1] - f.begin[x->id], 2);
  CU_ASSERT_EQUAL(f.edges[f.begin[x->id] + 1].input, 1);
  CU_ASSERT_EQUAL(f.begin[c->id + 1] - f.begin[c->id], 1);
  CU_ASSERT_EQUAL(f.edges[f.begin[c->id]].output, -1);
  CU_ASSERT_PTR_EQUAL(f.edges[f.begin[c->id]].to, y);
  CU_ASSERT_EQUAL(f.begin[y->id + 1], f.begin[y->id]);
  weft_fanout_deinit(&f);
  weft_graph_destroy(g);
}

static void copies_are_independent_and_without_holes(void) {
  weft_graph_t *g = weft_test_graph(
                   "node{name:'a' op:'NoOp'} node{name:'b' op:'NoOp' device:'/cpu:0'} "
                   "node{name:'c' op:'NoOp' input:'^b'}"),
               *copy = NULL;
  weft_graph_remove(g, weft_test_node(g, "a"));
  weft_test_expect(weft_graph_copy(g, &copy), WEFT_OK, "");
  CU_ASSERT_EQUAL(copy->num_nodes, 2);
  weft_graph_destroy(g);
  CU_ASSERT_PTR_EQUAL(weft_test_node(copy, "c")->controls[0], weft_test_node(copy, "b"));
  CU_ASSERT(weft_str_is(weft_test_node(copy, "b")->requested_device, "/cpu:0"));
  weft_graph_destroy(copy);
}

static void a_node_may_have_very_many_control_inputs(void) {
  enum { N = 20000 };
  weft_graph_t *g = NULL;
  weft_node_t *n = NULL, **all = weft_calloc(N * 2, sizeof(*all));
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  weft_test_expect(weft_graph_create(&g), WEFT_OK, "");
  for (int i = 0; i < N; i++) {
    char name[32];
    snprintf(name, sizeof name, "n%d", i);
    weft_status_t *s = add(g, name, "NoOp", NULL, 0, NULL, 0, &all[i]);
    if (s != NULL) weft_test_expect(s, WEFT_OK, "");
    all[N + i] = all[i];
  }
  const weft_node_spec_t spec = {
      .name = WEFT_STR("all"), .op = WEFT_STR("NoOp"), .controls = all, .num_controls = 2 * N};
  weft_test_expect(weft_graph_add(g, &spec, &n), WEFT_OK, "");
  CU_ASSERT_EQUAL(n->num_controls, N);
  weft_free(all);
  weft_graph_destroy(g);
}

static weft_status_t *build_something(void) {
  weft_graph_t *g = NULL, *copy = NULL;
  weft_node_t *c = NULL, *y = NULL;
  weft_tensor_t *t = NULL;
  float one = 1;
  weft_status_t *s = weft_tensor_scalar(WEFT_F32, &one, &t);
  const weft_named_attr_t attrs[2] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
                                      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = t}}};
  if (s == NULL) s = weft_graph_create(&g);
  if (s == NULL) s = add(g, "c", "Const", NULL, 0, attrs, 2, &c);
  const weft_output_t in[2] = {{c, 0}, {c, 0}};
  if (s == NULL) s = add(g, "y", "AddN", in, 2, NULL, 0, &y);
  if (s == NULL) s = weft_graph_copy(g, &copy);
  weft_tensor_release(t);
  weft_graph_destroy(g);
  weft_graph_destroy(copy);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, build_something());
  CU_ASSERT_TRUE(n > 5);
}

/* Any order of adding, replacing, clearing and searching, with few and with many, against a plain list. */
static void control_inputs_are_a_list_without_duplicates(void) {
  enum { NODES = 300, STEPS = 20000 };
  weft_graph_t *g = weft_test_graph("");
  weft_node_t *all[NODES], *to = NULL, *want[STEPS];
  for (int i = 0; i < NODES; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    weft_test_expect(add(g, name, "NoOp", NULL, 0, NULL, 0, &all[i]), WEFT_OK, "");
  }
  weft_test_expect(add(g, "to", "NoOp", NULL, 0, NULL, 0, &to), WEFT_OK, "");
  uint64_t random = 12345;
  int num = 0, most = 0;
  for (int step = 0; step < STEPS; step++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const int what = (int)(random >> 60), which = (int)((random >> 33) % NODES);
    int at = -1, index = -2;
    for (int i = 0; i < num && at < 0; i++) at = want[i] == all[which] ? i : -1;
    weft_test_expect(weft_graph_find_control(g, to, all[which], &index), WEFT_OK, "");
    CU_ASSERT_EQUAL(index, at);
    if (what < 12 && step % 4096 != 4095) {
      weft_test_expect(weft_graph_add_control(g, all[which], to), WEFT_OK, "");
      if (at < 0) want[num++] = all[which];
    } else if (step % 4096 == 4095) {
      weft_graph_clear_controls(g, to);
      num = 0;
    } else if (at < 0 && num > 0) {
      const int i = (int)(random >> 20) % num;
      if (i < 0) continue;
      weft_test_expect(weft_graph_replace_control(g, to, i, all[which]), WEFT_OK, "");
      want[i] = all[which];
    }
    CU_ASSERT_EQUAL_FATAL(to->num_controls, num);
    CU_ASSERT(num == 0 || memcmp(to->controls, want, (size_t)num * sizeof *want) == 0);
    if (num > most) most = num;
  }
  CU_ASSERT(most > 200);
  weft_graph_destroy(g);
}

static weft_status_t *many_controls(void) {
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_create(&g));
  weft_status_t *s = NULL;
  weft_node_t *to = NULL, *from = NULL;
  for (int i = 0; i < 100 && s == NULL; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    s = add(g, name, "NoOp", NULL, 0, NULL, 0, i == 0 ? &to : &from);
    if (s == NULL && i > 0) s = weft_graph_add_control(g, from, to);
  }
  CU_ASSERT(s != NULL || to->num_controls == 99);
  weft_graph_destroy(g);
  return s;
}

static void control_inputs_without_memory_are_an_error(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, many_controls());
  CU_ASSERT(n > 1);
}

static const CU_TestInfo tests[] = {
    {"types follow from inputs", types_follow_from_inputs},
    {"wrong nodes are refused and leave no trace", wrong_nodes_are_refused_and_leave_no_trace},
    {"names are made unique", names_are_made_unique},
    {"attributes are set and stay sorted", attributes_are_set_and_stay_sorted},
    {"nodes print as in TensorFlow's messages", nodes_print_as_in_tensorflows_messages},
    {"tensor names are parsed", tensor_names_are_parsed},
    {"fanout lists every edge once", fanout_lists_every_edge_once},
    {"copies are independent and without holes", copies_are_independent_and_without_holes},
    {"a node may have very many control inputs", a_node_may_have_very_many_control_inputs},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    {"control inputs are a list without duplicates", control_inputs_are_a_list_without_duplicates},
    {"control inputs without memory are an error", control_inputs_without_memory_are_an_error},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("graph", tests); }
