#include "graph/graph_proto.h"

#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "graph/function.h"
#include "protos/graph.pb-c.h"
#include "protos/text_format.h"
#include "protos/wire.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

static weft_str_t view(const weft_strbuf_t *b) { return weft_str_of(b->data, b->length); }

#define FLOAT_INPUT "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}}} "
#define T_FLOAT " attr{key:'T' value{type:DT_FLOAT}} "

/* ---- what is refused ---- */

/* Codes and texts were taken from TensorFlow's own server and importer. */
static const struct {
  const char *graph;
  weft_code_t code;
  const char *text;
} refused[] = {
    {"node{name:'a' op:'Foo'} node{name:'b' op:'NoOp' input:'^zz'}", WEFT_INVALID_ARGUMENT,
     "Unknown input node '^zz'"},
    {"node{name:'a' op:'Foo'} node{name:'y' op:'Identity' input:'a:1048576'" T_FLOAT "}",
     WEFT_INVALID_ARGUMENT, "Connecting to invalid output 1048576 of source node a"},
    {"node{name:'a' op:''}", WEFT_NOT_FOUND, "Op type not registered ''"},
    {"node{name:'x' op:'NoOp' input:'^y'}", WEFT_INVALID_ARGUMENT, "Node 'x': Unknown input node '^y'"},
    {"node{name:'x' op:'Identity' input:'y'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "Node 'x': Unknown input node 'y'"},
    {"node{name:'x' op:'Placeholder'}", WEFT_NOT_FOUND,
     "No attr named 'dtype' in NodeDef:\n\t [[{{node x}}]]\n\t [[x]]"},
    {"node{name:'x' op:'NoOp'} node{name:'x' op:'NoOp'}", WEFT_INVALID_ARGUMENT, "Node 'x' is not unique"},
    {"node{name:'_x' op:'NoOp'}", WEFT_INVALID_ARGUMENT, "Illegal op name '_x'\n\t [[{{node _x}}]]"},
    {"node{name:'' op:'NoOp'}", WEFT_INVALID_ARGUMENT, "Illegal op name ''"},
    {"node{name:'a b' op:'NoOp'}", WEFT_INVALID_ARGUMENT, "Illegal op name 'a b'"},
    {"node{name:'a>' op:'NoOp'}", WEFT_INVALID_ARGUMENT, "Illegal op name 'a>'"},
    {FLOAT_INPUT "node{name:'y' op:'Identity' input:'x:-1'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "Illegal op input name 'x:-1'\n\t [[{{node y}}]]"},
    {FLOAT_INPUT "node{name:'y' op:'Identity' input:'x:01'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "Illegal op input name 'x:01'"},
    {FLOAT_INPUT "node{name:'y' op:'Identity' input:'x:1'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "Node 'y': Connecting to invalid output 1 of source node x which has 1 outputs."},
    {FLOAT_INPUT "node{name:'y' op:'Identity' input:'x:99999999999999999999'" T_FLOAT "}",
     WEFT_INVALID_ARGUMENT, "Node 'y': Connecting to invalid output 2147483647 of source node x"},
    {FLOAT_INPUT "node{name:'y' op:'Identity' input:'x' attr{key:'T' value{type:DT_INT32}}}",
     WEFT_INVALID_ARGUMENT, "Input 0 of node y was passed float from x:0 incompatible with expected int32."},
    {FLOAT_INPUT "node{name:'y' op:'Assign' input:'x' input:'x'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "Input 0 of node y was passed float from x:0 incompatible with expected float_ref."},
    {FLOAT_INPUT "node{name:'y' op:'AddV2' input:'x'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "NodeDef expected inputs 'float, float' do not match 1 inputs specified; Op<name=AddV2;"},
    {FLOAT_INPUT "node{name:'y' op:'Identity' input:'x' input:'x'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "NodeDef expected inputs 'float' do not match 2 inputs specified"},
    {FLOAT_INPUT "node{name:'y' op:'MatMul' input:'x' input:'x' attr{key:'T' value{type:DT_STRING}}}",
     WEFT_INVALID_ARGUMENT, "Value for attr 'T' of string is not in the list of allowed values: "},
    {"node{name:'x' op:'Placeholder' attr{key:'dtype' value{i:1}}}", WEFT_INVALID_ARGUMENT,
     "AttrValue had value with type 'int' when 'type' expected\n\t for attr 'dtype'\n\t; NodeDef: {{node "
     "x}}; Op<name="},
    {"node{name:'x' op:'Placeholder' attr{key:'dtype' value{list{type:DT_FLOAT}}}}", WEFT_INVALID_ARGUMENT,
     "AttrValue had value with type 'list(type)' when 'type' expected"},
    {"node{name:'x' op:'Placeholder' attr{key:'dtype' value{}}}", WEFT_INVALID_ARGUMENT,
     "AttrValue missing value with expected type 'type'\n\t for attr 'dtype'"},
    {"node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_INVALID}}}", WEFT_INVALID_ARGUMENT,
     "AttrValue has invalid DataType"},
    {"node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
     "value{shape{dim{size:-3}}}}}",
     WEFT_INVALID_ARGUMENT, "-3"},
    {"node{name:'y' op:'AddN'" T_FLOAT " attr{key:'N' value{i:-1}}}", WEFT_INVALID_ARGUMENT,
     "Value for attr 'N' of -1 must be at least minimum 1"},
    {"node{name:'y' op:'AddN'" T_FLOAT " attr{key:'N' value{i:99999999999}}}", WEFT_INVALID_ARGUMENT,
     "Number of outputs is too big: 99999999999"},
    {"node{name:'x' op:'NoOp' input:'^y'} node{name:'y' op:'NoOp' input:'^x'} node{name:'z' op:'NoOp' "
     "input:'^y'}",
     WEFT_INVALID_ARGUMENT, "3 nodes in a cycle: {{node y}} <- {{node x}}"},
    {"node{name:'x' op:'NoOp' input:'^x'}", WEFT_INVALID_ARGUMENT, "1 nodes in a cycle: {{node x}}"},
    {FLOAT_INPUT "node{name:'m' op:'Merge' input:'x' input:'i' attr{key:'N' value{i:2}}" T_FLOAT
                 "} node{name:'i' op:'Identity' input:'m'" T_FLOAT "}",
     WEFT_INVALID_ARGUMENT, "2 nodes in a cycle"},
    {FLOAT_INPUT "node{name:'y' op:'Identity' input:'^x' input:'x'" T_FLOAT "}", WEFT_INVALID_ARGUMENT,
     "All control inputs must follow all data inputs\n\t [[{{node y}}]]"},
    {"node{name:'a' op:'NoOp'} versions{producer:2129 min_consumer:99999}", WEFT_INVALID_ARGUMENT,
     "GraphDef min consumer version 99999 above current version 2129 for TensorFlow"},
    {"node{name:'a' op:'NoOp'} versions{producer:2129 bad_consumers:7 bad_consumers:2129}",
     WEFT_INVALID_ARGUMENT, "GraphDef disallows consumer version 2129."},
    {"node{name:'a' op:'NoOp'} versions{producer:-1}", WEFT_INVALID_ARGUMENT,
     "GraphDef producer version -1 below min producer 0"},
    {"node{name:'x' op:'NoOp' input:''}", WEFT_INVALID_ARGUMENT, "Illegal op input name ''"},
    {"node{name:'x' op:'NoOp' input:'^'}", WEFT_INVALID_ARGUMENT, "Illegal op input name '^'"},
    {"node{name:'x' op:'NoOp' input:'^a:0'}", WEFT_INVALID_ARGUMENT, "Illegal op input name '^a:0'"},
    {"node{name:'x' op:'NoOp' input:'a:b'}", WEFT_INVALID_ARGUMENT, "Illegal op input name 'a:b'"},
    {"node{name:'a' op:'NoOp'} node{name:'x' op:'NoOp' input:'a'}", WEFT_INVALID_ARGUMENT,
     "NodeDef expected inputs ''"},
    {"node{name:'a' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' "
     "value{tensor{dtype:DT_FLOAT "
     "tensor_shape{dim{size:3}} tensor_content:'abc'}}}}",
     WEFT_INVALID_ARGUMENT, "for attr 'value' of node 'a'"},
    {"library{function{signature{name:'f'}} function{signature{name:'f' is_stateful:true}}}",
     WEFT_INVALID_ARGUMENT,
     "Cannot add function 'f' because a different function with the same name already exists."},
    {"library{function{signature{name:'NoOp'}}}", WEFT_INVALID_ARGUMENT,
     "an op with the same name already exists"},
    {"library{function{signature{name:'f' input_arg{name:'a' type_attr:'T'}}}}", WEFT_INVALID_ARGUMENT,
     "'f' has no type attribute 'T' for argument 'a'"},
};

static void bad_graphs_are_refused_in_tensorflows_words(void) {
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    weft_strbuf_t b = weft_test_graph_def(refused[i].graph);
    weft_graph_t *g = NULL;
    weft_status_t *s = weft_test_import(view(&b), &g);
    weft_test_expect(weft_test_first_failure(s, g), refused[i].code, refused[i].text);
    weft_graph_destroy(g);
    weft_strbuf_deinit(&b);
  }
}

static void the_c_api_words_some_failures_in_its_own_way(void) {
  static const char *const cases[][2] = {
      {"node{name:'_x' op:'NoOp'}", "Node '_x': Node name contains invalid characters"},
      {"node{name:'a' op:''}", "Node 'a' does not specify an operation"},
      {"node{name:'x' op:'NoOp' input:'a:b'}", "NodeDef expected inputs '' do not match 1 inputs specified"},
      {"node{name:'x' op:'NoOp' input:'^'}", "Node 'x': Unknown input node '^'"},
      {"node{name:'x' op:'NoOp' input:'^x' input:'x'}",
       "Node 'x': Control dependencies must come after regular dependencies"},
      {"node{name:'x' op:'Placeholder'}", "NodeDef missing attr 'dtype' from Op<name=Placeholder;"},
  };
  const weft_import_options_t options = {.is_client_api = true};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_strbuf_t b = weft_test_graph_def(cases[i][0]);
    weft_graph_t *g = NULL;
    weft_test_expect(weft_graph_create(&g), WEFT_OK, "");
    weft_test_expect(weft_graph_import(g, view(&b), &options), WEFT_INVALID_ARGUMENT, cases[i][1]);
    weft_graph_destroy(g);
    weft_strbuf_deinit(&b);
  }
}

static void bytes_that_are_no_message_are_refused(void) {
  static const char *const bad[] = {"\xff\xff\xff\xff", "\x0a\x10\x0a\x01z", "\x0a\x02\x0a\x05", "\x0b"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    weft_graph_t *g = NULL;
    weft_test_expect(weft_test_import(weft_str(bad[i]), &g), WEFT_INVALID_ARGUMENT, "Invalid GraphDef");
    weft_graph_destroy(g);
  }
}

static void every_prefix_of_a_graph_is_read_or_refused(void) {
  weft_strbuf_t b = weft_test_read("control_v2");
  for (size_t n = 0; n < b.length; n += 7) {
    weft_graph_t *g = NULL;
    weft_status_t *s = weft_test_import(weft_str_of(b.data, n), &g);
    if (s != NULL) CU_ASSERT_NOT_EQUAL(weft_status_code(s), WEFT_INTERNAL);
    weft_status_free(s);
    weft_graph_destroy(g);
  }
  weft_strbuf_deinit(&b);
}

/* { func { attr { key value { func ... */
static void functions_in_attributes_are_not_read_without_end(void) {
  weft_strbuf_t value = WEFT_STRBUF_INIT, def = WEFT_STRBUF_INIT;
  for (int i = 0; i < 2000; i++) {
    weft_strbuf_t outer = WEFT_STRBUF_INIT, entry = WEFT_STRBUF_INIT, func = WEFT_STRBUF_INIT;
    weft_wire_add_bytes(&entry, 1, WEFT_STR("k"));
    weft_wire_add_bytes(&entry, 2, view(&value));
    weft_wire_add_bytes(&func, 2, view(&entry));
    weft_wire_add_bytes(&outer, 10, view(&func));
    weft_strbuf_deinit(&entry);
    weft_strbuf_deinit(&func);
    weft_strbuf_deinit(&value);
    value = outer;
  }
  size_t node = weft_wire_begin(&def, 1);
  weft_wire_add_bytes(&def, 1, WEFT_STR("n"));
  weft_wire_add_bytes(&def, 2, WEFT_STR("NoOp"));
  size_t attr = weft_wire_begin(&def, 5);
  weft_wire_add_bytes(&def, 1, WEFT_STR("_f"));
  weft_wire_add_bytes(&def, 2, view(&value));
  weft_wire_end(&def, attr);
  weft_wire_end(&def, node);
  weft_graph_t *g = NULL;
  weft_test_expect(weft_test_import(view(&def), &g), WEFT_OK, ""); /* no op asks for it: kept as it came */
  CU_ASSERT_EQUAL(weft_node_attr(weft_test_node(g, "n"), "_f")->kind, WEFT_ATTR_RAW);
  weft_graph_destroy(g);
  weft_strbuf_deinit(&value);
  weft_strbuf_deinit(&def);
}

/* ---- what is accepted ---- */

static void nodes_may_come_in_any_order_and_names_may_have_parts(void) {
  weft_graph_t *g =
      weft_test_graph("node{name:'b' op:'Identity' input:'a>b/c.d-e' input:'^z' input:'^z'" T_FLOAT
                      "} "
                      "node{name:'z' op:'NoOp'} "
                      "node{name:'a>b/c.d-e' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}}}");
  weft_node_t *b = weft_test_node(g, "b");
  CU_ASSERT_PTR_EQUAL(b->inputs[0].node, weft_test_node(g, "a>b/c.d-e"));
  CU_ASSERT_EQUAL(b->num_controls, 1);
  weft_graph_destroy(g);
}

static void defaults_are_filled_in_and_foreign_attributes_kept(void) {
  weft_graph_t *g =
      weft_test_graph(FLOAT_INPUT "node{name:'y' op:'MatMul' input:'x' input:'x'" T_FLOAT
                                  " attr{key:'_mine' value{s:'kept'}} attr{key:'newer' value{i:3}}"
                                  " attr{key:'transpose_b' value{b:true}}}");
  const weft_node_t *y = weft_test_node(g, "y");
  CU_ASSERT_FALSE(weft_node_attr_bool(y, "transpose_a", true));
  CU_ASSERT_TRUE(weft_node_attr_bool(y, "transpose_b", false));
  CU_ASSERT(weft_str_is(weft_node_attr_string(y, "_mine"), "kept"));
  CU_ASSERT_EQUAL(weft_node_attr_int(y, "newer", 0), 3);
  for (int i = 1; i < y->num_attrs; i++)
    CU_ASSERT(weft_str_compare(y->attrs[i - 1].name, y->attrs[i].name) < 0);
  weft_graph_destroy(g);
}

static void of_equal_attributes_the_last_counts(void) {
  weft_graph_t *g = weft_test_graph(
      "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'dtype' "
      "value{type:DT_INT32}}}");
  CU_ASSERT_EQUAL(weft_test_node(g, "x")->output_types[0], WEFT_I32);
  weft_graph_destroy(g);
}

static void a_master_may_send_internal_ops(void) {
  weft_strbuf_t b =
      weft_test_graph_def("node{name:'_x' op:'NoOp'} node{name:'a' op:'_Arg'" T_FLOAT
                          " attr{key:'index' value{i:0}}} node{name:'y' op:'NoOp' input:'^_x'}");
  const weft_import_options_t options = {.allow_internal_ops = true};
  weft_graph_t *g = NULL;
  weft_test_expect(weft_graph_create(&g), WEFT_OK, "");
  weft_test_expect(weft_graph_import(g, view(&b), &options), WEFT_OK, "");
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "y")->controls[0], weft_test_node(g, "_x"));
  weft_graph_destroy(g);
  weft_strbuf_deinit(&b);
}

static weft_status_t *extend(weft_graph_t *g, const char *text) {
  const weft_import_options_t options = {.allow_existing = true, .is_extend = true};
  weft_strbuf_t b = weft_test_graph_def(text);
  weft_status_t *s = weft_graph_import(g, view(&b), &options);
  weft_strbuf_deinit(&b);
  return s;
}

static void extension_sees_old_nodes_and_refuses_their_names(void) {
  weft_graph_t *g = weft_test_graph(FLOAT_INPUT "versions{producer:5}");
  weft_test_expect(extend(g, "node{name:'y' op:'Identity' input:'x'" T_FLOAT "} versions{producer:5}"),
                   WEFT_OK, "");
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "y")->inputs[0].node, weft_test_node(g, "x"));
  weft_test_expect(
      extend(g, "node{name:'x' op:'NoOp'} versions{producer:5}"), WEFT_INVALID_ARGUMENT,
      "includes node 'x', which was created by a previous call to Create or Extend in this session.");
  weft_graph_destroy(g);
  g = weft_test_graph(FLOAT_INPUT "versions{producer:5}");
  weft_test_expect(extend(g, "node{name:'z' op:'NoOp'} versions{producer:6}"), WEFT_OK, "");
  CU_ASSERT_EQUAL(g->producer, 5);
  weft_graph_destroy(g);
}

static void a_function_may_come_again_with_its_maps_in_another_order(void) {
  weft_graph_t *g = weft_test_graph(
      "library{function{signature{name:'f'} node_def{name:'n' op:'NoOp' "
      "attr{key:'_a' value{i:1}} attr{key:'_b' value{i:2}}} ret{key:'p' value:'q'} ret{key:'r' value:'s'}}}");
  weft_strbuf_t b = weft_test_graph_def(
      "library{function{signature{name:'f'} ret{key:'r' value:'s'} node_def{name:'n' op:'NoOp' "
      "attr{key:'_b' value{i:2}} attr{key:'_a' value{i:1}}} ret{key:'p' value:'q'}}}");
  const weft_import_options_t options = {.allow_existing = true};
  weft_test_expect(weft_graph_import(g, view(&b), &options), WEFT_OK, "");
  weft_strbuf_deinit(&b);
  b = weft_test_graph_def(
      "library{function{signature{name:'f'} ret{key:'r' value:'s'} node_def{name:'n' op:'NoOp' "
      "attr{key:'_b' value{i:1}} attr{key:'_a' value{i:2}}} ret{key:'p' value:'q'}}}");
  weft_test_expect(weft_graph_import(g, view(&b), &options), WEFT_INVALID_ARGUMENT, "different function");
  weft_strbuf_deinit(&b);
  weft_graph_destroy(g);
}

/* ---- and out again ---- */

/* The text of a GraphDef is the same for every order of map entries. */
static char *text_of(weft_str_t bytes) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  char *out = NULL;
  size_t n = 0;
  weft_test_expect(weft_text_from_binary(&tensorflow__graph_def__descriptor, bytes, &text), WEFT_OK, "");
  weft_test_expect(weft_strbuf_finish(&text, &out, &n), WEFT_OK, "");
  return out;
}

static const char *const files[] = {"mlp_v1", "mlp_resource", "while_v1", "control_v2", "tf_function"};

/* Exported nodes carry all defaults and tensors in one form, so the second round is the fixed point. */
static void export_and_import_are_inverse(void) {
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    weft_strbuf_t b = weft_test_read(files[i]), once = WEFT_STRBUF_INIT, twice = WEFT_STRBUF_INIT;
    weft_graph_t *g = NULL, *again = NULL, *copy = NULL;
    weft_test_expect(weft_test_import(view(&b), &g), WEFT_OK, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    weft_test_expect(weft_graph_export(g, false, &once), WEFT_OK, "");
    weft_test_expect(weft_test_import(view(&once), &again), WEFT_OK, "");
    weft_test_expect(weft_graph_copy(again, &copy), WEFT_OK, "");
    weft_test_expect(weft_graph_export(copy, false, &twice), WEFT_OK, "");
    CU_ASSERT(weft_str_eq(view(&once), view(&twice)));
    char *before = text_of(view(&b)), *after = text_of(view(&once));
    /* TensorFlow's own file has the same nodes in the same order. */
    CU_ASSERT_EQUAL(strncmp(before, after, 20), 0);
    weft_free(before);
    weft_free(after);
    weft_graph_destroy(g);
    weft_graph_destroy(again);
    weft_graph_destroy(copy);
    weft_strbuf_deinit(&b);
    weft_strbuf_deinit(&once);
    weft_strbuf_deinit(&twice);
  }
}

static void every_kind_of_attribute_survives(void) {
  const char *text =
      "node{name:'n' op:'NoOp' device:'/job:ps/task:1' attr{key:'_b' value{b:false}} attr{key:'_e' "
      "value{list{}}} "
      "attr{key:'_f' value{f:0.0}} attr{key:'_fn' value{func{name:'g' attr{key:'T' value{type:DT_INT8}}}}} "
      "attr{key:'_fns' value{list{func{name:'g'} func{name:'h'}}}} attr{key:'_i' value{i:0}} "
      "attr{key:'_lb' value{list{b:true b:false}}} attr{key:'_lf' value{list{f:1.5 f:-2}}} "
      "attr{key:'_li' value{list{i:-1 i:300}}} attr{key:'_ls' value{list{s:'' s:'\\377\\000'}}} "
      "attr{key:'_lsh' value{list{shape{unknown_rank:true} shape{dim{size:-1} dim{size:2}}}}} "
      "attr{key:'_lt' value{list{type:DT_FLOAT type:DT_INT32_REF}}} attr{key:'_p' value{placeholder:'T'}} "
      "attr{key:'_s' value{s:''}} attr{key:'_sh' value{shape{}}} attr{key:'_t' value{type:DT_FLOAT}} "
      "attr{key:'_te' value{tensor{dtype:DT_INT32 tensor_shape{dim{size:1}} "
      "tensor_content:'\\001\\000\\000\\000'}}}} "
      "versions{producer:12 min_consumer:3 bad_consumers:4 bad_consumers:5}";
  weft_strbuf_t b = weft_test_graph_def(text), out = WEFT_STRBUF_INIT;
  weft_graph_t *g = NULL;
  weft_test_expect(weft_test_import(view(&b), &g), WEFT_OK, "");
  weft_test_expect(weft_graph_export(g, false, &out), WEFT_OK, "");
  char *before = text_of(view(&b)), *after = text_of(view(&out));
  CU_ASSERT_STRING_EQUAL(before, after);
  weft_free(before);
  weft_free(after);
  weft_graph_destroy(g);
  weft_strbuf_deinit(&b);
  weft_strbuf_deinit(&out);
}

static void defaults_can_be_left_out(void) {
  weft_graph_t *g = weft_test_graph(FLOAT_INPUT "node{name:'y' op:'MatMul' input:'x' input:'x'" T_FLOAT "}");
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_test_expect(weft_graph_export(g, true, &out), WEFT_OK, "");
  char *text = text_of(view(&out));
  CU_ASSERT_PTR_NULL(strstr(text, "transpose_a"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"T\""));
  weft_free(text);
  weft_strbuf_deinit(&out);
  weft_graph_destroy(g);
}

static void ops_are_described_as_op_defs(void) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  int num_ops = 0;
  const weft_op_def_t *const *ops = weft_op_list(&num_ops);
  CU_ASSERT_TRUE(num_ops > 100);
  for (int i = 0; i < num_ops; i++) {
    out.length = 0;
    weft_test_expect(weft_op_def_to_proto(ops[i], &out), WEFT_OK, "");
    CU_ASSERT_TRUE(weft_wire_is_message(view(&out)));
  }
  weft_strbuf_deinit(&out);
}

/* ---- memory and time ---- */

static weft_status_t *import_and_export(weft_str_t bytes) {
  weft_graph_t *g = NULL;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_test_import(bytes, &g);
  if (s == NULL) s = weft_graph_export(g, false, &out);
  weft_graph_destroy(g);
  weft_strbuf_deinit(&out);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    weft_strbuf_t b = weft_test_read(files[i]);
    long n;
    WEFT_FAIL_EACH_ALLOCATION(n, s, import_and_export(view(&b)));
    CU_ASSERT_TRUE(n > 10);
    weft_strbuf_deinit(&b);
  }
}

static void add_type_attr(weft_strbuf_t *b, const char *name) {
  size_t entry = weft_wire_begin(b, 5);
  weft_wire_put_text(b, 1, name);
  size_t value = weft_wire_begin(b, 2);
  weft_wire_add_varint(b, 6, WEFT_F32);
  weft_wire_end(b, value);
  weft_wire_end(b, entry);
}

static void add_name(weft_strbuf_t *b, uint32_t field, const char *prefix, const char *stem, int i) {
  char name[64];
  snprintf(name, sizeof name, "%smodel/layer/%s_%d", prefix, stem, i);
  weft_wire_put_text(b, field, name);
}

/* A third each of NoOp, Const and Add, every Add on two earlier nodes. */
static weft_strbuf_t large_graph(int num_nodes) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  float one = 1;
  weft_tensor_t *t = NULL;
  weft_test_expect(weft_tensor_scalar(WEFT_F32, &one, &t), WEFT_OK, "");
  const weft_attr_t value = {.kind = WEFT_ATTR_TENSOR, .tensor = t};
  for (int i = 0; i + 2 < num_nodes; i += 3) {
    for (int k = 0; k < 3; k++) {
      static const char *const ops[] = {"NoOp", "Const", "AddV2"}, *const stems[] = {"group", "const", "add"};
      size_t node = weft_wire_begin(&b, 1);
      add_name(&b, 1, "", stems[k], i);
      weft_wire_put_text(&b, 2, ops[k]);
      if (k == 0 && i > 0) add_name(&b, 3, "^", "add", i - 3);
      if (k == 2) add_name(&b, 3, "", "const", i);
      if (k == 2) add_name(&b, 3, "", i == 0 ? "const" : "add", i == 0 ? 0 : i - 3);
      if (k == 1) {
        add_type_attr(&b, "dtype");
        size_t entry = weft_wire_begin(&b, 5);
        weft_wire_put_text(&b, 1, "value");
        size_t at = weft_wire_begin(&b, 2);
        weft_test_expect(weft_attr_to_proto(&value, &b), WEFT_OK, "");
        weft_wire_end(&b, at);
        weft_wire_end(&b, entry);
      }
      if (k == 2) add_type_attr(&b, "T");
      weft_wire_end(&b, node);
    }
  }
  weft_tensor_release(t);
  return b;
}

/* Of this process alone: other programs on the machine must not make a linear import look like a quadratic
 * one. */
static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double import_seconds(int num_nodes) {
  weft_strbuf_t b = large_graph(num_nodes);
  double best = 1e9;
  for (int i = 0; i < 2; i++) {
    weft_graph_t *g = NULL;
    double start = cpu_seconds();
    weft_test_expect(weft_test_import(view(&b), &g), WEFT_OK, "");
    double seconds = cpu_seconds() - start;
    if (seconds < best) best = seconds;
    if (i == 0 && g != NULL) printf("\n    %d nodes: %zu MB of arena, ", g->num_live, g->arena->bytes >> 20);
    weft_graph_destroy(g);
  }
  printf("%.3f s ", best);
  weft_strbuf_deinit(&b);
  return best;
}

static void import_takes_time_linear_in_nodes(void) {
  double half = import_seconds(500000), whole = import_seconds(1000000);
  CU_ASSERT_TRUE(whole < 3 * half + 0.05);
}

/* ---- ops that are not registered ---- */

static void ops_that_are_not_registered_are_kept(void) {
  weft_strbuf_t b =
      weft_test_graph_def(FLOAT_INPUT
                          "node{name:'a' op:'Foo' input:'x' input:'^z' attr{key:'k' value{i:7}} attr{key:'T' "
                          "value{type:DT_INT32}}} "
                          "node{name:'y' op:'Identity' input:'a:2'" T_FLOAT
                          "} "
                          "node{name:'b' op:'Foo' input:'a' input:'a:1' input:'y'} node{name:'z' op:'Bar'}");
  weft_graph_t *g = NULL;
  weft_test_expect(weft_test_import(view(&b), &g), WEFT_OK, "");
  const weft_node_t *a = weft_graph_find(g, WEFT_STR("a")), *other = weft_graph_find(g, WEFT_STR("b"));
  CU_ASSERT_TRUE((a->flags & WEFT_OP_UNREGISTERED) != 0);
  CU_ASSERT_PTR_EQUAL(a->op, other->op);
  CU_ASSERT_EQUAL(a->num_outputs, 3);
  CU_ASSERT_EQUAL(a->output_types[0], 0);
  CU_ASSERT_EQUAL(a->output_types[2], WEFT_F32);
  CU_ASSERT_EQUAL(other->num_inputs, 3);
  CU_ASSERT_EQUAL(weft_node_attr_int(a, "k", 0), 7);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_test_expect(weft_graph_export(g, false, &out), WEFT_OK, "");
  weft_graph_t *again = NULL;
  weft_test_expect(weft_test_import(view(&out), &again), WEFT_OK, "");
  weft_strbuf_t second = WEFT_STRBUF_INIT;
  weft_test_expect(weft_graph_export(again, false, &second), WEFT_OK, "");
  CU_ASSERT_TRUE(weft_str_eq(view(&out), view(&second)));
  weft_graph_destroy(g);
  weft_graph_destroy(again);
  weft_strbuf_deinit(&b);
  weft_strbuf_deinit(&out);
  weft_strbuf_deinit(&second);
}

/* ---- how long an error can be ---- */

static void expect_short(const weft_strbuf_t *text, const char *word) {
  weft_strbuf_t def = weft_test_graph_def(text->data);
  weft_graph_t *g = NULL;
  weft_status_t *s = weft_test_import(view(&def), &g);
  CU_ASSERT_PTR_NOT_NULL_FATAL(s);
  const char *message = weft_status_message(s);
  CU_ASSERT(strlen(message) <= WEFT_STATUS_BYTES);
  CU_ASSERT_PTR_NOT_NULL(strstr(message, word));
  if (strstr(message, word) == NULL) fprintf(stderr, "\n    no '%s' in: %s\n", word, message);
  weft_status_free(s);
  weft_strbuf_deinit(&def);
}

static void errors_about_many_nodes_are_short(void) {
  enum { MANY = 10000 };
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int i = 0; i < MANY; i++)
    weft_strbuf_printf(&text, "node{name:'n%d' op:'NoOp' input:'^n%d'} ", i, (i + 1) % MANY);
  expect_short(&text, "10000 nodes in a cycle: ");
  text.length = 0;
  weft_strbuf_puts(&text, FLOAT_INPUT "node{name:'y' op:'Identity'" T_FLOAT);
  for (int i = 0; i < MANY; i++) weft_strbuf_puts(&text, " input:'x'");
  weft_strbuf_puts(&text, "}");
  expect_short(&text, "do not match 10000 inputs specified");
  weft_strbuf_deinit(&text);
}

static void errors_about_long_names_are_short(void) {
  static const char *const graphs[] = {
      "node{name:'a' op:'NoOp' input:'^%s'}",  "node{name:'%s ' op:'NoOp'}",
      "node{name:'%s' op:'Placeholder'}",      "node{name:'%s' op:'NoOp'} node{name:'%s' op:'NoOp'}",
      "node{name:'%s' op:'NoOp' input:'^%s'}", FLOAT_INPUT "node{name:'%s' op:'AddV2' input:'x'" T_FLOAT "}",
  };
  enum { LONG = 1 << 20 };
  char *name = weft_malloc(LONG + 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(name);
  memset(name, 'n', LONG);
  name[LONG] = '\0';
  for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_str_t rest = weft_str(graphs[i]), head;
    while (weft_str_split(rest, '%', &head, &rest)) {
      weft_strbuf_append(&text, head);
      weft_strbuf_append(&text, weft_str_of(name, LONG));
      rest = weft_str_of(rest.data + 1, rest.length - 1); /* the s */
    }
    weft_strbuf_append(&text, rest);
    expect_short(&text, "nnn");
    weft_strbuf_deinit(&text);
  }
  weft_free(name);
}

static const CU_TestInfo tests[] = {
    {"bad graphs are refused in TensorFlow's words", bad_graphs_are_refused_in_tensorflows_words},
    {"the C API words some failures in its own way", the_c_api_words_some_failures_in_its_own_way},
    {"bytes that are no message are refused", bytes_that_are_no_message_are_refused},
    {"every prefix of a graph is read or refused", every_prefix_of_a_graph_is_read_or_refused},
    {"functions in attributes are not read without end", functions_in_attributes_are_not_read_without_end},
    {"nodes may come in any order, names may have parts",
     nodes_may_come_in_any_order_and_names_may_have_parts},
    {"defaults are filled in, foreign attributes kept", defaults_are_filled_in_and_foreign_attributes_kept},
    {"of equal attributes the last counts", of_equal_attributes_the_last_counts},
    {"a master may send internal ops", a_master_may_send_internal_ops},
    {"extension sees old nodes and refuses their names", extension_sees_old_nodes_and_refuses_their_names},
    {"a function may come again with maps in another order",
     a_function_may_come_again_with_its_maps_in_another_order},
    {"ops that are not registered are kept", ops_that_are_not_registered_are_kept},
    {"export and import are inverse", export_and_import_are_inverse},
    {"every kind of attribute survives", every_kind_of_attribute_survives},
    {"defaults can be left out", defaults_can_be_left_out},
    {"ops are described as OpDefs", ops_are_described_as_op_defs},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    {"errors about many nodes are short", errors_about_many_nodes_are_short},
    {"errors about long names are short", errors_about_long_names_are_short},
    {"import takes time linear in nodes", import_takes_time_linear_in_nodes},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("graph_proto", tests); }
