#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

#define CONV_ATTRS T_F "attr{key:'strides' value{list{i:1 i:1 i:1 i:1}}} attr{key:'padding' value{s:'SAME'}}"
#define CONV(name, filter) NODE(name, "Conv2D", IN2("x", filter), CONV_ATTRS)
#define FILTER \
  CONST("w", "DT_FLOAT", "dim{size:1} dim{size:1} dim{size:2} dim{size:1}", "float_val:1 float_val:2")

static int64_t marks(const weft_graph_t *g, const char *name) {
  return weft_node_attr_int(weft_test_node(g, name), "_steady_inputs", 0);
}

static void constants_are_steady(void) {
  weft_graph_t *g =
      weft_test_optimized1(FED("x", "") FILTER CONV("y", "w") NODE("z", "Neg", IN1("y"), T_F), "steady", "z");
  CU_ASSERT_EQUAL(marks(g, "y"), 2);
  weft_graph_destroy(g);
}

static void values_of_resource_variables_are_steady(void) {
  weft_graph_t *g =
      weft_test_optimized1(FED("x", "") NODE("v", "VarHandleOp", "",
                                             "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
                                             "value{shape{dim{size:1} dim{size:1} dim{size:2} dim{size:1}}}}")
                               NODE("w", "ReadVariableOp", IN1("v"), "attr{key:'dtype' value{type:DT_FLOAT}}")
                                   CONV("y", "w") NODE("z", "Neg", IN1("y"), T_F),
                           "steady", "z");
  CU_ASSERT_EQUAL(marks(g, "y"), 2);
  weft_graph_destroy(g);
}

static void what_is_fed_computed_or_behind_a_reference_is_not(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") FED("w", "") NODE("n", "Neg", IN1("w"), T_F) CONV("a", "w") CONV("b", "n")
          NODE("r", "VariableV2", "",
               "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{dim{size:1} dim{size:1} "
               "dim{size:2} dim{size:1}}}}") CONV("c", "r")
              NODE("s", "AddN", IN3("a", "b", "c"), T_F "attr{key:'N' value{i:3}}"),
      "steady", "s");
  CU_ASSERT_EQUAL(marks(g, "a"), 0);
  CU_ASSERT_EQUAL(marks(g, "b"), 0);
  CU_ASSERT_EQUAL(marks(g, "c"), 0);
  weft_graph_destroy(g);
}

/* A loop whose variable `w` comes back as `next`, and a product that reads it in the body. */
#define LOOP(next)                                                                          \
  FED("x", "")                                                                              \
  FED("c", "")                                                                              \
  CONST("w0", "DT_FLOAT", "dim{size:2} dim{size:2}", "float_val:1")                         \
  NODE("e", "Enter", IN1("w0"), T_F "attr{key:'frame_name' value{s:'f'}}")                  \
  NODE("x1", "Enter", IN1("x"),                                                             \
       T_F "attr{key:'frame_name' value{s:'f'}} attr{key:'is_constant' value{b:true}}")     \
  NODE("m", "Merge", IN2("e", "n"), T_F "attr{key:'N' value{i:2}}")                         \
  NODE("t", "Const", "input:'^m'",                                                          \
       "attr{key:'dtype' value{type:DT_BOOL}} attr{key:'value' value{tensor{dtype:DT_BOOL " \
       "tensor_shape{} bool_val:false}}}")                                                  \
  NODE("l", "LoopCond", IN1("t"), "")                                                       \
  NODE("s", "Switch", IN2("m", "l"), T_F)                                                   \
  NODE("i", "Identity", IN1("s:1"), T_F)                                                    \
  NODE("p", "MatMul", IN2("x1", "i"), T_F)                                                  \
  NODE("q", "Neg", IN1("i"), T_F) NODE("n", "NextIteration", IN1(next), T_F) NODE("z", "Exit", IN1("s"), T_F)

static void what_a_loop_passes_on_is_steady(void) {
  weft_graph_t *g = weft_test_optimized(LOOP("i"), "steady", (const char *const[]){"z", "p", NULL});
  CU_ASSERT_EQUAL(marks(g, "p"), 2);
  weft_graph_destroy(g);
  g = weft_test_optimized(LOOP("q"), "steady", (const char *const[]){"z", "p", NULL});
  CU_ASSERT_EQUAL(marks(g, "p"), 0);
  weft_graph_destroy(g);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"constants are steady", constants_are_steady},
      {"values of resource variables are steady", values_of_resource_variables_are_steady},
      {"what is fed, computed or behind a reference is not",
       what_is_fed_computed_or_behind_a_reference_is_not},
      {"what a loop passes on is steady", what_a_loop_passes_on_is_steady},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("steady", tests);
}
