/* client/kv_link.c - the graph of one server's table, and its sessions. */
#include "client/kv_link.h"

#include <string.h>

#include "base/alloc.h"

/* ---- the graph ---- */

typedef struct adding {
  TF_Graph *graph;
  const WEFT_KvOptions *o;
  TF_Output handle;
  TF_Status *status; /* what is wrong first stays */
  int num_nodes;
} adding_t;

static bool ok(const adding_t *a) { return TF_GetCode(a->status) == TF_OK; }

static TF_Operation *finish(adding_t *a, TF_OperationDescription *d) {
  if (!ok(a)) {
    TF_Status *ignored =
        TF_NewStatus(); /* a description must be finished to be freed; the node is then unused */
    TF_Operation *op = TF_FinishOperation(d, ignored);
    TF_DeleteStatus(ignored);
    (void)op;
    return NULL;
  }
  TF_Operation *op = TF_FinishOperation(d, a->status);
  return ok(a) ? op : NULL;
}

static TF_OperationDescription *begin(adding_t *a, const char *op) {
  char name[16] = "n00";
  name[1] = (char)('a' + a->num_nodes / 26 % 26);
  name[2] = (char)('a' + a->num_nodes % 26);
  a->num_nodes++;
  return TF_NewOperation(a->graph, op, name);
}

static void add_table(adding_t *a) {
  const WEFT_KvOptions *o = a->o;
  TF_OperationDescription *d = begin(a, "WeftKvTable");
  const char *reduction = o->takes_mean ? "MEAN" : "SUM";
  TF_SetAttrType(d, "dtype", o->dtype);
  TF_SetAttrInt(d, "width", o->width);
  TF_SetAttrString(d, "apply", o->apply, strlen(o->apply));
  TF_SetAttrFloat(d, "learning_rate", (float)o->learning_rate);
  TF_SetAttrFloat(d, "momentum", (float)o->momentum);
  TF_SetAttrString(d, "initializer", o->initializer, strlen(o->initializer));
  TF_SetAttrFloat(d, "init_value", (float)o->init_value);
  TF_SetAttrInt(d, "seed", o->seed);
  TF_SetAttrInt(d, "num_workers", o->num_workers);
  TF_SetAttrString(d, "policy", o->policy, strlen(o->policy));
  TF_SetAttrInt(d, "staleness", o->staleness);
  TF_SetAttrInt(d, "required", o->required);
  TF_SetAttrString(d, "reduction_type", reduction, strlen(reduction));
  TF_SetAttrString(d, "shared_name", o->table, strlen(o->table));
  size_t *lengths = o->worker_tasks == NULL ? NULL : weft_calloc((size_t)o->num_workers + 1, sizeof *lengths);
  for (int i = 0; lengths != NULL && i < o->num_workers; i++) lengths[i] = strlen(o->worker_tasks[i]);
  /* TensorFlow's signature wants pointers to const void; the texts are only read. */
  if (lengths != NULL) {
    TF_SetAttrStringList(d, "worker_tasks", (const void *const *)(const void *)o->worker_tasks, lengths,
                         o->num_workers);
  }
  TF_Operation *op = finish(a, d);
  weft_free(lengths);
  a->handle = (TF_Output){op, 0};
}

/* flag: advance or greets; -1: it has none. */
static void add_call(adding_t *a, weft_kv_node_t *n, const char *name, bool has_dtype, int flag,
                     const TF_DataType *types, int num_inputs, int num_outputs) {
  for (int i = 0; ok(a) && i < num_inputs; i++) {
    TF_OperationDescription *p = begin(a, "Placeholder");
    TF_SetAttrType(p, "dtype", types[i]);
    n->inputs[i] = (TF_Output){finish(a, p), 0};
  }
  if (!ok(a)) return;
  TF_OperationDescription *d = begin(a, name);
  TF_AddInput(d, a->handle);
  for (int i = 0; i < num_inputs; i++) TF_AddInput(d, n->inputs[i]);
  if (has_dtype) TF_SetAttrType(d, "dtype", a->o->dtype);
  if (flag >= 0) TF_SetAttrBool(d, has_dtype ? "advance" : "greets", (unsigned char)flag);
  n->op = finish(a, d);
  for (int i = 0; i < num_outputs; i++) n->outputs[i] = (TF_Output){n->op, i};
  n->num_inputs = num_inputs;
  n->num_outputs = num_outputs;
}

static void add_calls(adding_t *a, weft_kv_node_t *nodes) {
  const TF_DataType v = a->o->dtype, i = TF_INT64;
  const TF_DataType push[] = {i, v, i, i, i}, push_lens[] = {i, v, i, i, i, i}, pull[] = {i, i, i};
  const TF_DataType snapshot[] = {i, v, i, v, i};
  bool is_equal = a->o->width > 0;
  const char *push_name = is_equal ? "WeftKvPush" : "WeftKvPushLens";
  const TF_DataType *push_types = is_equal ? push : push_lens;
  int push_inputs = is_equal ? 5 : 6;
  add_table(a);
  if (!ok(a)) return;
  add_call(a, &nodes[WEFT_KV_CALL_PUSH], push_name, true, 0, push_types, push_inputs, 2);
  add_call(a, &nodes[WEFT_KV_CALL_ADVANCE], push_name, true, 1, push_types, push_inputs, 2);
  add_call(a, &nodes[WEFT_KV_CALL_PULL], is_equal ? "WeftKvPull" : "WeftKvPullLens", true, -1, pull, 3,
           is_equal ? 2 : 3);
  if (is_equal) add_call(a, &nodes[WEFT_KV_CALL_PUSH_PULL], "WeftKvPushPull", true, 0, push, 5, 2);
  add_call(a, &nodes[WEFT_KV_CALL_GREET], "WeftKvAttach", false, 1, &i, 1, 2);
  add_call(a, &nodes[WEFT_KV_CALL_ATTACH], "WeftKvAttach", false, 0, &i, 1, 2);
  add_call(a, &nodes[WEFT_KV_CALL_EXPORT], "WeftKvExport", true, -1, NULL, 0, 5);
  add_call(a, &nodes[WEFT_KV_CALL_IMPORT], "WeftKvImport", true, -1, snapshot, 5, 0);
}

void weft_kv_link_init(weft_kv_link_t *l, const WEFT_Cluster *cluster, const WEFT_KvOptions *o, int index,
                       TF_Status *status) {
  static const char *const no_devices[] = {"/job:weft_kv_none"};
  memset(l, 0, sizeof *l);
  weft_mutex_init(&l->mu);
  l->graph = TF_NewGraph();
  l->options = WEFT_NewClusterSessionOptions(cluster, o->job, index, no_devices, 1, status);
  adding_t a = {.graph = l->graph, .o = o, .status = status};
  if (ok(&a)) add_calls(&a, l->nodes);
}

/* A session with a count of its users: one that is given up is closed when the last call in it has ended. */
typedef struct weft_kv_session {
  TF_Session *impl;
  int users; /* guarded by the link's mu; the link itself is one */
} weft_kv_session_t;

static void session_close(weft_kv_session_t *s) {
  if (s == NULL) return;
  TF_Status *ignored = TF_NewStatus(); /* the server may be gone: nothing is lost then */
  if (s->impl != NULL) TF_CloseSession(s->impl, ignored);
  if (s->impl != NULL) TF_DeleteSession(s->impl, ignored);
  TF_DeleteStatus(ignored);
  weft_free(s);
}

static void session_leave(weft_kv_link_t *l, weft_kv_session_t *s) {
  weft_mutex_lock(&l->mu);
  bool is_last = s != NULL && --s->users == 0;
  weft_mutex_unlock(&l->mu);
  if (is_last) session_close(s);
}

void weft_kv_link_deinit(weft_kv_link_t *l) {
  session_close(l->session);
  TF_DeleteSessionOptions(l->options);
  if (l->graph != NULL) TF_DeleteGraph(l->graph);
  weft_mutex_deinit(&l->mu);
}

/* ---- running ---- */

/* Other senders may still run in the session that is given up. */
static void retire(weft_kv_link_t *l, weft_kv_session_t *s) {
  weft_mutex_lock(&l->mu);
  bool is_current = l->session == s;
  if (is_current) l->session = NULL;
  weft_mutex_unlock(&l->mu);
  if (is_current) session_leave(l, s);
}

static weft_kv_session_t *join_current(weft_kv_link_t *l, weft_kv_session_t **mine) {
  weft_mutex_lock(&l->mu);
  if (l->session == NULL && mine != NULL) {
    l->session = *mine;
    *mine = NULL;
  }
  weft_kv_session_t *s = l->session;
  if (s != NULL) s->users++;
  weft_mutex_unlock(&l->mu);
  return s;
}

static weft_kv_session_t *need_session(weft_kv_link_t *l, TF_Status *status) {
  weft_kv_session_t *s = join_current(l, NULL);
  if (s != NULL) return s;
  weft_kv_session_t *mine = weft_calloc(1, sizeof *mine);
  if (mine == NULL) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory: a session");
    return NULL;
  }
  mine->users = 1;
  mine->impl = TF_NewSession(l->graph, l->options, status);
  if (TF_GetCode(status) == TF_OK) s = join_current(l, &mine);
  session_close(mine);
  return s;
}

void weft_kv_link_abort(weft_kv_link_t *l) {
  weft_kv_session_t *s = join_current(l, NULL);
  if (s == NULL) return;
  TF_Status *ignored = TF_NewStatus(); /* closing is the point: its steps are cancelled */
  TF_CloseSession(s->impl, ignored);
  TF_DeleteStatus(ignored);
  session_leave(l, s);
}

/* RunOptions with timeout_in_ms, field 2. */
static size_t write_timeout(int64_t ms, unsigned char out[16]) {
  size_t n = 0;
  out[n++] = 2 << 3;
  for (uint64_t v = (uint64_t)ms; n < 15; v >>= 7) {
    out[n++] = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
    if (v <= 127) break;
  }
  return n;
}

void weft_kv_link_run(weft_kv_link_t *l, weft_kv_call_t call, TF_Tensor *const *inputs, TF_Tensor **outputs,
                      int64_t timeout_ms, bool *out_was_restarted, TF_Status *status) {
  const weft_kv_node_t *n = &l->nodes[call];
  unsigned char options[16];
  *out_was_restarted = false;
  weft_kv_session_t *session = need_session(l, status);
  if (session == NULL) return;
  TF_Buffer run = {.data = options, .length = write_timeout(timeout_ms > 0 ? timeout_ms : 1, options)};
  const TF_Operation *targets[] = {n->op};
  TF_SessionRun(session->impl, &run, n->inputs, inputs, n->num_inputs, n->outputs, outputs, n->num_outputs,
                targets, 1, NULL, status);
  TF_Code code = TF_GetCode(status);
  *out_was_restarted = code == TF_ABORTED || code == TF_UNAVAILABLE || code == TF_NOT_FOUND;
  if (*out_was_restarted) retire(l, session);
  session_leave(l, session);
}
