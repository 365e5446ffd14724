#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

static const weft_tensor_t *value_of(const weft_graph_t *g, const char *node) {
  const weft_node_t *n = weft_test_node(g, node);
  CU_ASSERT_FATAL(weft_str_is(n->op->name, "Const"));
  return weft_node_attr(n, "value")->tensor;
}

static int32_t int_at(const weft_tensor_t *t, int i) { return ((const int32_t *)t->data)[i]; }

static void constants_are_computed(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") FLOAT_CONST("a", "9") FLOAT_CONST("b", "4") NODE("s", "Sqrt", IN1("a"), T_F)
          NODE("m", "Mul", IN2("s", "b"), T_F) NODE("y", "Add", IN2("x", "m"), T_F),
      "fold", "y");
  CU_ASSERT_EQUAL(*(const float *)value_of(g, "m")->data, 12.0f);
  CU_ASSERT(weft_test_is_gone(g, "s"));
  CU_ASSERT_EQUAL(g->num_live, 3);
  weft_graph_destroy(g);
}

static void all_outputs_of_a_node_are_constants(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") INTS_CONST("v", "4", "int_val:[1,2,3,4]") INT_CONST("axis", "0")
          NODE("half", "Split", IN2("axis", "v"), "attr{key:'num_split' value{i:2}}" T_I)
              NODE("y", "Sub", IN2("half:1", "half:0"), T_I)
                  NODE("z", "Tile", IN2("x", "half:1"), T_F "attr{key:'Tmultiples' value{type:DT_INT32}}")
                      NODE("w", "Tile", IN2("x", "half:1"), T_F "attr{key:'Tmultiples' value{type:DT_INT32}}")
                          NODE("u", "Sub", IN2("z", "w"), T_F) NODE("all", "NoOp", IN2("^u", "^y"), ""),
      "fold", "all");
  CU_ASSERT_EQUAL(int_at(value_of(g, "y"), 1), 2);
  CU_ASSERT(weft_test_is_gone(g, "half"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "z")->inputs[1].node, weft_test_node(g, "w")->inputs[1].node);
  CU_ASSERT_EQUAL(int_at(value_of(g, "half/folded_1"), 0), 3);
  weft_graph_destroy(g);
}

#define SHAPE(name, in) NODE(name, "Shape", IN1(in), T_F)
#define FIRST(name, in)                                                                                 \
  INTS_CONST(name "/b", "1", "int_val:0")                                                               \
  INTS_CONST(name "/e", "1", "int_val:1")                                                               \
  INTS_CONST(name "/s", "1", "int_val:1")                                                               \
  NODE(name, "StridedSlice", "input:'" in "' input:'" name "/b' input:'" name "/e' input:'" name "/s'", \
       T_I "attr{key:'Index' value{type:DT_INT32}} attr{key:'shrink_axis_mask' value{i:1}}")

static void known_shapes_are_constants(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "dim{size:3} dim{size:5}") FED("p", "dim{size:7} dim{size:-1}") SHAPE("whole", "x")
          SHAPE("part", "p") FIRST("first", "part") NODE("y", "Add", IN2("whole", "first"), T_I)
              NODE("z", "Add", IN2("whole", "part"), T_I) NODE("all", "NoOp", IN2("^z", "^y"), ""),
      "fold", "all");
  CU_ASSERT_EQUAL(int_at(value_of(g, "y"), 0), 10);
  CU_ASSERT_EQUAL(int_at(value_of(g, "y"), 1), 12);
  CU_ASSERT(weft_test_reads(g, "z", 1, "part"));
  weft_graph_destroy(g);
}

static void an_effect_before_a_shape_still_happens(void) {
  weft_graph_t *g = weft_test_optimized1(
      INTS_CONST("dims", "1", "int_val:3")
          NODE("random", "RandomUniform", IN1("dims"), T_I "attr{key:'dtype' value{type:DT_FLOAT}}")
              SHAPE("shape", "random") NODE("y", "Neg", IN1("shape"), T_I),
      "fold", "y");
  CU_ASSERT_EQUAL(int_at(value_of(g, "y"), 0), -3);
  CU_ASSERT_FALSE(weft_test_is_gone(g, "random"));
  weft_graph_destroy(g);
}

static void what_waits_for_a_shape_waits_for_the_value(void) {
  weft_graph_t *g = weft_test_optimized1(FED("x", "dim{size:3}") NODE("e", "Exp", IN1("x"), T_F)
                                             SHAPE("shape", "e") NODE("y", "NoOp", IN1("^shape"), ""),
                                         "fold", "y");
  CU_ASSERT(weft_test_depends(g, weft_test_node(g, "y"), weft_test_node(g, "e")));
  weft_graph_destroy(g);
}

static void in_a_branch_constants_wait_for_the_branch(void) {
  const char *const keep[] = {"y", "z", NULL};
  weft_graph_t *g = weft_test_optimized(
      FED("x", "dim{size:2}") NODE("p", "Placeholder", "", "attr{key:'dtype' value{type:DT_BOOL}}")
          NODE("s", "Switch", IN2("x", "p"), T_F) NODE("pivot", "Identity", IN1("s:1"), T_F)
              "node{name:'c' op:'Const' input:'^pivot' attr{key:'dtype' value{type:DT_INT32}} "
              "attr{key:'value' value{tensor{dtype:DT_INT32 tensor_shape{} int_val:4}}}} "
      INT_CONST("d", "5") NODE("sum", "Add", IN2("c", "d"), T_I) SHAPE("shape", "pivot")
          NODE("y", "Mul", IN2("shape", "sum"), T_I) SHAPE("of_switch", "s:1")
              NODE("z", "Mul", IN2("of_switch", "y"), T_I),
      "fold", keep);
  CU_ASSERT_EQUAL(int_at(value_of(g, "y"), 0), 18);
  CU_ASSERT(weft_test_depends(g, weft_test_node(g, "y"), weft_test_node(g, "pivot")));
  /* A control edge from a Switch would not tell the branch: the node behind it stays. */
  CU_ASSERT(weft_str_is(weft_test_node(g, "of_switch")->op->name, "Shape"));
  CU_ASSERT(weft_test_depends(g, weft_test_node(g, "z"), weft_test_node(g, "of_switch")));
  weft_graph_destroy(g);
}

static void what_fails_stays(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") INTS_CONST("v", "2", "int_val:[1,2]") INTS_CONST("at", "1", "int_val:7")
          INT_CONST("axis", "0")
              NODE("bad", "GatherV2", IN3("v", "at", "axis"),
                   "attr{key:'Tparams' value{type:DT_INT32}} attr{key:'Tindices' value{type:DT_INT32}} "
                   "attr{key:'Taxis' value{type:DT_INT32}}") NODE("y", "Neg", IN1("bad"), T_I),
      "fold", "y");
  CU_ASSERT(weft_str_is(weft_test_node(g, "bad")->op->name, "GatherV2"));
  weft_graph_destroy(g);
}

static void a_value_that_is_larger_than_its_inputs_is_made_in_the_step(void) {
  weft_graph_t *g = weft_test_optimized1(
      INTS_CONST("few", "1", "int_val:100") INTS_CONST("many", "1", "int_val:1000000") FLOAT_CONST("one", "1")
          NODE("small", "Fill", IN2("few", "one"), T_F) NODE("large", "Fill", IN2("many", "one"), T_F)
              NODE("huge", "Fill", IN2("most", "one"), T_F)
                  INTS_CONST("most", "3", "int_val:[2000000000,2000000000,2000000000]")
                      NODE("y", "NoOp", "input:'^small' input:'^large' input:'^huge'", ""),
      "fold", "y");
  CU_ASSERT_EQUAL(value_of(g, "small")->count, 100);
  CU_ASSERT(weft_str_is(weft_test_node(g, "large")->op->name, "Fill"));
  CU_ASSERT(weft_str_is(weft_test_node(g, "huge")->op->name, "Fill"));
  weft_graph_destroy(g);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"constants are computed", constants_are_computed},
      {"all outputs of a node are constants", all_outputs_of_a_node_are_constants},
      {"known shapes are constants", known_shapes_are_constants},
      {"an effect before a shape still happens", an_effect_before_a_shape_still_happens},
      {"what waits for a shape waits for the value", what_waits_for_a_shape_waits_for_the_value},
      {"in a branch constants wait for the branch", in_a_branch_constants_wait_for_the_branch},
      {"what fails stays", what_fails_stays},
      {"a value that is larger than its inputs is made in the step",
       a_value_that_is_larger_than_its_inputs_is_made_in_the_step},
      CU_TEST_INFO_NULL,
  };
  const int status = weft_run_tests("fold", tests);
  weft_test_evaluator_destroy();
  return status;
}
