/* What is done once per id. */
#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }
static const weft_value_t none = {NULL, NULL};

/* The step ends; another begins. */
static void next_step(void) {
  weft_step_container_destroy(bench.container);
  CU_ASSERT_PTR_NULL_FATAL(weft_step_container_create(&bench.container));
}

#define ONCE "WeftOnce", "shared_name=g"
#define DONE "WeftOnceDone", "shared_name=g"

static void an_id_that_is_done_is_not_new(void) {
  begin();
  weft_expect(&bench, none, ONCE, "int64[]:7", "bool[]:1");
  weft_expect(&bench, none, ONCE, "int64[]:7", "bool[]:1"); /* the same step: its updates belong together */
  weft_expect(&bench, none, DONE, "int64[]:7", "");
  next_step();
  weft_expect(&bench, none, ONCE, "int64[]:7", "bool[]:0");
  weft_expect(&bench, none, ONCE, "int64[]:-8", "bool[]:1");
  weft_expect(&bench, none, "WeftOnce", "shared_name=other", "int64[]:7", "bool[]:1");
  weft_expect(&bench, none, DONE, "int64[]:9", "FAILED_PRECONDITION: this step has not claimed id 9 of 'g'");
  weft_expect(&bench, none, "WeftOnce", "", "int64[]:9",
              "INVALID_ARGUMENT: n needs a shared_name: the guard outlives the graph");
  end();
}

static void a_step_that_ends_before_it_is_done_leaves_no_trace(void) {
  begin();
  weft_expect(&bench, none, ONCE, "int64[]:7", "bool[]:1");
  next_step();
  weft_expect(&bench, none, ONCE, "int64[]:7", "bool[]:1");
  weft_expect(&bench, none, DONE, "int64[]:7", "");
  next_step();
  weft_expect(&bench, none, ONCE, "int64[]:7", "bool[]:0");
  end();
}

static void the_oldest_of_more_than_the_window_is_forgotten(void) {
  static const char *const ids[] = {"int64[]:1", "int64[]:2", "int64[]:3"};
  begin();
  for (int i = 0; i < 3; i++) {
    weft_expect(&bench, none, "WeftOnce", "shared_name=g window=2", ids[i], "bool[]:1");
    weft_expect(&bench, none, "WeftOnceDone", "shared_name=g window=2", ids[i], "");
    next_step();
  }
  weft_expect(&bench, none, "WeftOnce", "shared_name=g window=2", ids[2], "bool[]:0");
  weft_expect(&bench, none, "WeftOnce", "shared_name=g window=2", ids[1], "bool[]:0");
  weft_expect(&bench, none, "WeftOnce", "shared_name=g window=2", ids[0], "bool[]:1");
  end();
}

static void a_request_waits_while_another_step_does_it(void) {
  weft_step_container_t *first;
  begin();
  weft_expect(&bench, none, ONCE, "int64[]:7", "bool[]:1");
  first = bench.container;
  CU_ASSERT_PTR_NULL_FATAL(weft_step_container_create(&bench.container));
  weft_canceller_cancel(bench.canceller);
  weft_expect(&bench, none, ONCE, "int64[]:7",
              "CANCELLED: The wait for another step that does the same was cancelled");
  weft_step_container_destroy(first);
  end();
}

static void updates_happen_once_per_id_and_variable(void) {
  begin();
  weft_made_t v = weft_make(&bench, "VarHandleOp", "dtype=float shape=[2] shared_name=v");
  weft_made_t w = weft_make(&bench, "VarHandleOp", "dtype=float shape=[2] shared_name=w");
  weft_expect(&bench, v.value, "WeftOnceAssignAdd", "dtype=float", "int64[]:1 float[2]:1,2",
              "NOT_FOUND: Container localhost does not exist. (Could not find resource: localhost/v)");
  weft_expect(&bench, v.value, "AssignVariableOp", "", "float[2]:1,2", "");
  weft_expect(&bench, w.value, "AssignVariableOp", "", "float[2]:0,0", "");
  weft_expect(&bench, v.value, "WeftOnceAssignAdd", "dtype=float", "int64[]:5 float[2]:10,20", "bool[]:1");
  weft_expect(&bench, v.value, "WeftOnceAssignAdd", "dtype=float", "int64[]:5 float[2]:10,20", "bool[]:0");
  weft_expect(&bench, w.value, "WeftOnceAssignAdd", "dtype=float", "int64[]:5 float[2]:3,4", "bool[]:1");
  weft_expect(&bench, v.value, "WeftOnceAssignSub", "dtype=float", "int64[]:6 float[2]:1,1", "bool[]:1");
  weft_expect(&bench, v.value, "WeftOnceAssignAdd", "dtype=float", "int64[]:7 float[3]:1,1,1",
              "INVALID_ARGUMENT: Cannot update variable with shape [2] using a Tensor with shape [3], shapes "
              "must be equal.");
  weft_expect(&bench, v.value, "WeftOnceAssignAdd", "dtype=float", "int64[]:7 float[2]:0,1",
              "bool[]:1"); /* it was not done */
  weft_expect(&bench, v.value, "ReadVariableOp", "dtype=float", "", "float[2]:10,22");
  weft_expect(&bench, w.value, "ReadVariableOp", "dtype=float", "", "float[2]:3,4");
  weft_made_drop(&v);
  weft_made_drop(&w);
  end();
}

static const CU_TestInfo tests[] = {
    {"an id that is done is not new", an_id_that_is_done_is_not_new},
    {"a step that ends before it is done leaves no trace",
     a_step_that_ends_before_it_is_done_leaves_no_trace},
    {"the oldest of more than the window is forgotten", the_oldest_of_more_than_the_window_is_forgotten},
    {"a request waits while another step does it", a_request_waits_while_another_step_does_it},
    {"updates happen once per id and variable", updates_happen_once_per_id_and_variable},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv_once", tests); }
