/* tests/jobs/checkpoint/variables_test.c - which variables a graph has, and what a checkpoint calls them. */
#include "jobs/checkpoint/variables.h"

#include <stdio.h>

#include "graph/graph_proto.h"
#include "protos/graph.pb-c.h"
#include "protos/text_format.h"
#include "tests/runner.h"

#define SHAPE1(a) "attr { key: \"shape\" value { shape { dim { size: " #a " } } } }"
#define SHAPE2(a, b) "attr { key: \"shape\" value { shape { dim { size: " #a " } dim { size: " #b " } } } }"
#define SCALAR "attr { key: \"shape\" value { shape { } } }"
#define REF(name, shape)                                                                                 \
  "node { name: \"" name "\" op: \"VariableV2\" attr { key: \"dtype\" value { type: DT_FLOAT } } " shape \
  " }\n"
#define HANDLE(name, shared, shape)                                                                       \
  "node { name: \"" name "\" op: \"VarHandleOp\" attr { key: \"dtype\" value { type: DT_FLOAT } } " shape \
  " attr { key: \"shared_name\" value { s: \"" shared "\" } } }\n"
#define TEXTS(name, n, ...)                                                                   \
  "node { name: \"" name                                                                      \
  "\" op: \"Const\" attr { key: \"dtype\" value { type: DT_STRING } } attr { key: \"value\" " \
  "value { tensor { dtype: DT_STRING tensor_shape { dim { size: " #n " } } " __VA_ARGS__ " } } } }\n"
#define READ(name, of)                                            \
  "node { name: \"" name "\" op: \"ReadVariableOp\" input: \"" of \
  "\" attr { key: \"dtype\" value { type: DT_FLOAT } } }\n"

static weft_graph_t *graph;
static weft_saved_variables_t v;

static weft_status_t *find(const char *text, const weft_str_t *step, int n) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  const weft_import_options_t options = {.is_client_api = true};
  v = (weft_saved_variables_t){.arena = WEFT_ARENA_INIT};
  graph = NULL;
  weft_status_t *s = weft_graph_create(&graph);
  if (s == NULL) s = weft_text_to_binary(&tensorflow__graph_def__descriptor, weft_str(text), NULL, &bytes);
  if (s == NULL) s = weft_graph_import(graph, weft_str_of(bytes.data, bytes.length), &options);
  if (s == NULL) s = weft_saved_variables_find(graph, step, n, &v);
  weft_strbuf_deinit(&bytes);
  return s;
}

static void end(void) {
  weft_saved_variables_deinit(&v);
  weft_graph_destroy(graph);
}

static void given(const char *text) { CU_ASSERT_PTR_NULL_FATAL(find(text, NULL, 0)); }

/* "table [7,2] 3,0" of a part, "name [..]" of a whole variable. */
static void expect(const char *node, const char *wanted) {
  const weft_saved_variable_t *item = weft_saved_variables_get(&v, weft_str(node));
  char text[300];
  CU_ASSERT_PTR_NOT_NULL_FATAL(item);
  int n = snprintf(text, sizeof text, "%.*s %s", WEFT_STR_ARGS(item->tensor),
                   WEFT_SHAPE_TEXT(item->is_part ? &item->full : &item->shape));
  for (int d = 0; item->is_part && d < item->full.rank; d++) {
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%d", d == 0 ? " " : ",", (int)item->start[d]);
  }
  if (strcmp(text, wanted) != 0) fprintf(stderr, "%s is '%s', not '%s'\n", node, text, wanted);
  CU_ASSERT_STRING_EQUAL(text, wanted);
}

static void both_kinds_are_called_by_their_nodes(void) {
  given(REF("a", SHAPE1(3)) HANDLE("b", "other", SHAPE2(2, 2)) REF("scope/c", SCALAR));
  CU_ASSERT_EQUAL(v.n, 3);
  expect("a", "a [3]");
  expect("b", "b [2,2]");
  expect("scope/c", "scope/c []");
  end();
}

static void handles_of_one_variable_are_one(void) {
  given(HANDLE("a", "x", SHAPE1(3)) HANDLE("a_again", "x", SHAPE1(3)) HANDLE("b", "y", SHAPE1(3)));
  CU_ASSERT_EQUAL(v.n, 2);
  CU_ASSERT_PTR_EQUAL(weft_saved_variables_get(&v, WEFT_STR("a")),
                      weft_saved_variables_get(&v, WEFT_STR("a_again")));
  end();
}

static void parts_are_slices(void) {
  given(REF("t/part_0", SHAPE2(3, 2)) REF("t/part_1", SHAPE2(2, 2)) REF("t/part_2", SHAPE2(2, 2))
            REF("t/part_0/Adam", SHAPE2(3, 2)) REF("t/part_1/Adam", SHAPE2(2, 2))
                REF("t/part_2/Adam", SHAPE2(2, 2)) REF("t/part_0/count", SCALAR));
  expect("t/part_0", "t [7,2] 0,0");
  expect("t/part_1", "t [7,2] 3,0");
  expect("t/part_2", "t [7,2] 5,0");
  expect("t/part_2/Adam", "t/Adam [7,2] 5,0");
  expect("t/part_0/count", "t/part_0/count []"); /* a scalar has no slices */
  end();
}

static void parts_may_be_columns(void) {
  given(HANDLE("t/part_0", "t/part_0", SHAPE2(4, 3)) HANDLE("t/part_1", "t/part_1", SHAPE2(4, 2)));
  expect("t/part_1", "t [4,5] 0,3");
  end();
  given(HANDLE("t/part_0", "t/part_0", SHAPE2(4, 3)) HANDLE("t/part_1", "t/part_1", SHAPE2(4, 3)) READ("r0", "t/part_0") READ("r1", "t/part_1")
            "node { name: \"axis\" op: \"Const\" attr { key: \"dtype\" value { type: DT_INT32 } } attr { key: \"value\" value { tensor { "
            "dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }\n"
            "node { name: \"all\" op: \"ConcatV2\" input: \"r0\" input: \"r1\" input: \"axis\" attr { key: \"N\" value { i: 2 } } "
            "attr { key: \"T\" value { type: DT_FLOAT } } attr { key: \"Tidx\" value { type: DT_INT32 } } }\n");
  expect("t/part_1", "t [4,6] 0,3");
  end();
}

static void one_part_is_the_whole(void) {
  given(REF("t/part_0", SHAPE2(3, 2)));
  expect("t/part_0", "t [3,2] 0,0");
  end();
}

static void what_only_looks_like_parts_is_left_alone(void) {
  given(REF("part_0/kernel", SHAPE1(2)) REF("net/part_0/kernel", SHAPE1(2))
            REF("net/part_1/kernel", SHAPE1(2)) /* scopes */
        REF("gap/part_0", SHAPE1(2)) REF("gap/part_2", SHAPE1(2)) REF("odd/part_0", SHAPE2(2, 3))
            REF("odd/part_1", SHAPE2(3, 2)) REF("taken", SHAPE1(9)) REF("taken/part_0", SHAPE1(2))
                REF("x/part_y", SHAPE1(2)) REF("x/part_", SHAPE1(2)));
  expect("part_0/kernel", "part_0/kernel [2]");
  expect("net/part_1/kernel", "net/part_1/kernel [2]");
  expect("gap/part_2", "gap/part_2 [2]");
  expect("odd/part_1", "odd/part_1 [3,2]");
  expect("taken/part_0", "taken/part_0 [2]");
  expect("x/part_y", "x/part_y [2]");
  expect("x/part_", "x/part_ [2]");
  end();
}

#define SAVE(name, names, slices, inputs, types)                                                     \
  "node { name: \"" name "\" op: \"SaveV2\" input: \"prefix\" input: \"" names "\" input: \"" slices \
  "\" " inputs " attr { key: \"dtypes\" value { list { " types " } } } }\n"

static void a_saver_in_the_graph_names_variables(void) {
  given(REF("a", SHAPE1(3)) HANDLE("b", "b", SHAPE2(4, 2)) REF("c", SCALAR) READ("read_b", "b") TEXTS(
      "prefix", 1, "string_val: \"p\"") TEXTS("names", 2, "string_val: \"alpha\" string_val: \"beta\"")
            TEXTS("slices", 2, "string_val: \"\" string_val: \"9 2 4,4:-\"")
                SAVE("save", "names", "slices", "input: \"a\" input: \"read_b\"",
                     "type: DT_FLOAT type: DT_FLOAT"));
  expect("a", "alpha [3]");
  expect("b", "beta [9,2] 4,0");
  expect("c", "c []");
  end();
}

/* A saver that restores averages in the place of variables has the variables' names for them. */
static void the_saver_counts_that_uses_own_names(void) {
  given(REF("a", SHAPE1(3)) REF("a/average", SHAPE1(3)) TEXTS("prefix", 1, "string_val: \"p\"") TEXTS(
      "swapped", 1, "string_val: \"a\"") TEXTS("names", 2, "string_val: \"a\" string_val: \"a/average\"")
            TEXTS("none", 1, "string_val: \"\"") TEXTS("nones", 2, "string_val: \"\" string_val: \"\"")
                SAVE("save_1", "swapped", "none", "input: \"a/average\"", "type: DT_FLOAT")
                    SAVE("save_2", "names", "nones", "input: \"a\" input: \"a/average\"",
                         "type: DT_FLOAT type: DT_FLOAT"));
  expect("a", "a [3]");
  expect("a/average", "a/average [3]");
  end();
  given(REF("a", SHAPE1(3)) REF("a/average", SHAPE1(3)) TEXTS("prefix", 1, "string_val: \"p\"")
            TEXTS("swapped", 1, "string_val: \"a\"") TEXTS("none", 1, "string_val: \"\"")
                SAVE("save_1", "swapped", "none", "input: \"a/average\"", "type: DT_FLOAT"));
  expect("a", "a [3]"); /* not two tensors of one name */
  expect("a/average", "a/average [3]");
  end();
}

static void what_the_step_reaches_is_needed(void) {
  const weft_str_t step[] = {WEFT_STR("read:0"), WEFT_STR("nothing:0"), WEFT_STR("^bad")};
  CU_ASSERT_PTR_NULL_FATAL(
      find(HANDLE("a", "a", SHAPE1(3)) HANDLE("b", "b", SHAPE1(3)) HANDLE("c", "c", SHAPE1(3))
               READ("first", "b") "node { name: \"read\" op: \"ReadVariableOp\" input: \"a\" input: "
                                  "\"^first\" attr { key: \"dtype\" value { type: DT_FLOAT } } }\n",
           step, 3));
  CU_ASSERT_TRUE(weft_saved_variables_get(&v, WEFT_STR("a"))->is_needed);
  CU_ASSERT_TRUE(weft_saved_variables_get(&v, WEFT_STR("b"))->is_needed);
  CU_ASSERT_FALSE(weft_saved_variables_get(&v, WEFT_STR("c"))->is_needed);
  end();
}

static void rows_of_a_part_lie_in_the_whole(void) {
  given(REF("t/part_0", SHAPE2(3, 2)) REF("t/part_1", SHAPE2(4, 2)));
  weft_tensor_slice_t at;
  weft_shape_t rows = weft_shape_matrix(2, 2);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_saved_variable_place(weft_saved_variables_get(&v, WEFT_STR("t/part_1")), 1, &rows, &at);
  weft_tensor_slice_print(&at, &text);
  CU_ASSERT_STRING_EQUAL(text.data, "4,2:-");
  weft_strbuf_deinit(&text);
  end();
}

static weft_status_t *find_and_end(void) {
  weft_status_t *s =
      find(REF("t/part_0", SHAPE2(3, 2)) REF("t/part_1", SHAPE2(4, 2)) HANDLE("b", "b", SHAPE1(2)), NULL, 0);
  end();
  return s;
}

static void no_memory_is_told(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, find_and_end());
  CU_ASSERT_TRUE(n > 10);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"both kinds are called by their nodes", both_kinds_are_called_by_their_nodes},
      {"handles of one variable are one", handles_of_one_variable_are_one},
      {"parts are slices", parts_are_slices},
      {"parts may be columns", parts_may_be_columns},
      {"one part is the whole", one_part_is_the_whole},
      {"what only looks like parts is left alone", what_only_looks_like_parts_is_left_alone},
      {"a saver in the graph names variables", a_saver_in_the_graph_names_variables},
      {"the saver counts that uses own names", the_saver_counts_that_uses_own_names},
      {"what the step reaches is needed", what_the_step_reaches_is_needed},
      {"rows of a part lie in the whole", rows_of_a_part_lie_in_the_whole},
      {"no memory is told", no_memory_is_told},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("variables", tests);
}
