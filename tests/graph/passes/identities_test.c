#include "tests/graph/passes/optimized.h"
#include "tests/runner.h"

static void consumers_read_past_identities(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") NODE("i", "Identity", IN1("x"), T_F) NODE("s", "StopGradient", IN1("i"), T_F)
          NODE("n", "IdentityN", IN2("s", "x"), "attr{key:'T' value{list{type:DT_FLOAT type:DT_FLOAT}}}")
              NODE("c", "Cast", IN1("n:1"),
                   "attr{key:'SrcT' value{type:DT_FLOAT}} attr{key:'DstT' value{type:DT_FLOAT}}")
                  NODE("y", "Sub", IN2("n", "c"), T_F),
      "identities", "y");
  CU_ASSERT(weft_test_reads(g, "y", 0, "x"));
  CU_ASSERT(weft_test_reads(g, "y", 1, "x"));
  CU_ASSERT_EQUAL(g->num_live, 2);
  weft_graph_destroy(g);
}

static void an_identity_that_waits_or_is_waited_for_stays(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") FED("before", "") NODE("late", "Identity", "input:'x' input:'^before'", T_F)
          NODE("i", "Identity", IN1("x"), T_F) NODE("z", "Neg", "input:'x' input:'^i'", T_F)
              NODE("y", "Sub", IN2("late", "z"), T_F),
      "identities", "y");
  CU_ASSERT(weft_test_reads(g, "y", 0, "late"));
  CU_ASSERT_EQUAL(weft_test_node(g, "z")->num_controls, 1);
  weft_graph_destroy(g);
}

static void a_value_is_not_read_on_another_device(void) {
  weft_graph_t *g = weft_test_optimized1(
      FED("x", "") "node{name:'there' op:'Identity' input:'x' device:'/device:CPU:1' " T_F
                   "} "
                   "node{name:'y' op:'Neg' input:'there' device:'/device:CPU:1' " T_F
                   "} "
                   "node{name:'z' op:'Neg' input:'there' device:'/device:CPU:1' " T_F "} ",
      "identities", "y");
  CU_ASSERT(weft_test_reads(g, "y", 0, "there"));
  weft_graph_destroy(g);
}

#define VARIABLE(name) \
  NODE(name, "VariableV2", "", "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{}}}")

static void a_read_of_a_variable_stays(void) {
  weft_graph_t *g = weft_test_optimized1(VARIABLE("v") NODE("read", "Identity", IN1("v"), T_F)
                                             NODE("again", "Identity", IN1("read"), T_F)
                                                 NODE("y", "Neg", IN1("again"), T_F),
                                         "identities", "y");
  CU_ASSERT(weft_test_reads(g, "y", 0, "read"));
  CU_ASSERT(weft_test_is_gone(g, "again"));
  weft_graph_destroy(g);
}

static void what_a_switch_decides_is_left_alone(void) {
  weft_graph_t *g =
      weft_test_optimized1(FED("x", "") NODE("p", "Placeholder", "", "attr{key:'dtype' value{type:DT_BOOL}}")
                               NODE("s", "Switch", IN2("x", "p"), T_F) NODE("t", "Identity", IN1("s:1"), T_F)
                                   NODE("u", "Identity", IN1("t"), T_F) NODE("y", "Neg", IN1("u"), T_F),
                           "identities", "y");
  CU_ASSERT(weft_test_reads(g, "y", 0, "t"));
  weft_graph_destroy(g);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"consumers read past identities", consumers_read_past_identities},
      {"an identity that waits or is waited for stays", an_identity_that_waits_or_is_waited_for_stays},
      {"a value is not read on another device", a_value_is_not_read_on_another_device},
      {"a read of a variable stays", a_read_of_a_variable_stays},
      {"what a switch decides is left alone", what_a_switch_decides_is_left_alone},
      CU_TEST_INFO_NULL,
  };
  const int status = weft_run_tests("identities", tests);
  weft_test_evaluator_destroy();
  return status;
}
