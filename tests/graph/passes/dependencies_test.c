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

int main(void) {
  const CU_TestInfo tests[] = {
      {"control inputs that order nothing are left out", control_inputs_that_order_nothing_are_left_out},
      {"waiting goes past identities and lone NoOps", waiting_goes_past_identities_and_lone_noops},
      {"a branch keeps its pivot", a_branch_keeps_its_pivot},
      {"effects keep their order", effects_keep_their_order},
      CU_TEST_INFO_NULL,
  };
  const int status = weft_run_tests("dependencies", tests);
  weft_test_evaluator_destroy();
  return status;
}
