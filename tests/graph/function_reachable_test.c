#include <string.h>

#include "base/alloc.h"
#include "graph/function.h"
#include "protos/wire.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

/* Functions that name each other in every way: as an op, in an attribute, in a list, in a function's
 * attribute, in a circle, and by a gradient. "lonely" is reached from nothing. */
static const char text[] =
    "library {"
    " function { signature { name: 'by_op' } node_def { name: 'n' op: 'leaf' } }"
    " function { signature { name: 'by_attr' } node_def { name: 'n' op: 'NoOp'"
    "   attr { key: '_f' value { func { name: 'leaf' } } } } }"
    " function { signature { name: 'by_list' } node_def { name: 'n' op: 'NoOp'"
    "   attr { key: '_f' value { list { func { name: 'by_op' } func { name: 'by_attr' } } } } } }"
    " function { signature { name: 'by_inner' } node_def { name: 'n' op: 'NoOp'"
    "   attr { key: '_f' value { func { name: 'leaf' attr { key: 'g' value { func { name: 'by_op' } } } } } "
    "} } }"
    " function { signature { name: 'by_own_attr' } attr { key: '_f' value { func { name: 'leaf' } } } }"
    " function { signature { name: 'circle' } node_def { name: 'n' op: 'back' } }"
    " function { signature { name: 'back' } node_def { name: 'n' op: 'circle' } }"
    " function { signature { name: 'with_gradient' } node_def { name: 'n' op: 'NoOp' } }"
    " function { signature { name: 'grad' } node_def { name: 'n' op: 'leaf' } }"
    " function { signature { name: 'leaf' } node_def { name: 'n' op: 'NoOp' } }"
    " function { signature { name: 'lonely' } node_def { name: 'n' op: 'NoOp' } }"
    " gradient { function_name: 'with_gradient' gradient_func: 'grad' } }";

static const struct {
  const char *function;
  const char *reached[5];
} cases[] = {
    {"leaf", {"leaf"}},
    {"by_op", {"by_op", "leaf"}},
    {"by_attr", {"by_attr", "leaf"}},
    {"by_list", {"by_list", "by_op", "by_attr", "leaf"}},
    {"by_inner", {"by_inner", "by_op", "leaf"}},
    {"by_own_attr", {"by_own_attr", "leaf"}},
    {"circle", {"circle", "back"}},
    {"with_gradient", {"with_gradient", "grad", "leaf"}},
};

/* The library of the bytes: fields of a FunctionDefLibrary. */
static weft_function_library_t *library_of(weft_str_t bytes) {
  weft_function_library_t *l = NULL;
  weft_wire_reader_t in = weft_wire_reader(bytes);
  weft_wire_field_t f;
  CU_ASSERT_PTR_NULL_FATAL(weft_function_library_create(&l));
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) CU_ASSERT_PTR_NULL(weft_function_add(l, f.bytes));
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES))
      CU_ASSERT_PTR_NULL(weft_function_add_gradient(l, f.bytes));
  }
  CU_ASSERT_FALSE(in.failed);
  return l;
}

static void a_function_is_written_with_all_that_it_may_call(void) {
  weft_graph_t *g = weft_test_graph(text);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_map_t written = WEFT_MAP_INIT;
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    const weft_str_t name = weft_str(cases[i].function);
    CU_ASSERT_PTR_NULL(weft_function_write_reachable(g->library, name, &written, &out));
    const size_t length = out.length;
    CU_ASSERT_PTR_NULL(weft_function_write_reachable(g->library, name, &written, &out));
    CU_ASSERT_EQUAL(out.length, length); /* it is there already */
    weft_function_library_t *l = library_of(weft_str_of(out.data, out.length));
    size_t n = 0;
    for (; n < 5 && cases[i].reached[n] != NULL; n++)
      CU_ASSERT_PTR_NOT_NULL(weft_function_find(l, weft_str(cases[i].reached[n])));
    CU_ASSERT_EQUAL(l->by_name.count, n);
    CU_ASSERT_EQUAL(weft_function_gradient(l, WEFT_STR("with_gradient")) != NULL,
                    weft_str_is(name, "with_gradient"));
    weft_function_library_release(l);
    weft_map_deinit(&written);
    weft_strbuf_deinit(&out);
  }
  weft_graph_destroy(g);
}

static bool count(void *arg, weft_str_t node_def) {
  ++*(int *)arg;
  return node_def.length == 0;
}

static int nodes_seen(const weft_function_library_t *l, const char *function) {
  int n = 0;
  bool found = true;
  CU_ASSERT_PTR_NULL(weft_function_any_node(l, weft_str(function), count, &n, &found));
  CU_ASSERT_FALSE(found);
  return n;
}

/* Is there a node of the op? */
static bool is_op(void *arg, weft_str_t node_def) {
  weft_wire_reader_t in = weft_wire_reader(node_def);
  for (weft_wire_field_t f; weft_wire_next(&in, &f);) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) return weft_str_is(f.bytes, arg);
  }
  return false;
}

static bool holds(const weft_function_library_t *l, const char *function, char *op) {
  bool found = false;
  CU_ASSERT_PTR_NULL(weft_function_any_node(l, weft_str(function), is_op, op, &found));
  return found;
}

static void a_function_holds_what_those_that_it_calls_hold(void) {
  weft_graph_t *g = weft_test_graph(text);
  char no_op[] = "NoOp", other[] = "Const";
  bool found = true;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bool has_leaf = false;
    for (int k = 0; k < 5 && cases[i].reached[k] != NULL; k++)
      has_leaf = has_leaf || strcmp(cases[i].reached[k], "leaf") == 0;
    CU_ASSERT_EQUAL(holds(g->library, cases[i].function, no_op), has_leaf);
    CU_ASSERT_FALSE(holds(g->library, cases[i].function, other));
  }
  weft_test_expect(weft_function_any_node(g->library, WEFT_STR("none"), is_op, no_op, &found), WEFT_NOT_FOUND,
                   "Function none is not defined.");
  CU_ASSERT_FALSE(found);
  weft_graph_destroy(g);
}

/* Each calls the next one twice. */
static void a_function_is_looked_at_once(void) {
  enum { DEPTH = 60 };
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&graph, "library {");
  for (int i = 0; i < DEPTH; i++) {
    weft_strbuf_printf(&graph,
                       " function { signature { name: 'f%d' } node_def { name: 'a' op: 'f%d' }"
                       " node_def { name: 'b' op: 'f%d' } }",
                       i, i + 1, i + 1);
  }
  weft_strbuf_printf(&graph, " function { signature { name: 'f%d' } node_def { name: 'n' op: 'NoOp' } } }",
                     DEPTH);
  weft_graph_t *g = weft_test_graph(graph.data);
  CU_ASSERT_EQUAL(nodes_seen(g->library, "f0"), 2 * DEPTH + 1);
  weft_graph_destroy(g);
  weft_strbuf_deinit(&graph);
}

static void a_function_that_is_missing_is_an_error(void) {
  weft_graph_t *g = weft_test_graph(text);
  weft_map_t written = WEFT_MAP_INIT;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_test_expect(weft_function_write_reachable(g->library, WEFT_STR("none"), &written, &out),
                   WEFT_NOT_FOUND, "Function none is not defined.");
  weft_map_deinit(&written);
  weft_strbuf_deinit(&out);
  weft_graph_destroy(g);
}

static void two_functions_of_one_name_are_an_error(void) {
  weft_graph_t *a = weft_test_graph(text);
  weft_graph_t *b = weft_test_graph(
      "library { function { signature { name: 'leaf' } node_def { name: 'm' op: 'NoOp' } } }");
  weft_graph_t *same = weft_test_graph(
      "library { function { signature { name: 'leaf' } node_def { name: 'n' op: 'NoOp' } } }");
  weft_map_t written = WEFT_MAP_INIT;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  const weft_str_t leaf = WEFT_STR("leaf");
  CU_ASSERT_PTR_NULL(weft_function_write_reachable(a->library, leaf, &written, &out));
  CU_ASSERT_PTR_NULL(weft_function_write_reachable(same->library, leaf, &written, &out));
  weft_test_expect(weft_function_write_reachable(b->library, leaf, &written, &out), WEFT_INVALID_ARGUMENT,
                   "a different function with the same name already exists");
  weft_map_deinit(&written);
  weft_strbuf_deinit(&out);
  weft_graph_destroy(a);
  weft_graph_destroy(b);
  weft_graph_destroy(same);
}

static void functions_are_added_where_their_names_are_free(void) {
  weft_graph_t *a = weft_test_graph(text);
  weft_graph_t *b = weft_test_graph(
      "library { function { signature { name: 'leaf' } node_def { name: 'm' op: 'NoOp' } } }");
  const weft_function_t *leaf = weft_function_find(b->library, WEFT_STR("leaf"));
  CU_ASSERT_PTR_NULL(weft_function_library_add_missing(b->library, a->library));
  CU_ASSERT_EQUAL(b->library->by_name.count, a->library->by_name.count);
  CU_ASSERT_PTR_EQUAL(weft_function_find(b->library, WEFT_STR("leaf")), leaf);
  CU_ASSERT_PTR_NOT_NULL(weft_function_gradient(b->library, WEFT_STR("with_gradient")));
  weft_graph_destroy(a);
  weft_graph_destroy(b);
}

static const CU_TestInfo tests[] = {
    {"a function is written with all that it may call", a_function_is_written_with_all_that_it_may_call},
    {"a function holds what those that it calls hold", a_function_holds_what_those_that_it_calls_hold},
    {"a function is looked at once", a_function_is_looked_at_once},
    {"a function that is missing is an error", a_function_that_is_missing_is_an_error},
    {"two functions of one name are an error", two_functions_of_one_name_are_an_error},
    {"functions are added where their names are free", functions_are_added_where_their_names_are_free},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("function_reachable", tests); }
