/* tests/coordinator/once_test.c - T-CC-8: many calls while workers are killed at random; updates that take
 * effect once. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/coordinator/fleet.h"
#include "weft/sharded_variable.h"

/* Adds 1 to `counter` once per call, and 1 to `runs` in every run. */
static void build_once(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *ps = WEFT_WorkerContextParameterServerDevice(x, 0);
  TF_Output one = fleet_const(g, WEFT_WorkerContextDevice(x), "one", 1, s), guarded;
  WEFT_WorkerContextApplyOnce(x, g, 0, &one, 1, &guarded, s);
  if (TF_GetCode(s) != TF_OK) return;
  WEFT_WorkerContextAddTarget(x, fleet_add(g, ps, fleet_var(g, ps, "counter", s), guarded, NULL, s));
  WEFT_WorkerContextAddTarget(x, fleet_add(g, ps, fleet_var(g, ps, "runs", s), one, NULL, s));
}

/* The same, but the run ends only when an element of `gate` comes: after the update. */
static void build_once_then_gate(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *ps = WEFT_WorkerContextParameterServerDevice(x, 0);
  TF_Output one = fleet_const(g, WEFT_WorkerContextDevice(x), "one", 1, s), guarded;
  WEFT_WorkerContextApplyOnce(x, g, 0, &one, 1, &guarded, s);
  if (TF_GetCode(s) != TF_OK) return;
  TF_Operation *add = fleet_add(g, ps, fleet_var(g, ps, "counter", s), guarded, NULL, s);
  TF_OperationDescription *d = TF_NewOperation(g, "QueueEnqueueV2", "tell"); /* only in the run that adds */
  TF_AddInput(d, fleet_queue(g, ps, "added", s));
  TF_AddInputList(d, &guarded, 1);
  TF_AddControlInput(d, add);
  TF_SetDevice(d, ps);
  WEFT_WorkerContextAddTarget(x, TF_FinishOperation(d, s));
  TF_Operation *arrived = fleet_enqueue(g, ps, fleet_queue(g, ps, "arrived", s), one, s);
  WEFT_WorkerContextAddTarget(x, fleet_dequeue(g, ps, fleet_queue(g, ps, "gate", s), arrived, s));
}

static WEFT_Closure *closure_of(fleet_t *f, WEFT_BuildFn build) {
  WEFT_Closure *c = WEFT_NewClosure(f->coordinator, build, NULL, NULL, f->s);
  ASSERT_OK(f);
  return c;
}

/* The worker dies when the update is done and the call is not. */
static double count_after_kill(bool once) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "counter", 0);
  f.options.effectively_once = once;
  fleet_coordinate(&f);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 0, 1);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 1, 1);
  WEFT_Closure *c = closure_of(&f, build_once_then_gate);
  fleet_schedule_many(&f, c, 1);
  fleet_take(&f, "added");
  fleet_take(&f, "arrived");
  int victim = fleet_count(&f, WEFT_EVENT_CLOSURE_STARTED, 0) > 0 ? 0 : 1;
  fleet_kill_worker(&f, victim);
  fleet_take(&f, "arrived"); /* the other one has it */
  fleet_give(&f, "gate", 2);
  fleet_join(&f);
  double n = fleet_variable(&f, "counter");
  WEFT_DeleteClosure(c);
  fleet_close(&f);
  return n;
}

static void an_update_whose_worker_dies_behind_it_is_not_done_again(void) {
  CU_ASSERT_DOUBLE_EQUAL(count_after_kill(true), 1, 0);
}

static void without_the_option_it_is_done_again(void) {
  CU_ASSERT_DOUBLE_EQUAL(count_after_kill(false), 2, 0);
}

/* T-CC-8 */
enum { CALLS = 10000, WORKERS = 3, KILLS = 12 };

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void ten_thousand_calls_survive_random_kills(bool once) {
  fleet_t f;
  const char *text = getenv("WEFT_TEST_SEED");
  uint32_t random = text == NULL ? 1 : (uint32_t)strtoul(text, NULL, 10);
  fleet_open(&f, 1, WORKERS);
  fleet_set_variable(&f, "counter", 0);
  fleet_set_variable(&f, "runs", 0);
  f.options.effectively_once = once;
  fleet_coordinate(&f);
  WEFT_Closure *c = closure_of(&f, build_once);
  int64_t begin = weft_clock_ns();
  fleet_schedule_many(&f, c, CALLS);
  for (int i = 0; i < KILLS; i++) { /* at a random call, a random worker, which comes back at once */
    int done = CALLS / (KILLS + 1) * i + (int)(next_random(&random) % (CALLS / (KILLS + 1)));
    if (!fleet_await(&f, WEFT_EVENT_CLOSURE_DONE, -1, done)) break;
    int victim = (int)(next_random(&random) % WORKERS);
    fleet_kill_worker(&f, victim);
    fleet_start_worker(&f, victim);
  }
  fleet_join(&f);
  double counter = fleet_variable(&f, "counter"), runs = fleet_variable(&f, "runs");
  printf(" (%.0f counted, %.0f runs, %d put back, %d workers lost, %.1f s)", counter, runs,
         fleet_count(&f, WEFT_EVENT_CLOSURE_PUT_BACK, -1), fleet_count(&f, WEFT_EVENT_WORKER_LOST, -1),
         (double)(weft_clock_ns() - begin) / 1e9);
  CU_ASSERT_EQUAL(fleet_count(&f, WEFT_EVENT_CLOSURE_DONE, -1), CALLS);
  CU_ASSERT_TRUE(fleet_count(&f, WEFT_EVENT_WORKER_LOST, -1) > 0);
  if (once) CU_ASSERT_DOUBLE_EQUAL(counter, CALLS, 0);
  CU_ASSERT_TRUE(counter >= CALLS);
  WEFT_DeleteClosure(c);
  fleet_close(&f);
}

static void effectively_once_is_exactly_once(void) { ten_thousand_calls_survive_random_kills(true); }
static void at_least_once_is_at_least_once(void) { ten_thousand_calls_survive_random_kills(false); }

/* Guards on several servers at once: each row gets each call's update once. */
enum { ROWS = 8 };

static void build_rows(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const int64_t dims[] = {ROWS}, all[] = {ROWS};
  int32_t ids[ROWS];
  double ones[ROWS];
  for (int i = 0; i < ROWS; i++) ids[i] = i, ones[i] = 1;
  const char *devices[] = {WEFT_WorkerContextParameterServerDevice(x, 0),
                           WEFT_WorkerContextParameterServerDevice(x, 1)};
  WEFT_ShardedVariable *v = WEFT_NewShardedVariable(g, "rows", TF_DOUBLE, dims, 1, "fixed:2", devices, 2, s);
  if (v == NULL) return;
  TF_Tensor *t[2] = {new_ints(1, all, ids), new_doubles(1, all, ones)};
  TF_Output in[2];
  for (int i = 0; i < 2; i++) {
    TF_OperationDescription *d = TF_NewOperation(g, "Const", i == 0 ? "ids" : "ones");
    TF_SetAttrType(d, "dtype", TF_TensorType(t[i]));
    TF_SetAttrTensor(d, "value", t[i], s);
    in[i] = (TF_Output){TF_FinishOperation(d, s), 0};
    TF_DeleteTensor(t[i]);
  }
  if (*(bool *)user)
    WEFT_WorkerContextAddTarget(x, WEFT_ShardedVariableAssign(v, "zero", in[1], s));
  else
    WEFT_WorkerContextAddTarget(x, WEFT_ShardedVariableScatterAdd(v, "add", in[0], in[1], x, s));
  WEFT_DeleteShardedVariable(v);
}

static void build_look(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const int64_t dims[] = {ROWS};
  const char *devices[] = {WEFT_WorkerContextParameterServerDevice(x, 0),
                           WEFT_WorkerContextParameterServerDevice(x, 1)};
  WEFT_ShardedVariable *v = WEFT_NewShardedVariable(g, "rows", TF_DOUBLE, dims, 1, "fixed:2", devices, 2, s);
  if (v == NULL) return;
  WEFT_WorkerContextAddOutput(x, WEFT_ShardedVariableRead(v, "all", s));
  WEFT_DeleteShardedVariable(v);
}

static void guards_on_two_servers_count_each_call_once(void) {
  fleet_t f;
  bool is_init = true, is_step = false;
  enum { STEPS = 400 };
  fleet_open(&f, 2, 2);
  f.options.effectively_once = 1;
  fleet_coordinate(&f);
  WEFT_Closure *init = WEFT_NewClosure(f.coordinator, build_rows, &is_init, NULL, f.s);
  WEFT_Closure *step = WEFT_NewClosure(f.coordinator, build_rows, &is_step, NULL, f.s),
               *look = closure_of(&f, build_look);
  fleet_schedule_many(&f, init, 1);
  fleet_join(&f);
  fleet_schedule_many(&f, step, STEPS);
  for (int i = 1; i <= 3; i++) {
    fleet_await(&f, WEFT_EVENT_CLOSURE_DONE, -1, STEPS / 4 * i);
    fleet_kill_worker(&f, i % 2);
    fleet_start_worker(&f, i % 2);
  }
  fleet_join(&f);
  TF_Tensor *t = NULL;
  WEFT_RemoteValue *v = fleet_schedule(&f, look, NULL, 0);
  WEFT_Fetch(v, &t, 1, f.s);
  ASSERT_OK(&f);
  for (int i = 0; i < ROWS; i++) CU_ASSERT_DOUBLE_EQUAL(((double *)TF_TensorData(t))[i], STEPS + 1, 0);
  TF_DeleteTensor(t);
  WEFT_RemoteValueRelease(v);
  WEFT_DeleteClosure(init);
  WEFT_DeleteClosure(step);
  WEFT_DeleteClosure(look);
  fleet_close(&f);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"an update whose worker dies behind it is not done again",
       an_update_whose_worker_dies_behind_it_is_not_done_again},
      {"without the option it is done again", without_the_option_it_is_done_again},
      {"effectively once is exactly once", effectively_once_is_exactly_once},
      {"at least once is at least once", at_least_once_is_at_least_once},
      {"guards on two servers count each call once", guards_on_two_servers_count_each_call_once},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("once", tests);
}
