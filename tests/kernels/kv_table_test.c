/* The kernels of tables of keys and values: rules, policies, requests seen twice, snapshots, cutting keys by
 * server. */
#include <stdio.h>
#include <string.h>

#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }

#define RUN(value, calls) weft_expect_all(&bench, value, calls, sizeof(calls) / sizeof((calls)[0]))
#define PUSH "WeftKvPush", "dtype=float"
#define PULL "WeftKvPull", "dtype=float"
#define ANY_WORKER " int64[]:-1 int64[]:-1 int64[]:0"

static void pushes_add_up(void) {
  static const weft_call_t calls[] = {
      {PULL, "int64[2]:5,-7 int64[]:-1 int64[]:-1", "float[2,2]:0.5,0.5,0.5,0.5 int64[]:0"},
      {"WeftKvSize", "", "", "int64[]:0"}, /* looking makes no rows */
      {PUSH, "int64[2]:5,-7 float[2,2]:1,2,3,4" ANY_WORKER, "bool[]:1 int64[]:0"},
      {PUSH, "int64[3]:5,5,9 float[3,2]:1,1,1,1,8,8" ANY_WORKER, "bool[]:1 int64[]:0"},
      {PULL, "int64[3]:9,-7,5 int64[]:-1 int64[]:-1", "float[3,2]:8.5,8.5,3.5,4.5,3.5,4.5 int64[]:0"},
      {"WeftKvSize", "", "", "int64[]:3"},
      {PUSH, "int64[0]: float[0,2]:" ANY_WORKER, "bool[]:1 int64[]:0"},
      {PULL, "int64[0]: int64[]:-1 int64[]:-1", "float[0,2]: int64[]:0"},
      {PUSH, "int64[1]:5 float[1,3]:1,2,3" ANY_WORKER,
       "INVALID_ARGUMENT: 1 keys of width 2 cannot have values of shape [1,3]"},
      {PUSH, "int64[1,1]:5 float[1,2]:1,2" ANY_WORKER,
       "INVALID_ARGUMENT: keys must be a vector, but have shape [1,1]"},
      {"WeftKvPush", "dtype=double", "int64[1]:5 double[1,2]:1,2" ANY_WORKER,
       "INVALID_ARGUMENT: WeftKvPush of double on a table of float"},
      {PUSH, "int64[1]:5 float[1,2]:1,2 int64[]:-2 int64[]:-1 int64[]:0",
       "INVALID_ARGUMENT: worker -2 is below -1"},
      {"WeftKvPullLens", "dtype=float", "int64[1]:5 int64[]:-1 int64[]:-1",
       "INVALID_ARGUMENT: a table with a width gives no lens"},
      {PUSH, "int64[1]:6 float[1,2]:0,0" ANY_WORKER, "RESOURCE_EXHAUSTED: no room for key 6 beside 3 others"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "dtype=float width=2 init_value=0.5 max_rows=3");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

static void every_rule_does_its_own(void) {
  static const struct {
    const char *attrs, *after_one, *after_two;
  } rules[] = {
      {"apply=assign", "float[1,1]:2 int64[]:0", "float[1,1]:4 int64[]:0"},
      {"apply=add", "float[1,1]:2 int64[]:0", "float[1,1]:6 int64[]:0"},
      {"apply=sgd learning_rate=0.5", "float[1,1]:-1 int64[]:0", "float[1,1]:-3 int64[]:0"},
      {"apply=momentum learning_rate=0.5 momentum=0.5", "float[1,1]:-1 int64[]:0",
       "float[1,1]:-3.5 int64[]:0"},
      {"apply=adagrad learning_rate=1", "float[1,1]:-1 int64[]:0", NULL},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    begin();
    weft_made_t t = weft_make(&bench, "WeftKvTable", rules[i].attrs);
    weft_expect(&bench, t.value, PUSH, "int64[1]:1 float[1,1]:2" ANY_WORKER, "bool[]:1 int64[]:0");
    weft_expect(&bench, t.value, PULL, "int64[1]:1 int64[]:-1 int64[]:-1", rules[i].after_one);
    weft_expect(&bench, t.value, PUSH, "int64[1]:1 float[1]:4" ANY_WORKER, "bool[]:1 int64[]:0");
    if (rules[i].after_two != NULL)
      weft_expect(&bench, t.value, PULL, "int64[1]:1 int64[]:-1 int64[]:-1", rules[i].after_two);
    weft_made_drop(&t);
    end();
  }
}

static void rows_may_have_lengths_of_their_own(void) {
  static const weft_call_t calls[] = {
      {"WeftKvPushLens", "dtype=float", "int64[2]:1,2 float[5]:1,2,3,4,5 int64[2]:2,3" ANY_WORKER,
       "bool[]:1 int64[]:0"},
      {"WeftKvPullLens", "dtype=float", "int64[3]:2,7,1 int64[]:-1 int64[]:-1",
       "float[5]:3,4,5,1,2 int64[3]:3,0,2 int64[]:0"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[2]:1,1 int64[1]:2" ANY_WORKER,
       "bool[]:1 int64[]:0"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[3]:1,1,1 int64[1]:3" ANY_WORKER,
       "INVALID_ARGUMENT: key 1 has 2 values, not 3"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[3]:1,1,1 int64[1]:2" ANY_WORKER,
       "INVALID_ARGUMENT: the lens add up to 2, but there are 3 values"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[3]:1,1,1 int64[1]:4" ANY_WORKER,
       "INVALID_ARGUMENT: key 1 has a length of 4 of 3 values"},
      {PUSH, "int64[1]:1 float[1,1]:1" ANY_WORKER, "INVALID_ARGUMENT: a table without a width needs lens"},
      {"WeftKvPullLens", "dtype=float", "int64[1]:1 int64[]:-1 int64[]:-1",
       "float[2]:2,3 int64[1]:2 int64[]:0"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "width=0");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

static void a_request_that_was_seen_is_not_applied_again(void) {
  static const weft_call_t calls[] = {
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10", "bool[]:0 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:4 int64[]:-1 int64[]:10",
       "bool[]:1 int64[]:0"}, /* another worker's */
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:9",
       "bool[]:1 int64[]:0"}, /* out of order */
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:9", "bool[]:0 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:2000", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:976",
       "bool[]:0 int64[]:0"}, /* too old to tell */
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:977", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,2]:1,1 int64[]:3 int64[]:-1 int64[]:2001",
       "INVALID_ARGUMENT: 1 keys of width 1 cannot have values of shape [1,2]"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:2001",
       "bool[]:1 int64[]:0"}, /* the failure was not seen */
      {PULL, "int64[1]:1 int64[]:-1 int64[]:-1", "float[1,1]:6 int64[]:0"},
      {"WeftKvAttach", "", "int64[]:3", "int64[]:0 int64[]:2001"},
      {"WeftKvAttach", "", "int64[]:8", "int64[]:0 int64[]:0"},
      {"WeftKvAttach", "greets=true", "int64[]:8", "int64[]:0 int64[]:0"},
      {"WeftKvAttach", "", "int64[]:8", "int64[]:0 int64[]:1"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

/* ---- policies ---- */

#define PUSH_PULL "WeftKvPushPull", "dtype=float"

static void bulk_synchronous_pushes_wait_for_all(void) {
  static const weft_call_t calls[] = {
      {"WeftKvPush", "dtype=float advance=true", "int64[1]:1 float[1,1]:6 int64[]:1 int64[]:0 int64[]:1",
       "bool[]:1 int64[]:0"},
      {PULL, "int64[1]:1 int64[]:0 int64[]:-1", "float[1,1]:0 int64[]:0"}, /* worker 0 is still at clock 0 */
      {PUSH_PULL, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:0 int64[]:1", "float[1,1]:-4 int64[]:1"},
      {PULL, "int64[1]:1 int64[]:1 int64[]:1", "float[1,1]:-4 int64[]:1"},
      {PUSH, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:0 int64[]:2", "bool[]:0 int64[]:1"}, /* too late */
      {PUSH, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:5 int64[]:3",
       "FAILED_PRECONDITION: worker 0 pushes for clock 5, but is at 1"},
      {"WeftClockRead", "", "", "int64[2]:1,1"},
      {"WeftClockRemove", "", "int64[]:1", ""},
      {PUSH_PULL, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:-1 int64[]:4",
       "float[1,1]:-6 int64[]:2"}, /* alone now */
      {PULL, "int64[1]:1 int64[]:2 int64[]:-1",
       "INVALID_ARGUMENT: worker 2 is not one of the 2 workers of the clock"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable",
                            "apply=sgd learning_rate=1 num_workers=2 policy=BSP reduction_type=MEAN");
  RUN(t.value, calls);
  weft_canceller_cancel(bench.canceller);
  weft_expect(&bench, t.value, PULL, "int64[1]:1 int64[]:0 int64[]:9", "CANCELLED: The pull was cancelled");
  weft_made_drop(&t);
  end();
}

static void the_first_k_of_w_count(void) {
  static const weft_call_t calls[] = {
      {PUSH, "int64[1]:1 float[1,1]:3 int64[]:2 int64[]:0 int64[]:1", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:5 int64[]:0 int64[]:0 int64[]:1", "bool[]:1 int64[]:1"},
      {PULL, "int64[1]:1 int64[]:0 int64[]:-1", "float[1,1]:4 int64[]:1"},
      {PUSH, "int64[1]:1 float[1,1]:100 int64[]:1 int64[]:0 int64[]:1",
       "bool[]:0 int64[]:1"},                                              /* late: dropped */
      {PULL, "int64[1]:1 int64[]:1 int64[]:-1", "float[1,1]:4 int64[]:1"}, /* and goes on with the others */
      {PUSH, "int64[1]:1 float[1,1]:2 int64[]:1 int64[]:1 int64[]:2", "bool[]:1 int64[]:1"},
      {PUSH, "int64[1]:1 float[1,1]:4 int64[]:2 int64[]:1 int64[]:2", "bool[]:1 int64[]:2"},
      {PULL, "int64[1]:1 int64[]:1 int64[]:-1", "float[1,1]:7 int64[]:2"},
  };
  begin();
  weft_made_t t =
      weft_make(&bench, "WeftKvTable", "num_workers=3 policy=K_OF_W required=2 reduction_type=MEAN");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

/* ---- snapshots ---- */

static void a_snapshot_knows_which_requests_were_seen(void) {
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "shared_name=t");
  weft_made_t u = weft_make(&bench, "WeftKvTable", "shared_name=u");
  weft_harness_t *h = NULL;
  weft_value_t in[6] = {{NULL, NULL}}, out[5] = {{NULL, NULL}};
  static const int types[6] = {WEFT_RESOURCE, WEFT_I64, WEFT_F32, WEFT_I64, WEFT_F32, WEFT_I64};
  weft_expect(&bench, t.value, PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10",
              "bool[]:1 int64[]:0");
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&bench, "WeftKvExport", "dtype=float", types, 1, &h));
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_values(h, &t.value, out));
  weft_harness_destroy(h);
  in[0] = u.value;
  memcpy(in + 1, out, sizeof out);
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&bench, "WeftKvImport", "dtype=float", types, 6, &h));
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_values(h, in, NULL));
  weft_harness_destroy(h);
  for (int i = 0; i < 5; i++) weft_tensor_release(out[i].tensor);
  weft_expect(&bench, u.value, PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10",
              "bool[]:0 int64[]:0");
  weft_expect(&bench, u.value, PULL, "int64[1]:1 int64[]:-1 int64[]:-1", "float[1,1]:1 int64[]:0");
  weft_made_drop(&t);
  weft_made_drop(&u);
  end();
}

static void tables_that_cannot_work_are_refused(void) {
  static const struct {
    const char *attrs, *text;
  } cases[] = {
      {"dtype=int32 apply=sgd", "a table of int32 can assign or add, nothing else"},
      {"policy=BSP", "a table whose policy is not ASP needs num_workers"},
      {"policy=BSP num_workers=2 width=0", "rows of different lengths cannot be gathered"},
      {"policy=K_OF_W num_workers=2", "`required` is 0"},
      {"width=99999999", "width must be at most"},
      {"num_workers=1 worker_tasks=['a','b']", "worker_tasks has 2 entries for 1 workers"},
  };
  begin();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_tensor_t *out[1] = {NULL};
    int n = 0;
    weft_status_t *s = weft_run_op(&bench, "WeftKvTable", cases[i].attrs, NULL, 0, out, 1, &n);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), cases[i].text));
    if (strstr(weft_status_message(s), cases[i].text) == NULL) printf("\n    %s\n", weft_status_message(s));
    weft_status_free(s);
    weft_tensor_release(out[0]);
  }
  end();
}

/* ---- cutting by server ---- */

static void keys_are_cut_by_server_and_merged(void) {
  static const weft_value_t none = {NULL, NULL};
  begin();
  weft_expect(&bench, none, "WeftKvSlice", "N=3 by=range max_key=10",
              "int64[5]:9,0,3,0,4 float[5,1]:1,2,3,4,5",
              "int64[2]:0,3 int64[1]:4 int64[1]:9 float[2,1]:6,3 float[1,1]:5 float[1,1]:1");
  weft_expect(&bench, none, "WeftKvSlice", "N=2 by=range max_key=10", "int64[1]:1 float[1]:7",
              "int64[1]:1 int64[0]: float[1]:7 float[0]:");
  weft_expect(&bench, none, "WeftKvSlice", "N=2 by=range max_key=10", "int64[1]:10 float[1]:7",
              "INVALID_ARGUMENT: key 10 is not in [0, 10)");
  weft_expect(&bench, none, "WeftKvSlice", "N=2", "int64[2]:1,2 float[1]:7",
              "INVALID_ARGUMENT: keys of shape [2] cannot have values of shape [1]");
  weft_expect(&bench, none, "WeftKvMerge", "N=2",
              "int64[4]:9,0,3,9 int64[2]:0,3 int64[1]:9 float[2,2]:1,2,3,4 float[1,2]:5,6",
              "float[4,2]:5,6,1,2,3,4,5,6");
  weft_expect(&bench, none, "WeftKvMerge", "N=1", "int64[1]:8 int64[1]:9 float[1]:1",
              "INVALID_ARGUMENT: no piece has key 8");
  end();
}

static const CU_TestInfo tests[] = {
    {"pushes add up", pushes_add_up},
    {"every rule does its own", every_rule_does_its_own},
    {"rows may have lengths of their own", rows_may_have_lengths_of_their_own},
    {"a request that was seen is not applied again", a_request_that_was_seen_is_not_applied_again},
    {"bulk synchronous pushes wait for all", bulk_synchronous_pushes_wait_for_all},
    {"the first k of W count", the_first_k_of_w_count},
    {"a snapshot knows which requests were seen", a_snapshot_knows_which_requests_were_seen},
    {"tables that cannot work are refused", tables_that_cannot_work_are_refused},
    {"keys are cut by server and merged", keys_are_cut_by_server_and_merged},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv_table", tests); }
