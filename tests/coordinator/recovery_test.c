/* tests/coordinator/recovery_test.c - what happens to calls when workers and parameter servers die: T-CC-1 to
 * T-CC-5, T-CC-8, T-CC-11. Real processes, killed at named events. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tests/coordinator/fleet.h"
#include "tests/pace.h"

static WEFT_Closure *closure_of(fleet_t *f, WEFT_BuildFn build, void *user) {
  WEFT_Closure *c = WEFT_NewClosure(f->coordinator, build, user, NULL, f->s);
  ASSERT_OK(f);
  return c;
}

/* Ends when the process has stopped: what it was doing may still have gone on for a moment. */
static void stop_process(const weft_test_process_t *p) {
  siginfo_t info;
  kill(p->pid, SIGSTOP);
  CU_ASSERT_EQUAL(waitid(P_PID, (id_t)p->pid, &info, WSTOPPED), 0);
}

/* T-CC-1 */
static void a_worker_killed_between_batches_loses_nothing(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *add = closure_of(&f, fleet_build_add, NULL);
  fleet_schedule_many(&f, add, 2);
  fleet_join(&f);
  CU_ASSERT_DOUBLE_EQUAL(fleet_variable(&f, "counter"), 2, 0);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 0, 1);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 1, 1);
  fleet_kill_worker(&f, 0);
  fleet_start_worker(&f, 0);
  fleet_schedule_many(&f, add, 2);
  fleet_join(&f);
  CU_ASSERT_DOUBLE_EQUAL(fleet_variable(&f, "counter"), 4, 0);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 0, 2); /* also if it had nothing to do */
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

/* T-CC-2, and that the worker works again within 2 s of its restart. */
static void a_worker_killed_in_a_call_gives_it_back(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *gated = closure_of(&f, fleet_build_gated, NULL);
  fleet_schedule_many(&f, gated, 4);
  fleet_take(&f, "arrived");
  fleet_take(&f, "arrived"); /* both are in it */
  fleet_kill_worker(&f, 1);
  fleet_await(&f, WEFT_EVENT_CLOSURE_PUT_BACK, 1, 1);
  CU_ASSERT_EQUAL(fleet_count(&f, WEFT_EVENT_WORKER_LOST, 1), 1);
  fleet_start_worker(&f, 1);
  int64_t restarted_ns = weft_clock_ns();
  fleet_await(&f, WEFT_EVENT_CLOSURE_STARTED, 1, 2);
  CU_ASSERT_TRUE(weft_test_is_within(restarted_ns, 2000));
  printf(" (works again after %d ms)", (int)((weft_clock_ns() - restarted_ns) / 1000000));
  fleet_give(&f, "gate", 6); /* the dead one's dequeue may have taken one, or not */
  fleet_join(&f);
  CU_ASSERT_TRUE(fleet_variable(&f, "counter") >= 4);
  WEFT_DeleteClosure(gated);
  fleet_close(&f);
}

/* T-CC-3: a resource whose making waits for a gate. */
static void build_gated_resource(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *ps = WEFT_WorkerContextParameterServerDevice(x, 0), *here = WEFT_WorkerContextDevice(x);
  TF_Output one = fleet_const(g, here, "one", 1, s);
  TF_Operation *arrived = fleet_enqueue(g, ps, fleet_queue(g, ps, "arrived", s), one, s);
  TF_Operation *open = fleet_dequeue(g, ps, fleet_queue(g, ps, "gate", s), arrived, s);
  WEFT_WorkerContextAddTarget(x, open);
  WEFT_WorkerContextAddOutput(x, one);
}

static void build_add_input(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *ps = WEFT_WorkerContextParameterServerDevice(x, 0);
  TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "x");
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  TF_Output in = {TF_FinishOperation(d, s), 0};
  WEFT_WorkerContextAddInput(x, in);
  WEFT_WorkerContextAddTarget(x, fleet_add(g, ps, fleet_var(g, ps, "counter", s), in, NULL, s));
}

static void a_worker_killed_while_its_values_are_built_builds_them_again(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *add = closure_of(&f, build_add_input, NULL);
  WEFT_PerWorker *value = WEFT_CreatePerWorkerResource(f.coordinator, build_gated_resource, NULL, f.s);
  ASSERT_OK(&f);
  const WEFT_Arg arg = {.kind = WEFT_ARG_PER_WORKER, .per_worker = value};
  for (int i = 0; i < 3; i++) WEFT_RemoteValueRelease(fleet_schedule(&f, add, &arg, 1));
  for (int kill = 0; kill < 2; kill++) { /* while it is built, and while it is built again */
    fleet_take(&f, "arrived");
    CU_ASSERT_NOT_EQUAL(WEFT_PerWorkerState(value, 0), WEFT_REMOTE_READY);
    fleet_kill_worker(&f, 0);
    fleet_await(&f, WEFT_EVENT_WORKER_LOST, 0, kill + 1);
    fleet_start_worker(&f, 0);
  }
  fleet_take(&f, "arrived");
  fleet_give(&f, "gate", 3);
  fleet_join(&f);
  CU_ASSERT_TRUE(fleet_variable(&f, "counter") >= 3);
  CU_ASSERT_EQUAL(WEFT_PerWorkerState(value, 0), WEFT_REMOTE_READY);
  WEFT_DeletePerWorker(value);
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

/* T-CC-4 */
static void one_failing_call_is_reported_once_and_work_goes_on(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *gated = closure_of(&f, fleet_build_gated, NULL),
               *bad = closure_of(&f, fleet_build_failing, NULL);
  WEFT_Closure *add = closure_of(&f, fleet_build_add, NULL);
  WEFT_RemoteValue *lengthy = fleet_schedule(&f, gated, NULL, 0);
  fleet_take(&f, "arrived");
  WEFT_RemoteValue *failing = fleet_schedule(&f, bad, NULL, 0);
  WEFT_Join(f.coordinator, 30, f.s);
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "on purpose");
  CU_ASSERT_FALSE(WEFT_CoordinatorErrorIsParameterServerLoss(f.s, NULL));
  WEFT_Fetch(failing, NULL, 0, f.s);
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "on purpose");
  WEFT_Fetch(lengthy, NULL, 0, f.s);
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_CANCELLED);
  CU_ASSERT_EQUAL(WEFT_RemoteValueState(lengthy), WEFT_REMOTE_ABORTED);
  fleet_join(&f); /* reported once */
  CU_ASSERT_TRUE(WEFT_Done(f.coordinator, f.s));
  fleet_kill_worker(&f, 0);
  fleet_schedule_many(&f, add, 3);
  fleet_join(&f);
  CU_ASSERT_TRUE(fleet_variable(&f, "counter") >= 3);
  WEFT_RemoteValueRelease(lengthy);
  WEFT_RemoteValueRelease(failing);
  WEFT_DeleteClosure(gated);
  WEFT_DeleteClosure(bad);
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

/* T-CC-5: w -= 0.25 * dL/dw with L = w², so that w = 2^-k after k steps. */
static void build_step(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *ps = WEFT_WorkerContextParameterServerDevice(x, 0), *here = WEFT_WorkerContextDevice(x);
  TF_Output w = fleet_var(g, ps, "w", s), value = fleet_read(g, ps, w, NULL, s);
  TF_Output rate = fleet_const(g, here, "rate", -0.5, s);
  TF_OperationDescription *d = TF_NewOperation(g, "Mul", "step");
  TF_AddInput(d, value);
  TF_AddInput(d, rate);
  TF_Output step = {TF_FinishOperation(d, s), 0};
  d = TF_NewOperation(g, "Square", "loss");
  TF_AddInput(d, value);
  WEFT_WorkerContextAddOutput(x, (TF_Output){TF_FinishOperation(d, s), 0});
  WEFT_WorkerContextAddTarget(x, fleet_add(g, ps, w, step, NULL, s));
}

static double loss_of(fleet_t *f, WEFT_Closure *step) {
  TF_Tensor *t = NULL;
  double loss = -1;
  WEFT_RemoteValue *v = fleet_schedule(f, step, NULL, 0);
  WEFT_Fetch(v, &t, 1, f->s);
  CU_ASSERT_EQUAL(TF_GetCode(f->s), TF_OK);
  if (t != NULL) memcpy(&loss, TF_TensorData(t), sizeof loss);
  if (t != NULL) TF_DeleteTensor(t);
  WEFT_RemoteValueRelease(v);
  return loss;
}

static void a_lost_parameter_server_is_an_error_of_its_own(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "w", 1);
  fleet_coordinate(&f);
  WEFT_Closure *step = closure_of(&f, build_step, NULL);
  for (int i = 0; i < 4; i++) CU_ASSERT_DOUBLE_EQUAL(loss_of(&f, step), 1.0 / (1 << (2 * i)), 0);
  double checkpoint = fleet_variable(&f, "w");
  int task = -1;
  weft_test_process_kill(&f.ps[0]);
  for (int i = 0; i < 3; i++) WEFT_RemoteValueRelease(WEFT_Schedule(f.coordinator, step, NULL, 0, f.s));
  if (TF_GetCode(f.s) == TF_OK) WEFT_Join(f.coordinator, 60, f.s);
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_UNAVAILABLE);
  CU_ASSERT_TRUE(WEFT_CoordinatorErrorIsParameterServerLoss(f.s, &task));
  CU_ASSERT_EQUAL(task, 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(f.s), "/job:ps/replica:0/task:0"));
  CU_ASSERT_TRUE(fleet_count(&f, WEFT_EVENT_PS_REPORTED, -1) <= 3 + f.num_workers);
  CU_ASSERT_EQUAL(fleet_count(&f, WEFT_EVENT_WORKER_LOST, -1), 0);
  fleet_start_ps(&f, 0);
  fleet_set_variable(&f, "w", checkpoint);
  fleet_join(&f); /* the error was told once */
  for (int i = 4; i < 8; i++) CU_ASSERT_DOUBLE_EQUAL(loss_of(&f, step), 1.0 / (1 << (2 * i)), 0);
  WEFT_DeleteClosure(step);
  fleet_close(&f);
}

static void a_parameter_server_out_of_reach_for_a_moment_is_forgiven(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *add = closure_of(&f, fleet_build_add, NULL);
  fleet_schedule_many(&f, add, 20);
  fleet_join(&f);
  stop_process(&f.ps[0]);
  fleet_schedule_many(&f, add, 2);
  fleet_await(&f, WEFT_EVENT_PS_REPORTED, -1, 1);
  kill(f.ps[0].pid, SIGCONT);
  fleet_join(&f);
  CU_ASSERT_EQUAL(fleet_count(&f, WEFT_EVENT_PS_LOST, -1), 0);
  CU_ASSERT_TRUE(fleet_variable(&f, "counter") >= 22);
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

static void a_restarted_parameter_server_is_found_without_calls(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_coordinate(&f);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 0, 1);
  weft_test_process_kill(&f.ps[0]);
  fleet_start_ps(&f, 0);
  fleet_await(&f, WEFT_EVENT_PS_LOST, -1, 1);
  CU_ASSERT_FALSE(WEFT_Done(f.coordinator, f.s));
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_UNAVAILABLE);
  CU_ASSERT_TRUE(WEFT_CoordinatorErrorIsParameterServerLoss(f.s, NULL));
  CU_ASSERT_TRUE(WEFT_Done(f.coordinator, f.s));
  fleet_close(&f);
}

/* T-CC-11 */
static void results_outlive_their_worker(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_set_variable(&f, "counter", 41);
  fleet_coordinate(&f);
  WEFT_Closure *add = closure_of(&f, fleet_build_add, NULL);
  WEFT_RemoteValue *v = fleet_schedule(&f, add, NULL, 0);
  fleet_join(&f);
  fleet_kill_worker(&f, 0);
  fleet_await(&f, WEFT_EVENT_WORKER_LOST, 0, 1);
  TF_Tensor *t = NULL;
  WEFT_Fetch(v, &t, 1, f.s);
  ASSERT_OK(&f);
  CU_ASSERT_DOUBLE_EQUAL(*(double *)TF_TensorData(t), 42, 0);
  TF_DeleteTensor(t);
  CU_ASSERT_EQUAL(WEFT_RemoteValueState(v), WEFT_REMOTE_READY);
  WEFT_RemoteValueRelease(v);
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

static void a_worker_that_does_not_come_back_is_reported(void) {
  fleet_t f;
  fleet_plan(&f, 1, 1);
  fleet_start_ps(&f, 0);
  f.options.worker_recovery_timeout_s = 0.2;
  fleet_coordinate(&f);
  WEFT_Closure *add = closure_of(&f, fleet_build_add, NULL);
  WEFT_RemoteValue *v = fleet_schedule(&f, add, NULL, 0);
  WEFT_Join(f.coordinator, 30, f.s);
  ASSERT_FAILS(&f, TF_UNAVAILABLE, "/job:worker/replica:0/task:0");
  CU_ASSERT_FALSE(WEFT_CoordinatorErrorIsParameterServerLoss(f.s, NULL));
  WEFT_Fetch(v, NULL, 0, f.s);
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_CANCELLED);
  WEFT_RemoteValueRelease(v);
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

/* A process that hangs breaks no connection. */
static void a_worker_that_hangs_is_lost_and_comes_back(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *gated = closure_of(&f, fleet_build_gated, NULL);
  fleet_schedule_many(&f, gated, 2);
  fleet_take(&f, "arrived");
  fleet_take(&f, "arrived");
  stop_process(&f.workers[1]);
  fleet_await(&f, WEFT_EVENT_CLOSURE_PUT_BACK, 1, 1);
  kill(f.workers[1].pid, SIGCONT);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 1, 2);
  fleet_give(&f, "gate", 4);
  fleet_join(&f);
  CU_ASSERT_TRUE(fleet_variable(&f, "counter") >= 2);
  WEFT_DeleteClosure(gated);
  fleet_close(&f);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a worker killed between batches loses nothing", a_worker_killed_between_batches_loses_nothing},
      {"a worker killed in a call gives it back", a_worker_killed_in_a_call_gives_it_back},
      {"a worker killed while its values are built builds them again",
       a_worker_killed_while_its_values_are_built_builds_them_again},
      {"one failing call is reported once and work goes on",
       one_failing_call_is_reported_once_and_work_goes_on},
      {"a lost parameter server is an error of its own", a_lost_parameter_server_is_an_error_of_its_own},
      {"a parameter server out of reach for a moment is forgiven",
       a_parameter_server_out_of_reach_for_a_moment_is_forgiven},
      {"a restarted parameter server is found without calls",
       a_restarted_parameter_server_is_found_without_calls},
      {"results outlive their worker", results_outlive_their_worker},
      {"a worker that does not come back is reported", a_worker_that_does_not_come_back_is_reported},
      {"a worker that hangs is lost and comes back", a_worker_that_hangs_is_lost_and_comes_back},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("recovery", tests);
}
