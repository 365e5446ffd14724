#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

static void equal_nodes_become_one(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") FLOAT_CONST("a", "3") FLOAT_CONST("b", "3") NODE("m", "Mul", IN2("x", "a"), T_F)
          NODE("n", "Mul", IN2("b", "x"), T_F) NODE("y", "Sub", IN2("m", "n"), T_F),
      "share", "y");
  CU_ASSERT_EQUAL(weft_test_count(g, "Mul"), 1);
  CU_ASSERT_EQUAL(weft_test_count(g, "Const"), 1);
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "y")->inputs[0].node, weft_test_node(g, "y")->inputs[1].node);
  weft_graph_destroy(g);
}

static void what_differs_stays_apart(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") FED("w", "") FLOAT_CONST("a", "0") FLOAT_CONST("b", "-0")
          NODE("m", "Mul", IN2("x", "a"), T_F) NODE("n", "Mul", IN2("x", "b"), T_F)
              NODE("o", "Sub", IN2("m", "n"), T_F) NODE("p", "Sub", IN2("n", "m"), T_F)
                  NODE("q", "Sub", "input:'n' input:'m' input:'^w'", T_F)
                      NODE("y", "AddN", IN3("o", "p", "q"), T_F "attr{key:'N' value{i:3}}"),
      "share", "y");
  CU_ASSERT_EQUAL(weft_test_count(g, "Const"), 2);
  CU_ASSERT_EQUAL(weft_test_count(g, "Mul"), 2);
  CU_ASSERT_EQUAL(weft_test_count(g, "Sub"), 3);
  weft_graph_destroy(g);
}

static void what_has_a_state_is_not_shared(void) {
  weft_graph_t *g = weft_test_optimized1(
      INTS_CONST("dims", "1", "int_val:3")
          NODE("r", "RandomUniform", IN1("dims"), T_I "attr{key:'dtype' value{type:DT_FLOAT}}")
              NODE("s", "RandomUniform", IN1("dims"), T_I "attr{key:'dtype' value{type:DT_FLOAT}}")
                  NODE("y", "Sub", IN2("r", "s"), T_F),
      "share", "y");
  CU_ASSERT_EQUAL(weft_test_count(g, "RandomUniform"), 2);
  weft_graph_destroy(g);
}

static void reads_of_a_variable_are_not_shared(void) {
  weft_graph_t *g = weft_test_optimized1(
      NODE("v", "VariableV2", "", "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{}}}")
          NODE("a", "Neg", IN1("v"), T_F) NODE("b", "Neg", IN1("v"), T_F)
              NODE("y", "Sub", IN2("a", "b"), T_F),
      "share", "y");
  CU_ASSERT_EQUAL(weft_test_count(g, "Neg"), 2);
  weft_graph_destroy(g);
}

static void a_kept_node_stays_and_those_that_wait_wait_for_the_one_left(void) {
  const char *const keep[] = {"y", "n", NULL};
  weft_graph_t *g =
      weft_test_optimized(FED("x", "") NODE("m", "Exp", IN1("x"), T_F) NODE("n", "Exp", IN1("x"), T_F)
                              NODE("o", "Exp", IN1("x"), T_F) NODE("y", "Neg", "input:'x' input:'^o'", T_F),
                          "share", keep);
  CU_ASSERT_EQUAL(weft_test_count(g, "Exp"), 2);
  CU_ASSERT(weft_str_is(weft_test_node(g, "y")->controls[0]->name, "m"));
  weft_graph_destroy(g);
}

static void devices_keep_their_own(void) {
  weft_graph_t *g =
      weft_test_optimized1(FED("x", "") "node{name:'m' op:'Exp' input:'x' device:'/device:CPU:0' " T_F
                                        "} "
                                        "node{name:'n' op:'Exp' input:'x' device:'/device:CPU:1' " T_F
                                        "} " NODE("y", "Sub", IN2("m", "n"), T_F),
                           "share", "y");
  CU_ASSERT_EQUAL(weft_test_count(g, "Exp"), 2);
  weft_graph_destroy(g);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"equal nodes become one", equal_nodes_become_one},
      {"what differs stays apart", what_differs_stays_apart},
      {"what has a state is not shared", what_has_a_state_is_not_shared},
      {"reads of a variable are not shared", reads_of_a_variable_are_not_shared},
      {"a kept node stays, and those that wait wait for the one left",
       a_kept_node_stays_and_those_that_wait_wait_for_the_one_left},
      {"devices keep their own", devices_keep_their_own},
      CU_TEST_INFO_NULL,
  };
  const int status = weft_run_tests("share", tests);
  weft_test_evaluator_destroy();
  return status;
}
