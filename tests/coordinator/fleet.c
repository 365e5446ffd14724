/* tests/coordinator/fleet.c - see the header. */
#include "tests/coordinator/fleet.h"

#include <stdio.h>

#include "base/clock.h"

enum { DEADLINE_S = 60 };

/* ---- processes ---- */

static void remember(void *arg, const WEFT_CoordinatorEvent *e) {
  fleet_t *f = arg;
  weft_mutex_lock(&f->mu);
  f->events[e->kind]++;
  if (e->worker >= 0) f->by_worker[e->kind][e->worker]++;
  snprintf(f->last, sizeof f->last, "%s", e->text);
  weft_cond_broadcast(&f->changed);
  weft_mutex_unlock(&f->mu);
}

static size_t list_job(char *text, size_t size, const char *job, int n) {
  size_t at = (size_t)snprintf(text, size, "%s=", job);
  for (int i = 0; i < n; i++)
    at += (size_t)snprintf(text + at, size - at, "%s127.0.0.1:%d", i == 0 ? "" : ",", weft_test_free_port());
  return at;
}

void fleet_plan(fleet_t *f, int num_ps, int num_workers) {
  memset(f, 0, sizeof *f);
  f->num_ps = num_ps;
  f->num_workers = num_workers;
  size_t at = num_ps > 0 ? list_job(f->text, sizeof f->text, "ps", num_ps) : 0;
  if (num_ps > 0) f->text[at++] = ';';
  list_job(f->text + at, sizeof f->text - at, "worker", num_workers);
  f->s = TF_NewStatus();
  f->cluster = WEFT_NewCluster(f->text, f->s);
  ASSERT_OK(f);
  weft_mutex_init(&f->mu);
  weft_cond_init(&f->changed);
  WEFT_InitCoordinatorOptions(&f->options);
  f->options.poll_s = 0.25;
  f->options.on_event = remember;
  f->options.event_user = f;
}

static void start(fleet_t *f, weft_test_process_t *p, const char *job, int i) {
  char index[16];
  snprintf(index, sizeof index, "%d", i);
  const char *const arguments[] = {"server", "--cluster", f->text, "--job", job, "--task", index, NULL};
  weft_test_process_start(p, arguments, NULL);
  CU_ASSERT_TRUE_FATAL(weft_test_process_ready(p));
}

void fleet_start_ps(fleet_t *f, int i) { start(f, &f->ps[i], "ps", i); }
void fleet_start_worker(fleet_t *f, int i) { start(f, &f->workers[i], "worker", i); }
void fleet_kill_worker(fleet_t *f, int i) { weft_test_process_kill(&f->workers[i]); }

void fleet_open(fleet_t *f, int num_ps, int num_workers) {
  fleet_plan(f, num_ps, num_workers);
  for (int i = 0; i < num_ps; i++) fleet_start_ps(f, i);
  for (int i = 0; i < num_workers; i++) fleet_start_worker(f, i);
}

void fleet_coordinate(fleet_t *f) {
  f->coordinator = WEFT_NewCoordinator(f->cluster, &f->options, f->s);
  ASSERT_OK(f);
}

void fleet_close(fleet_t *f) {
  WEFT_DeleteCoordinator(f->coordinator);
  WEFT_DeleteCluster(f->cluster);
  TF_DeleteStatus(f->s);
  for (int i = 0; i < FLEET_MAX; i++) weft_test_process_kill(&f->ps[i]);
  for (int i = 0; i < FLEET_MAX; i++) weft_test_process_kill(&f->workers[i]);
  weft_cond_deinit(&f->changed);
  weft_mutex_deinit(&f->mu);
}

int fleet_count(fleet_t *f, WEFT_CoordinatorEventKind kind, int worker) {
  weft_mutex_lock(&f->mu);
  int n = worker < 0 ? f->events[kind] : f->by_worker[kind][worker];
  weft_mutex_unlock(&f->mu);
  return n;
}

bool fleet_await(fleet_t *f, WEFT_CoordinatorEventKind kind, int worker, int n) {
  int64_t deadline = weft_clock_ns() + INT64_C(1000000000) * DEADLINE_S;
  weft_mutex_lock(&f->mu);
  bool in_time = true;
  while (in_time && (worker < 0 ? f->events[kind] : f->by_worker[kind][worker]) < n)
    in_time = weft_cond_wait_until(&f->changed, &f->mu, deadline);
  if (!in_time)
    printf("\n    waited for event %d of worker %d, number %d; the last was '%s'\n", (int)kind, worker, n,
           f->last);
  weft_mutex_unlock(&f->mu);
  CU_ASSERT_TRUE(in_time);
  return in_time;
}

/* ---- nodes ---- */

static TF_Operation *finish(TF_OperationDescription *d, const char *device, TF_Operation *after,
                            TF_Status *s) {
  TF_SetDevice(d, device);
  if (after != NULL) TF_AddControlInput(d, after);
  TF_Operation *op = TF_FinishOperation(d, s);
  if (op == NULL) printf("\n    %s\n", TF_Message(s));
  CU_ASSERT_PTR_NOT_NULL_FATAL(op);
  return op;
}

static TF_OperationDescription *begin(TF_Graph *g, const char *type) {
  char name[64];
  size_t at = 0;
  int n = 0;
  while (TF_GraphNextOperation(g, &at) != NULL) n++;
  snprintf(name, sizeof name, "n%d", n);
  return TF_NewOperation(g, type, name);
}

TF_Output fleet_var(TF_Graph *g, const char *device, const char *name, TF_Status *s) {
  TF_OperationDescription *d = begin(g, "VarHandleOp");
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  TF_SetAttrShape(d, "shape", NULL, 0);
  TF_SetAttrString(d, "shared_name", name, strlen(name));
  return (TF_Output){finish(d, device, NULL, s), 0};
}

TF_Output fleet_const(TF_Graph *g, const char *device, const char *name, double value, TF_Status *s) {
  TF_OperationDescription *d = name == NULL ? begin(g, "Const") : TF_NewOperation(g, "Const", name);
  TF_Tensor *t = TF_AllocateTensor(TF_DOUBLE, NULL, 0, sizeof value);
  memcpy(TF_TensorData(t), &value, sizeof value);
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  TF_SetAttrTensor(d, "value", t, s);
  TF_DeleteTensor(t);
  return (TF_Output){finish(d, device, NULL, s), 0};
}

static TF_Operation *update(TF_Graph *g, const char *type, const char *device, TF_Output var, TF_Output value,
                            TF_Operation *after, TF_Status *s) {
  TF_OperationDescription *d = begin(g, type);
  TF_AddInput(d, var);
  TF_AddInput(d, value);
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  return finish(d, device, after, s);
}

TF_Operation *fleet_add(TF_Graph *g, const char *device, TF_Output var, TF_Output value, TF_Operation *after,
                        TF_Status *s) {
  return update(g, "AssignAddVariableOp", device, var, value, after, s);
}

TF_Output fleet_read(TF_Graph *g, const char *device, TF_Output var, TF_Operation *after, TF_Status *s) {
  TF_OperationDescription *d = begin(g, "ReadVariableOp");
  TF_AddInput(d, var);
  TF_SetAttrType(d, "dtype", TF_DOUBLE);
  return (TF_Output){finish(d, device, after, s), 0};
}

TF_Output fleet_queue(TF_Graph *g, const char *device, const char *name, TF_Status *s) {
  static const TF_DataType types[] = {TF_DOUBLE};
  TF_OperationDescription *d = begin(g, "FIFOQueueV2");
  TF_SetAttrTypeList(d, "component_types", types, 1);
  TF_SetAttrString(d, "shared_name", name, strlen(name));
  return (TF_Output){finish(d, device, NULL, s), 0};
}

TF_Operation *fleet_enqueue(TF_Graph *g, const char *device, TF_Output queue, TF_Output value, TF_Status *s) {
  TF_OperationDescription *d = begin(g, "QueueEnqueueV2");
  TF_AddInput(d, queue);
  TF_AddInputList(d, &value, 1);
  return finish(d, device, NULL, s);
}

TF_Operation *fleet_dequeue(TF_Graph *g, const char *device, TF_Output queue, TF_Operation *after,
                            TF_Status *s) {
  static const TF_DataType types[] = {TF_DOUBLE};
  TF_OperationDescription *d = begin(g, "QueueDequeueV2");
  TF_AddInput(d, queue);
  TF_SetAttrTypeList(d, "component_types", types, 1);
  return finish(d, device, after, s);
}

/* ---- what is on parameter server 0 ---- */

static const char ps0[] = "/job:ps/replica:0/task:0";

typedef struct look {
  TF_Graph *g;
  TF_Status *s;
} look_t;

static TF_Tensor *run_at_ps(fleet_t *f, look_t *l, TF_Output fetch, TF_Operation *target) {
  static const char *const filters[] = {"/job:ps"};
  const TF_Operation *targets[] = {target};
  TF_Tensor *out = NULL;
  TF_SessionOptions *o = WEFT_NewClusterSessionOptions(f->cluster, "ps", 0, filters, 1, l->s);
  ASSERT_OK(l);
  TF_Session *session = TF_NewSession(l->g, o, l->s);
  ASSERT_OK(l);
  TF_SessionRun(session, NULL, NULL, NULL, 0, &fetch, &out, fetch.oper == NULL ? 0 : 1, targets,
                target == NULL ? 0 : 1, NULL, l->s);
  if (TF_GetCode(l->s) != TF_OK) printf("\n    %s\n", TF_Message(l->s));
  TF_Status *ignored = TF_NewStatus();
  TF_DeleteSession(session, ignored);
  TF_DeleteStatus(ignored);
  TF_DeleteSessionOptions(o);
  return out;
}

static look_t look_open(void) { return (look_t){TF_NewGraph(), TF_NewStatus()}; }
static void look_close(look_t *l) {
  TF_DeleteGraph(l->g);
  TF_DeleteStatus(l->s);
}

double fleet_variable(fleet_t *f, const char *name) {
  look_t l = look_open();
  double value = -1;
  TF_Tensor *t = run_at_ps(f, &l, fleet_read(l.g, ps0, fleet_var(l.g, ps0, name, l.s), NULL, l.s), NULL);
  if (t != NULL) memcpy(&value, TF_TensorData(t), sizeof value);
  if (t != NULL) TF_DeleteTensor(t);
  look_close(&l);
  return value;
}

void fleet_set_variable(fleet_t *f, const char *name, double value) {
  look_t l = look_open();
  TF_Operation *op = update(l.g, "AssignVariableOp", ps0, fleet_var(l.g, ps0, name, l.s),
                            fleet_const(l.g, ps0, NULL, value, l.s), NULL, l.s);
  (void)run_at_ps(f, &l, (TF_Output){NULL, 0}, op);
  CU_ASSERT_EQUAL(TF_GetCode(l.s), TF_OK);
  look_close(&l);
}

void fleet_take(fleet_t *f, const char *queue) {
  look_t l = look_open();
  (void)run_at_ps(f, &l, (TF_Output){NULL, 0},
                  fleet_dequeue(l.g, ps0, fleet_queue(l.g, ps0, queue, l.s), NULL, l.s));
  CU_ASSERT_EQUAL(TF_GetCode(l.s), TF_OK);
  look_close(&l);
}

void fleet_give(fleet_t *f, const char *queue, int n) {
  for (int i = 0; i < n; i++) {
    look_t l = look_open();
    TF_Output q = fleet_queue(l.g, ps0, queue, l.s);
    (void)run_at_ps(f, &l, (TF_Output){NULL, 0},
                    fleet_enqueue(l.g, ps0, q, fleet_const(l.g, ps0, NULL, 1, l.s), l.s));
    CU_ASSERT_EQUAL(TF_GetCode(l.s), TF_OK);
    look_close(&l);
  }
}

/* ---- closures and calls ---- */

WEFT_RemoteValue *fleet_schedule(fleet_t *f, WEFT_Closure *closure, const WEFT_Arg *args, int n) {
  WEFT_RemoteValue *v = WEFT_Schedule(f->coordinator, closure, args, n, f->s);
  ASSERT_OK(f);
  return v;
}

void fleet_schedule_many(fleet_t *f, WEFT_Closure *closure, int n) {
  for (int i = 0; i < n; i++) WEFT_RemoteValueRelease(fleet_schedule(f, closure, NULL, 0));
}

void fleet_join(fleet_t *f) {
  WEFT_Join(f->coordinator, DEADLINE_S, f->s);
  if (TF_GetCode(f->s) != TF_OK) printf("\n    %s\n", TF_Message(f->s));
  CU_ASSERT_EQUAL(TF_GetCode(f->s), TF_OK);
}

static TF_Output counter_of(TF_Graph *g, const char *device, TF_Status *s) {
  return fleet_var(g, device, "counter", s);
}

void fleet_build_add(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *ps = WEFT_WorkerContextParameterServerDevice(x, 0);
  TF_Output v = counter_of(g, ps, s);
  TF_Output one = fleet_const(g, WEFT_WorkerContextDevice(x), "one", 1, s);
  TF_Operation *add = fleet_add(g, ps, v, one, NULL, s);
  WEFT_WorkerContextAddTarget(x, add);
  WEFT_WorkerContextAddOutput(x, fleet_read(g, ps, v, add, s));
}

void fleet_build_gated(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  const char *ps = WEFT_WorkerContextParameterServerDevice(x, 0);
  TF_Output one = fleet_const(g, WEFT_WorkerContextDevice(x), "one", 1, s);
  TF_Operation *arrived = fleet_enqueue(g, ps, fleet_queue(g, ps, "arrived", s), one, s);
  TF_Operation *open = fleet_dequeue(g, ps, fleet_queue(g, ps, "gate", s), arrived, s);
  TF_Operation *add = fleet_add(g, ps, counter_of(g, ps, s), one, open, s);
  WEFT_WorkerContextAddTarget(x, add);
}

void fleet_build_failing(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s) {
  (void)user;
  static const TF_DataType types[] = {TF_STRING};
  const char *device = WEFT_WorkerContextDevice(x);
  TF_Tensor *text = new_string("on purpose"), *no = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
  memset(TF_TensorData(no), 0, 1);
  TF_OperationDescription *d = TF_NewOperation(g, "Const", "text");
  TF_SetAttrType(d, "dtype", TF_STRING);
  TF_SetAttrTensor(d, "value", text, s);
  TF_Output what = {finish(d, device, NULL, s), 0};
  d = TF_NewOperation(g, "Const", "no");
  TF_SetAttrType(d, "dtype", TF_BOOL);
  TF_SetAttrTensor(d, "value", no, s);
  TF_Output never = {finish(d, device, NULL, s), 0};
  d = TF_NewOperation(g, "Assert", "assert");
  TF_AddInput(d, never);
  TF_AddInputList(d, &what, 1);
  TF_SetAttrTypeList(d, "T", types, 1);
  WEFT_WorkerContextAddTarget(x, finish(d, device, NULL, s));
  TF_DeleteTensor(text);
  TF_DeleteTensor(no);
}
