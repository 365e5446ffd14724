/* tests/coordinator/coordinator_test.c - scheduling, joining, per-worker values, ends: T-CC-6, T-CC-7,
 * T-CC-9, T-CC-10. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/coordinator/fleet.h"

static WEFT_Closure *closure_of(fleet_t *f, WEFT_BuildFn build, void *user) {
  WEFT_Closure *c = WEFT_NewClosure(f->coordinator, build, user, NULL, f->s);
  ASSERT_OK(f);
  return c;
}

static double fetch_number(fleet_t *f, WEFT_RemoteValue *v) {
  TF_Tensor *t = NULL;
  double value = -1;
  WEFT_Fetch(v, &t, 1, f->s);
  if (TF_GetCode(f->s) != TF_OK) printf("\n    %s\n", TF_Message(f->s));
  CU_ASSERT_EQUAL(TF_GetCode(f->s), TF_OK);
  if (t != NULL) memcpy(&value, TF_TensorData(t), sizeof value);
  if (t != NULL) TF_DeleteTensor(t);
  return value;
}

/* ---- ends ---- */

/* Threads of this process whose names begin so: gRPC has threads of its own, more of them on a busy machine.
 */
static int num_threads(const char *prefix) {
  DIR *d = opendir("/proc/self/task");
  int n = 0;
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
    FILE *f = fopen(path, "r");
    if (f == NULL) continue; /* "." and "..", and a thread that has just ended */
    n += fgets(name, sizeof name, f) != NULL && strncmp(name, prefix, strlen(prefix)) == 0;
    fclose(f);
  }
  closedir(d);
  return n;
}

static void make_and_delete(fleet_t *f, int num_calls) {
  fleet_coordinate(f);
  WEFT_Closure *add = closure_of(f, fleet_build_add, NULL);
  fleet_schedule_many(f, add, num_calls);
  fleet_join(f);
  CU_ASSERT_TRUE(num_threads("weft-co-") > 0); /* at least that which has done a call: it has named itself */
  WEFT_DeleteClosure(add);
  WEFT_DeleteCoordinator(f->coordinator);
  f->coordinator = NULL;
  CU_ASSERT_EQUAL(num_threads("weft-co-"), 0);
}

/* T-CC-6. Sessions keep links between tasks, which the first coordinator has opened. */
static void deleting_a_coordinator_ends_its_threads(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_set_variable(&f, "counter", 0);
  make_and_delete(&f, 4);
  int before = num_threads("weft-");
  for (int i = 0; i < 5; i++) make_and_delete(&f, 4);
  CU_ASSERT_TRUE(num_threads("weft-") <= before);
  CU_ASSERT_DOUBLE_EQUAL(fleet_variable(&f, "counter"), 24, 0);
  fleet_close(&f);
}

static void deleting_a_coordinator_cancels_what_runs_and_waits(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *gated = closure_of(&f, fleet_build_gated, NULL);
  WEFT_RemoteValue *running = fleet_schedule(&f, gated, NULL, 0),
                   *waiting = fleet_schedule(&f, gated, NULL, 0);
  fleet_take(&f, "arrived");
  WEFT_DeleteCoordinator(f.coordinator);
  f.coordinator = NULL;
  WEFT_Fetch(running, NULL, 0, f.s);
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_CANCELLED);
  WEFT_Fetch(waiting, NULL, 0, f.s);
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_CANCELLED);
  WEFT_RemoteValueRelease(running);
  WEFT_RemoteValueRelease(waiting);
  WEFT_DeleteClosure(gated);
  fleet_close(&f);
}

static void a_coordinator_without_servers_can_be_deleted(void) {
  fleet_t f;
  fleet_plan(&f, 1, 2);
  fleet_coordinate(&f);
  WEFT_Closure *add = closure_of(&f, fleet_build_add, NULL);
  WEFT_RemoteValue *v = fleet_schedule(&f, add, NULL, 0);
  CU_ASSERT_FALSE(WEFT_Done(f.coordinator, f.s));
  WEFT_Join(f.coordinator, 0.05, f.s);
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_DEADLINE_EXCEEDED);
  CU_ASSERT_EQUAL(WEFT_RemoteValueState(v), WEFT_REMOTE_NOT_READY);
  WEFT_RemoteValueRelease(v);
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

/* ---- the queue ---- */

typedef struct scheduler {
  fleet_t *f;
  WEFT_Closure *closure;
  weft_mutex_t mu;
  weft_cond_t done;
  bool is_done; /* guarded by mu */
  WEFT_RemoteValue *value;
} scheduler_t;

static void *schedule_one(void *arg) {
  scheduler_t *t = arg;
  TF_Status *s = TF_NewStatus();
  WEFT_RemoteValue *v = WEFT_Schedule(t->f->coordinator, t->closure, NULL, 0, s);
  TF_DeleteStatus(s);
  weft_mutex_lock(&t->mu);
  t->value = v;
  t->is_done = true;
  weft_cond_signal(&t->done);
  weft_mutex_unlock(&t->mu);
  return NULL;
}

/* Waits for at most that long. */
static bool is_scheduled_within(scheduler_t *t, int64_t ms) {
  int64_t deadline = weft_clock_ns() + ms * 1000000;
  weft_mutex_lock(&t->mu);
  while (!t->is_done && weft_cond_wait_until(&t->done, &t->mu, deadline)) {
  }
  bool yes = t->is_done;
  weft_mutex_unlock(&t->mu);
  return yes;
}

/* T-CC-7 */
static void scheduling_waits_while_the_queue_is_full(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_set_variable(&f, "counter", 0);
  f.options.queue_capacity = 8;
  fleet_coordinate(&f);
  WEFT_Closure *gated = closure_of(&f, fleet_build_gated, NULL);
  scheduler_t t = {.f = &f, .closure = gated};
  pthread_t thread;
  weft_mutex_init(&t.mu);
  weft_cond_init(&t.done);
  fleet_schedule_many(&f, gated, 1);
  fleet_take(&f, "arrived"); /* the worker has it: the queue is empty */
  fleet_schedule_many(&f, gated, 8);
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, schedule_one, &t), 0);
  CU_ASSERT_FALSE(is_scheduled_within(&t, 200));
  fleet_give(&f, "gate", 1);
  CU_ASSERT_TRUE(is_scheduled_within(&t, 30000));
  fleet_give(&f, "gate", 9);
  pthread_join(thread, NULL);
  fleet_join(&f);
  CU_ASSERT_PTR_NOT_NULL(t.value);
  CU_ASSERT_DOUBLE_EQUAL(fleet_variable(&f, "counter"), 10, 0);
  WEFT_RemoteValueRelease(t.value);
  weft_cond_deinit(&t.done);
  weft_mutex_deinit(&t.mu);
  WEFT_DeleteClosure(gated);
  fleet_close(&f);
}

static void build_echo(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "x");
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  TF_Output in = {TF_FinishOperation(d, s), 0};
  d = TF_NewOperation(g, "Square", "square");
  TF_AddInput(d, in);
  WEFT_WorkerContextAddInput(x, in);
  WEFT_WorkerContextAddOutput(x, (TF_Output){TF_FinishOperation(d, s), 0});
}

static void arguments_are_checked_and_kept(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_coordinate(&f);
  WEFT_Closure *echo = closure_of(&f, build_echo, NULL);
  const double three = 3;
  TF_Tensor *t = new_doubles(0, NULL, &three);
  WEFT_Arg arg = {.kind = WEFT_ARG_TENSOR, .tensor = t};
  WEFT_RemoteValue *v = fleet_schedule(&f, echo, &arg, 1);
  TF_DeleteTensor(t); /* it was retained */
  CU_ASSERT_DOUBLE_EQUAL(fetch_number(&f, v), 9, 0);
  CU_ASSERT_EQUAL(WEFT_RemoteValueNumOutputs(v), 1);
  WEFT_Fetch(v, NULL, 0, f.s);
  CU_ASSERT_EQUAL(TF_GetCode(f.s), TF_OK);
  TF_Tensor *two[2];
  WEFT_Fetch(v, two, 2, f.s);
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "2 outputs are wanted of a call that has 1");
  arg = (WEFT_Arg){.kind = WEFT_ARG_REMOTE_VALUE, .remote_value = v};
  CU_ASSERT_PTR_NULL(WEFT_Schedule(f.coordinator, echo, &arg, 1, f.s));
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "argument 0 of a call is a remote value");
  arg = (WEFT_Arg){.kind = WEFT_ARG_TENSOR};
  CU_ASSERT_PTR_NULL(WEFT_Schedule(f.coordinator, echo, &arg, 1, f.s));
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "argument 0 of a call is no tensor");
  WEFT_RemoteValueRelease(fleet_schedule(&f, echo, NULL, 0));
  WEFT_Join(f.coordinator, 30, f.s);
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "a closure has 1 inputs and was given 0 tensors");
  fleet_join(&f);
  WEFT_RemoteValueRelease(v);
  WEFT_DeleteClosure(echo);
  fleet_close(&f);
}

static void the_next_schedule_or_done_reports_too(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_set_variable(&f, "counter", 0);
  fleet_coordinate(&f);
  WEFT_Closure *bad = closure_of(&f, fleet_build_failing, NULL), *add = closure_of(&f, fleet_build_add, NULL);
  WEFT_RemoteValueRelease(fleet_schedule(&f, bad, NULL, 0));
  fleet_await(&f, WEFT_EVENT_CLOSURE_FAILED, 0, 1);
  WEFT_RemoteValue *after = NULL;
  while ((after = WEFT_Schedule(f.coordinator, add, NULL, 0, f.s)) != NULL) WEFT_RemoteValueRelease(after);
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "on purpose");
  WEFT_RemoteValueRelease(fleet_schedule(&f, bad, NULL, 0));
  do {
    (void)WEFT_Done(f.coordinator, f.s);
  } while (TF_GetCode(f.s) == TF_OK);
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "on purpose");
  fleet_set_variable(&f, "counter", 6);
  WEFT_RemoteValue *v = fleet_schedule(&f, add, NULL, 0);
  CU_ASSERT_DOUBLE_EQUAL(fetch_number(&f, v), 7, 0);
  WEFT_RemoteValueRelease(v);
  WEFT_DeleteClosure(bad);
  WEFT_DeleteClosure(add);
  fleet_close(&f);
}

static void build_refused(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)g, (void)x, (void)user;
  TF_SetStatus(s, TF_UNIMPLEMENTED, "no graph today");
}

static void failures_of_build_functions_are_the_calls_own(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_coordinate(&f);
  WEFT_Closure *refused = closure_of(&f, build_refused, NULL);
  WEFT_RemoteValueRelease(fleet_schedule(&f, refused, NULL, 0));
  WEFT_Join(f.coordinator, 30, f.s);
  ASSERT_FAILS(&f, TF_UNIMPLEMENTED, "no graph today");
  WEFT_DeleteClosure(refused);
  fleet_close(&f);
}

/* ---- sharing work ---- */

enum { SIZE = 256, SLOWNESS = 10 };

/* A chain of products: ten times as long on worker 1. */
static void build_work(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *here = WEFT_WorkerContextDevice(x);
  const int64_t dims[] = {SIZE, SIZE};
  char name[32];
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, 2, SIZE * SIZE * sizeof(float));
  for (int i = 0; i < SIZE * SIZE; i++) ((float *)TF_TensorData(t))[i] = 1.0f / SIZE;
  TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "a");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetDevice(d, here);
  TF_Output a = {TF_FinishOperation(d, s), 0}, y = a;
  WEFT_WorkerContextAddInput(x, a);
  int n = 4 * (WEFT_WorkerContextIndex(x) == 1 ? SLOWNESS : 1);
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "product%d", i);
    d = TF_NewOperation(g, "MatMul", name);
    TF_AddInput(d, y);
    TF_AddInput(d, a);
    TF_SetDevice(d, here);
    y = (TF_Output){TF_FinishOperation(d, s), 0};
  }
  WEFT_WorkerContextAddTarget(x, y.oper);
  TF_DeleteTensor(t);
}

/* T-CC-9 */
static void the_faster_worker_takes_more(void) {
  fleet_t f;
  fleet_open(&f, 1, 2);
  fleet_coordinate(&f);
  enum { CALLS = 220 };
  const int64_t dims[] = {SIZE, SIZE};
  WEFT_Closure *work = closure_of(&f, build_work, NULL);
  TF_Tensor *a = TF_AllocateTensor(TF_FLOAT, dims, 2, SIZE * SIZE * sizeof(float));
  memset(TF_TensorData(a), 0, SIZE * SIZE * sizeof(float));
  const WEFT_Arg arg = {.kind = WEFT_ARG_TENSOR, .tensor = a};
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 0, 1);
  fleet_await(&f, WEFT_EVENT_WORKER_READY, 1, 1);
  for (int i = 0; i < CALLS; i++) WEFT_RemoteValueRelease(fleet_schedule(&f, work, &arg, 1));
  fleet_join(&f);
  int fast = fleet_count(&f, WEFT_EVENT_CLOSURE_DONE, 0), slow = fleet_count(&f, WEFT_EVENT_CLOSURE_DONE, 1);
  printf(" (%d and %d)", fast, slow);
  CU_ASSERT_EQUAL(fast + slow, CALLS);
  CU_ASSERT_TRUE(slow > 0);
  CU_ASSERT_TRUE(fast * 10 >= CALLS * 8);
  TF_DeleteTensor(a);
  WEFT_DeleteClosure(work);
  fleet_close(&f);
}

/* ---- per-worker values ---- */

/* 100·worker, 100·worker + 1, ... and then no more. */
typedef struct stream {
  int next, end, *num_open;
} stream_t;

static int next_number(void *self, TF_Tensor **out, int max, TF_Status *s) {
  stream_t *t = self;
  double value = t->next;
  if (max < 1 || t->next == t->end) {
    TF_SetStatus(s, TF_OUT_OF_RANGE, "End of sequence");
    return 0;
  }
  t->next++;
  out[0] = TF_AllocateTensor(TF_DOUBLE, NULL, 0, sizeof value);
  memcpy(TF_TensorData(out[0]), &value, sizeof value);
  return 1;
}

static void close_stream(void *self) {
  (*((stream_t *)self)->num_open)--;
  weft_free(self);
}

static void open_stream(const WEFT_InputContext *x, void *user, WEFT_Generator *out, TF_Status *s) {
  stream_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL || x->num_input_pipelines < 1 || x->num_replicas_in_sync != 1) {
    TF_SetStatus(s, TF_INTERNAL, "not as expected");
    weft_free(t);
    return;
  }
  *t = (stream_t){100 * x->input_pipeline_id, 100 * x->input_pipeline_id + 3, user};
  (*t->num_open)++;
  *out = (WEFT_Generator){t, next_number, close_stream};
}

/* T-CC-10 */
static void each_worker_has_its_own_stream_from_its_beginning(void) {
  fleet_t f;
  int num_open = 0; /* one worker's thread at a time touches it: only one of them lives */
  fleet_plan(&f, 1, 2);
  fleet_start_ps(&f, 0);
  fleet_start_worker(&f, 1); /* only the second */
  fleet_coordinate(&f);
  WEFT_Closure *echo = closure_of(&f, build_echo, NULL);
  WEFT_PerWorker *numbers = WEFT_CreatePerWorkerDataset(f.coordinator, open_stream, &num_open, f.s);
  ASSERT_OK(&f);
  const WEFT_Arg arg = {.kind = WEFT_ARG_PER_WORKER, .per_worker = numbers};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 2; i++) {
      WEFT_RemoteValue *v = fleet_schedule(&f, echo, &arg, 1);
      CU_ASSERT_DOUBLE_EQUAL(fetch_number(&f, v), (100.0 + i) * (100.0 + i), 0);
      WEFT_RemoteValueRelease(v);
    }
    CU_ASSERT_EQUAL(WEFT_PerWorkerState(numbers, 1), WEFT_REMOTE_READY);
    CU_ASSERT_EQUAL(WEFT_PerWorkerState(numbers, 0), WEFT_REMOTE_NOT_READY);
    if (round == 1) break;
    fleet_kill_worker(&f, 1);
    fleet_await(&f, WEFT_EVENT_WORKER_LOST, 1, 1);
    CU_ASSERT_EQUAL(WEFT_PerWorkerState(numbers, 1), WEFT_REMOTE_ABORTED);
    fleet_start_worker(&f, 1);
  }
  WEFT_RemoteValueRelease(fleet_schedule(&f, echo, &arg, 1)); /* the third and last */
  fleet_join(&f);
  WEFT_RemoteValueRelease(fleet_schedule(&f, echo, &arg, 1));
  WEFT_Join(f.coordinator, 30, f.s);
  ASSERT_FAILS(&f, TF_OUT_OF_RANGE, "End of sequence");
  WEFT_DeletePerWorker(numbers);
  CU_ASSERT_EQUAL(num_open, 0);
  WEFT_DeleteClosure(echo);
  fleet_close(&f);
}

/* A variable of the worker's own, whose handle is the resource. */
static void build_own_variable(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *here = WEFT_WorkerContextDevice(x);
  TF_Output v = fleet_var(g, here, "own", s);
  TF_OperationDescription *d = TF_NewOperation(g, "AssignVariableOp", "assign");
  TF_AddInput(d, v);
  TF_AddInput(d, fleet_const(g, here, "initial", 1000 * (WEFT_WorkerContextIndex(x) + 1), s));
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  TF_SetDevice(d, here);
  WEFT_WorkerContextAddTarget(x, TF_FinishOperation(d, s));
  WEFT_WorkerContextAddOutput(x, v);
}

static void build_count_own(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *here = WEFT_WorkerContextDevice(x);
  TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "handle");
  TF_SetAttrType(d, "dtype", TF_RESOURCE);
  TF_SetDevice(d, here);
  TF_Output handle = {TF_FinishOperation(d, s), 0};
  WEFT_WorkerContextAddInput(x, handle);
  TF_Operation *add = fleet_add(g, here, handle, fleet_const(g, here, "one", 1, s), NULL, s);
  WEFT_WorkerContextAddOutput(x, fleet_read(g, here, handle, add, s));
}

static void resources_are_made_again_after_recovery(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_coordinate(&f);
  WEFT_Closure *count = closure_of(&f, build_count_own, NULL);
  WEFT_PerWorker *own = WEFT_CreatePerWorkerResource(f.coordinator, build_own_variable, NULL, f.s);
  ASSERT_OK(&f);
  const WEFT_Arg arg = {.kind = WEFT_ARG_PER_WORKER, .per_worker = own};
  for (int round = 0; round < 2; round++) {
    for (int i = 1; i <= 3; i++) {
      WEFT_RemoteValue *v = fleet_schedule(&f, count, &arg, 1);
      CU_ASSERT_DOUBLE_EQUAL(fetch_number(&f, v), 1000 + i, 0);
      WEFT_RemoteValueRelease(v);
    }
    if (round == 1) break;
    fleet_kill_worker(&f, 0);
    fleet_start_worker(&f, 0);
    fleet_await(&f, WEFT_EVENT_WORKER_LOST, 0, 1);
  }
  WEFT_DeletePerWorker(own);
  WEFT_DeleteClosure(count);
  fleet_close(&f);
}

static void a_value_that_cannot_be_built_fails_the_calls_that_need_it(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_coordinate(&f);
  WEFT_Closure *echo = closure_of(&f, build_echo, NULL);
  WEFT_PerWorker *bad = WEFT_CreatePerWorkerResource(f.coordinator, fleet_build_failing, NULL, f.s);
  ASSERT_OK(&f);
  const WEFT_Arg arg = {.kind = WEFT_ARG_PER_WORKER, .per_worker = bad};
  WEFT_RemoteValueRelease(fleet_schedule(&f, echo, &arg, 1));
  WEFT_Join(f.coordinator, 30, f.s);
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "on purpose");
  CU_ASSERT_EQUAL(WEFT_PerWorkerState(bad, 0), WEFT_REMOTE_ABORTED);
  WEFT_DeletePerWorker(bad);
  WEFT_DeleteClosure(echo);
  fleet_close(&f);
}

/* ---- ready graphs ---- */

static void closures_of_ready_graphs_have_names_per_worker(void) {
  fleet_t f;
  fleet_plan(&f, 1, 2);
  fleet_start_ps(&f, 0);
  fleet_start_worker(&f, 1);
  fleet_coordinate(&f);
  TF_Graph *g = TF_NewGraph();
  TF_Buffer *bytes = TF_NewBuffer();
  const char *const devices[] = {"/job:worker/task:0", "/job:worker/task:1"}, *const outputs[] = {"zero",
                                                                                                  "one:0"};
  WEFT_ClosureNames names[2] = {{NULL, 0, &outputs[0], 1, NULL, 0}, {NULL, 0, &outputs[1], 1, NULL, 0}};
  (void)fleet_const(g, devices[0], "zero", 10, f.s);
  (void)fleet_const(g, devices[1], "one", 11, f.s);
  TF_GraphToGraphDef(g, bytes, f.s);
  ASSERT_OK(&f);
  WEFT_Closure *c = WEFT_NewClosureFromGraphDef(f.coordinator, bytes, names, 2, f.s);
  ASSERT_OK(&f);
  WEFT_RemoteValue *v = fleet_schedule(&f, c, NULL, 0);
  CU_ASSERT_DOUBLE_EQUAL(fetch_number(&f, v), 11, 0);
  CU_ASSERT_PTR_NULL(WEFT_NewClosureFromGraphDef(f.coordinator, bytes, names, 3, f.s));
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "names are given for 3 workers; there are 2");
  names[1].num_outputs = 0;
  CU_ASSERT_PTR_NULL(WEFT_NewClosureFromGraphDef(f.coordinator, bytes, names, 2, f.s));
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "worker 1 has 0 inputs and 0 outputs, worker 0 has 0 and 1");
  WEFT_RemoteValueRelease(v);
  WEFT_DeleteClosure(c);
  TF_DeleteBuffer(bytes);
  TF_DeleteGraph(g);
  fleet_close(&f);
}

static void the_watchdog_tells_what_is_stuck(void) {
  fleet_t f;
  fleet_open(&f, 1, 1);
  fleet_set_variable(&f, "counter", 0);
  f.options.watchdog_s = 0.5;
  f.options.poll_s = 0.2;
  fleet_coordinate(&f);
  WEFT_Closure *gated = closure_of(&f, fleet_build_gated, NULL);
  fleet_schedule_many(&f, gated, 3);
  fleet_take(&f, "arrived");
  /* On a busy machine it may have told of the time before; the next but one is of now. */
  fleet_await(&f, WEFT_EVENT_WATCHDOG, -1, fleet_count(&f, WEFT_EVENT_WATCHDOG, -1) + 2);
  weft_mutex_lock(&f.mu);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.last, "2 wait, 1 are under way"));
  CU_ASSERT_PTR_NOT_NULL(strstr(f.last, "worker 0: busy"));
  weft_mutex_unlock(&f.mu);
  fleet_give(&f, "gate", 3);
  fleet_join(&f);
  WEFT_DeleteClosure(gated);
  fleet_close(&f);
}

static void options_are_checked(void) {
  fleet_t f;
  fleet_plan(&f, 0, 1);
  WEFT_CoordinatorOptions good = f.options;
  f.options.queue_capacity = 0;
  CU_ASSERT_PTR_NULL(WEFT_NewCoordinator(f.cluster, &f.options, f.s));
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "queue_capacity is 0");
  f.options = good;
  f.options.worker_job = "absent";
  CU_ASSERT_PTR_NULL(WEFT_NewCoordinator(f.cluster, &f.options, f.s));
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "no tasks of job 'absent'");
  f.options = (WEFT_CoordinatorOptions){0};
  CU_ASSERT_PTR_NULL(WEFT_NewCoordinator(f.cluster, &f.options, f.s));
  ASSERT_FAILS(&f, TF_INVALID_ARGUMENT, "WEFT_InitCoordinatorOptions");
  fleet_close(&f);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"deleting a coordinator ends its threads", deleting_a_coordinator_ends_its_threads},
      {"deleting a coordinator cancels what runs and waits",
       deleting_a_coordinator_cancels_what_runs_and_waits},
      {"a coordinator without servers can be deleted", a_coordinator_without_servers_can_be_deleted},
      {"scheduling waits while the queue is full", scheduling_waits_while_the_queue_is_full},
      {"arguments are checked and kept", arguments_are_checked_and_kept},
      {"the next schedule or done reports, too", the_next_schedule_or_done_reports_too},
      {"failures of build functions are the calls' own", failures_of_build_functions_are_the_calls_own},
      {"the faster worker takes more", the_faster_worker_takes_more},
      {"each worker has its own stream from its beginning",
       each_worker_has_its_own_stream_from_its_beginning},
      {"resources are made again after recovery", resources_are_made_again_after_recovery},
      {"a value that cannot be built fails the calls that need it",
       a_value_that_cannot_be_built_fails_the_calls_that_need_it},
      {"closures of ready graphs have names per worker", closures_of_ready_graphs_have_names_per_worker},
      {"the watchdog tells what is stuck", the_watchdog_tells_what_is_stuck},
      {"options are checked", options_are_checked},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("coordinator", tests);
}
