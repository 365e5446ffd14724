#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

static int num_controls(const weft_graph_t *g, const char *node) {
  return weft_test_node(g, node)->num_controls;
}

static void control_inputs_that_order_nothing_are_left_out(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") FLOAT_CONST("c", "1") NODE("none", "NoOp", "", "") NODE("e", "Exp", IN1("x"), T_F)
          NODE("y", "Neg", "input:'e' input:'^c' input:'^none' input:'^e' input:'^x'", T_F),
      "dependencies", "y");
  CU_ASSERT_EQUAL(num_controls(g, "y"), 1); /* on x, which e needs, too: that would take a search */
  CU_ASSERT(weft_test_is_gone(g, "c"));
  CU_ASSERT(weft_test_is_gone(g, "none"));
  weft_graph_destroy(g);
}

static void waiting_goes_past_identities_and_lone_noops(void) {
  weft_graph_t *g =
      weft_test_optimized1(FED("x", "") FED("w", "") NODE("i", "Identity", IN1("w"), T_F)
                               NODE("n", "NoOp", IN1("^i"), "") NODE("both", "NoOp", IN2("^w", "^x"), "")
                                   NODE("y", "Neg", "input:'x' input:'^n' input:'^both'", T_F),
                           "dependencies", "y");
  CU_ASSERT_EQUAL(num_controls(g, "y"), 2);
  CU_ASSERT(weft_str_is(weft_test_node(g, "y")->controls[0]->name, "w"));
  CU_ASSERT(weft_str_is(weft_test_node(g, "y")->controls[1]->name, "both"));
  CU_ASSERT(weft_test_is_gone(g, "i"));
  weft_graph_destroy(g);
}

static void a_branch_keeps_its_pivot(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") NODE("p", "Placeholder", "", "attr{key:'dtype' value{type:DT_BOOL}}")
          NODE("s", "Switch", IN2("x", "p"), T_F) NODE("pivot", "Identity", IN1("s:1"), T_F)
              "node{name:'c' op:'Const' input:'^pivot' attr{key:'dtype' value{type:DT_FLOAT}} "
              "attr{key:'value' value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:1}}}} "
              NODE("y", "NoOp", IN1("^c"), ""),
      "dependencies", "y");
  CU_ASSERT(weft_str_is(weft_test_node(g, "c")->controls[0]->name, "pivot"));
  CU_ASSERT(weft_str_is(weft_test_node(g, "y")->controls[0]->name, "c"));
  weft_graph_destroy(g);
}

static void effects_keep_their_order(void) {
  weft_graph_t *g = weft_test_optimized1(
      NODE("v", "VarHandleOp", "", "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{}}}")
          FLOAT_CONST("one", "1")
              NODE("add", "AssignAddVariableOp", IN2("v", "one"), "attr{key:'dtype' value{type:DT_FLOAT}}")
                  NODE("read", "ReadVariableOp", "input:'v' input:'^add'",
                       "attr{key:'dtype' value{type:DT_FLOAT}}") NODE("y", "Neg", IN1("read"), T_F),
      "all", "y");
  CU_ASSERT_EQUAL(num_controls(g, "read"), 1);
  CU_ASSERT(weft_test_depends(g, weft_test_node(g, "y"), weft_test_node(g, "add")));
  weft_graph_destroy(g);
}

/* As in the gradients of a first layer: `dx` is only waited for, and so is then what it alone reads. */
#define UNREAD                                         \
  FED("x", "")                                         \
  FED("dy", "")                                        \
  NODE("t", "Neg", IN1("dy"), T_F)                     \
  NODE("dx", "Mul", IN2("t", "x"), T_F)                \
  NODE("dw", "Mul", IN2("dy", "x"), T_F)               \
  NODE("group", "NoOp", "input:'^dx' input:'^dw'", "") \
  NODE("y", "Identity", "input:'dw' input:'^group'", T_F)

static void what_is_only_waited_for_is_not_computed(void) {
  weft_graph_t *g = weft_test_optimized1(UNREAD, "dependencies", "y");
  CU_ASSERT_EQUAL(weft_test_count(g, "Neg"), 0);
  CU_ASSERT_EQUAL(weft_test_count(g, "Mul"), 1);
  CU_ASSERT(weft_test_depends(g, weft_test_node(g, "y"), weft_test_node(g, "x")));
  CU_ASSERT(weft_test_depends(g, weft_test_node(g, "y"), weft_test_node(g, "dy")));
  weft_graph_destroy(g);
}

static void a_target_and_a_check_are_computed(void) {
  weft_graph_t *g = weft_test_optimized(UNREAD, "dependencies", (const char *const[]){"y", "dx", NULL});
  CU_ASSERT_EQUAL(weft_test_count(g, "Mul"), 2);
  CU_ASSERT_EQUAL(weft_test_count(g, "Neg"), 1);
  weft_graph_destroy(g);
  g = weft_test_optimized1(FED("x", "")
                               NODE("c", "CheckNumerics", IN1("x"), T_F "attr{key:'message' value{s:'m'}}")
                                   NODE("y", "Neg", "input:'x' input:'^c'", T_F),
                           "dependencies", "y");
  CU_ASSERT_EQUAL(weft_test_count(g, "CheckNumerics"), 1);
  weft_graph_destroy(g);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"control inputs that order nothing are left out", control_inputs_that_order_nothing_are_left_out},
      {"waiting goes past identities and lone NoOps", waiting_goes_past_identities_and_lone_noops},
      {"a branch keeps its pivot", a_branch_keeps_its_pivot},
      {"effects keep their order", effects_keep_their_order},
      {"what is only waited for is not computed", what_is_only_waited_for_is_not_computed},
      {"a target and a check are computed", a_target_and_a_check_are_computed},
      CU_TEST_INFO_NULL,
  };
  const int status = weft_run_tests("dependencies", tests);
  weft_test_evaluator_destroy();
  return status;
}
