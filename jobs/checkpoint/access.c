/* jobs/checkpoint/access.c - nodes that read and write variables, and runs of them.
 *
 * A run carries at most BYTES_PER_RUN (or one part): a message has a limit, and this process need not hold a
 * whole model twice.
 */
#include "jobs/checkpoint/access.h"

#include <stdio.h>
#include <tensorflow/c/tf_tensor.h>

#include "base/alloc.h"
#include "jobs/c_api.h"
#include "strategies/origin.h"

enum { BYTES_PER_RUN = 64 << 20, PARTS_PER_RUN = 1000, MAX_NAME = 4096 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the values of variables"); }

void weft_access_deinit(weft_access_t *a) {
  weft_arena_deinit(&a->arena);
  *a = (weft_access_t){.arena = WEFT_ARENA_INIT};
}

/* ---- finding ---- */

static bool is_variable(TF_Operation *op) {
  const weft_op_def_t *def = weft_op_find(weft_str(TF_OperationOpType(op)));
  return def != NULL && (def->flags & WEFT_OP_VARIABLE) != 0;
}

typedef struct builder {
  TF_Graph *graph;
  TF_Status *status;
  weft_access_t *access;
  int capacity, made; /* parts there is room for; nodes made so far */
} builder_t;

/* The name of the variable of the single-device graph that `op` holds; "" for one that a strategy added. */
static weft_str_t origin_of(builder_t *b, TF_Operation *op, bool is_rewritten, char name[MAX_NAME]) {
  if (!is_rewritten) return weft_str(TF_OperationName(op));
  TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, WEFT_ORIGIN_VARIABLE, b->status);
  if (TF_GetCode(b->status) != TF_OK || m.total_size < 0 || m.total_size >= MAX_NAME) return WEFT_STR("");
  TF_OperationGetAttrString(op, WEFT_ORIGIN_VARIABLE, name, MAX_NAME, b->status);
  return TF_GetCode(b->status) == TF_OK ? weft_str_of(name, (size_t)m.total_size) : WEFT_STR("");
}

static int64_t first_row_of(builder_t *b, TF_Operation *op) {
  int64_t row = 0;
  TF_OperationGetAttrInt(op, WEFT_ORIGIN_FIRST_ROW, &row, b->status);
  return TF_GetCode(b->status) == TF_OK ? row : 0;
}

static weft_shape_t shape_of(builder_t *b, TF_Operation *op) {
  weft_shape_t shape = WEFT_UNKNOWN_SHAPE;
  TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, "shape", b->status);
  if (TF_GetCode(b->status) != TF_OK || m.total_size < 0 || m.total_size > WEFT_MAX_DIMS) return shape;
  TF_OperationGetAttrShape(op, "shape", shape.dims, (int)m.total_size, b->status);
  if (TF_GetCode(b->status) == TF_OK) shape.rank = (int)m.total_size;
  return shape;
}

/* ---- adding nodes ---- */

static TF_OperationDescription *begin(builder_t *b, const char *op, const char *what) {
  char name[64];
  do {
    snprintf(name, sizeof name, "weft_checkpoint/%s_%d", what, b->made++);
  } while (TF_GraphOperationByName(b->graph, name) != NULL);
  return TF_NewOperation(b->graph, op, name);
}

static weft_status_t *end(builder_t *b, TF_OperationDescription *d, TF_Operation **out) {
  *out = TF_FinishOperation(d, b->status);
  return weft_job_c_api_status(b->status);
}

static weft_status_t *add_read(builder_t *b, TF_Output holder, bool is_ref, weft_access_part_t *p) {
  TF_Operation *op;
  TF_OperationDescription *d = begin(b, is_ref ? "Identity" : "ReadVariableOp", "value");
  TF_AddInput(d, holder);
  if (!is_ref) TF_SetAttrType(d, "dtype", (TF_DataType)p->variable->dtype);
  WEFT_RETURN_IF_ERROR(end(b, d, &op));
  p->value = (TF_Output){op, 0};
  d = begin(b, is_ref ? "IsVariableInitialized" : "VarIsInitializedOp", "is_there");
  TF_AddInput(d, holder);
  WEFT_RETURN_IF_ERROR(end(b, d, &op));
  p->is_there = (TF_Output){op, 0};
  d = begin(b, "Placeholder", "new");
  TF_SetAttrType(d, "dtype", (TF_DataType)p->variable->dtype);
  if (p->shape.rank >= 0) TF_SetAttrShape(d, "shape", p->shape.dims, p->shape.rank);
  WEFT_RETURN_IF_ERROR(end(b, d, &op));
  p->feed = (TF_Output){op, 0};
  return NULL;
}

static weft_status_t *add_write(builder_t *b, TF_Output holder, bool is_ref, weft_access_part_t *p) {
  TF_Operation **writes =
      weft_arena_calloc(&b->access->arena, (size_t)p->num_writes + 1, sizeof(*writes)); /* copies are few */
  if (writes == NULL) return no_memory();
  if (p->num_writes > 0) memcpy(writes, p->writes, (size_t)p->num_writes * sizeof(*writes));
  TF_OperationDescription *d = begin(b, is_ref ? "Assign" : "AssignVariableOp", "write");
  TF_AddInput(d, holder);
  TF_AddInput(d, p->feed);
  if (is_ref && !weft_shape_is_known(&p->shape)) TF_SetAttrBool(d, "validate_shape", 0);
  if (!is_ref) TF_SetAttrType(d, "dtype", (TF_DataType)p->variable->dtype);
  WEFT_RETURN_IF_ERROR(end(b, d, &writes[p->num_writes]));
  p->writes = writes;
  p->num_writes++;
  return NULL;
}

static weft_status_t *add_holder(builder_t *b, TF_Operation *op, const weft_saved_variable_t *variable,
                                 int64_t first_row) {
  weft_access_t *a = b->access;
  TF_Output holder = {op, 0};
  bool is_ref = TF_OperationOutputType(holder) != TF_RESOURCE;
  weft_access_part_t *p = NULL;
  for (int i = 0; i < a->n && p == NULL; i++) {
    if (a->parts[i].variable == variable && a->parts[i].first_row == first_row) p = &a->parts[i];
  }
  if (p == NULL) {
    p = &a->parts[a->n++];
    *p = (weft_access_part_t){.variable = variable, .first_row = first_row, .shape = shape_of(b, op)};
    WEFT_RETURN_IF_ERROR(add_read(b, holder, is_ref, p));
  }
  return add_write(b, holder, is_ref, p);
}

weft_status_t *weft_access_init(TF_Graph *g, const weft_saved_variables_t *variables, bool is_rewritten,
                                weft_access_t *out) {
  builder_t b = {.graph = g, .status = TF_NewStatus(), .access = out};
  char name[MAX_NAME];
  size_t at = 0;
  int n = 0, k = 0;
  *out = (weft_access_t){.arena = WEFT_ARENA_INIT, .variables = variables};
  for (TF_Operation *op = TF_GraphNextOperation(g, &at); op != NULL; op = TF_GraphNextOperation(g, &at))
    n += is_variable(op);
  out->parts = weft_arena_calloc(&out->arena, (size_t)n + 1, sizeof *out->parts);
  TF_Operation **holders =
      weft_calloc((size_t)n + 1, sizeof(*holders)); /* the graph grows while we add to it */
  weft_status_t *s = b.status == NULL || out->parts == NULL || holders == NULL ? no_memory() : NULL;
  at = 0;
  for (TF_Operation *op = TF_GraphNextOperation(g, &at); s == NULL && op != NULL;
       op = TF_GraphNextOperation(g, &at)) {
    if (is_variable(op)) holders[k++] = op;
  }
  for (int i = 0; s == NULL && i < n; i++) {
    const weft_saved_variable_t *v =
        weft_saved_variables_get(variables, origin_of(&b, holders[i], is_rewritten, name));
    if (v != NULL) s = add_holder(&b, holders[i], v, first_row_of(&b, holders[i]));
  }
  weft_free(holders);
  TF_DeleteStatus(b.status);
  return s;
}

/* ---- running them ---- */

static size_t bytes_of(const weft_access_part_t *p) {
  int64_t count = weft_shape_is_known(&p->shape) ? weft_shape_count(&p->shape) : 0;
  return count < 0 ? 0 : (size_t)count * weft_dtype_size(p->variable->dtype);
}

/* The next parts that go into one run: fills `chosen`. */
static int choose(const weft_access_t *a, const bool *wanted, int *at, int *chosen) {
  size_t bytes = 0;
  int n = 0;
  for (; *at < a->n && n < PARTS_PER_RUN; (*at)++) {
    if (wanted != NULL && !wanted[*at]) continue;
    size_t more = bytes_of(&a->parts[*at]);
    if (n > 0 && more > BYTES_PER_RUN - (bytes < BYTES_PER_RUN ? bytes : BYTES_PER_RUN)) break;
    bytes += more;
    chosen[n++] = *at;
  }
  return n;
}

typedef struct access_step { /* what is fed, fetched and run at once */
  const TF_Output *feeds, *fetches;
  TF_Tensor *const *given;
  TF_Tensor **got;
  const TF_Operation **targets;
  int num_feeds, num_fetches, num_targets;
} access_step_t;

static weft_status_t *run_step(TF_Session *session, const access_step_t *p) {
  TF_Status *status = TF_NewStatus();
  if (status == NULL) return no_memory();
  TF_SessionRun(session, NULL, p->feeds, p->given, p->num_feeds, p->fetches, p->got, p->num_fetches,
                p->targets, p->num_targets, NULL, status);
  weft_status_t *s = weft_job_c_api_status(status);
  TF_DeleteStatus(status);
  return s;
}

static weft_status_t *fetch(TF_Session *session, const TF_Output *outputs, TF_Tensor **values, int n) {
  return run_step(session, &(access_step_t){.fetches = outputs, .got = values, .num_fetches = n});
}

weft_status_t *weft_access_ask(const weft_access_t *a, TF_Session *session, bool *is_there) {
  TF_Output *outputs = weft_calloc((size_t)a->n + 1, sizeof *outputs);
  TF_Tensor **values = weft_calloc((size_t)a->n + 1, sizeof(TF_Tensor *));
  weft_status_t *s = outputs == NULL || values == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < a->n; i++) outputs[i] = a->parts[i].is_there;
  if (s == NULL && a->n > 0) s = fetch(session, outputs, values, a->n);
  for (int i = 0; values != NULL && i < a->n; i++) {
    if (values[i] == NULL) continue;
    is_there[i] = *(const bool *)TF_TensorData(values[i]);
    TF_DeleteTensor(values[i]);
  }
  weft_free(outputs);
  weft_free(values);
  return s;
}

typedef struct run { /* what one run needs; owned */
  int *chosen;
  TF_Output *outputs;
  TF_Tensor **values;
} run_t;

static weft_status_t *run_init(const weft_access_t *a, run_t *r) {
  size_t n = (size_t)(a->n < PARTS_PER_RUN ? a->n : PARTS_PER_RUN) + 1;
  r->chosen = weft_calloc(n, sizeof *r->chosen);
  r->outputs = weft_calloc(n, sizeof *r->outputs);
  r->values = weft_calloc(n, sizeof(TF_Tensor *));
  return r->chosen == NULL || r->outputs == NULL || r->values == NULL ? no_memory() : NULL;
}

static void run_deinit(run_t *r) {
  weft_free(r->chosen);
  weft_free(r->outputs);
  weft_free(r->values);
}

static weft_status_t *read_some(const weft_access_t *a, TF_Session *session, run_t *r, int n,
                                weft_access_got_fn *got, void *arg) {
  for (int i = 0; i < n; i++) r->outputs[i] = a->parts[r->chosen[i]].value;
  weft_status_t *s = fetch(session, r->outputs, r->values, n);
  for (int i = 0; i < n; i++) {
    weft_tensor_t *value = NULL;
    if (s == NULL) s = weft_job_c_api_look_at(r->values[i], &value);
    if (s == NULL) s = got(arg, &a->parts[r->chosen[i]], value);
    weft_tensor_release(value);
    TF_DeleteTensor(r->values[i]);
    r->values[i] = NULL;
  }
  return s;
}

weft_status_t *weft_access_read(const weft_access_t *a, TF_Session *session, const bool *wanted,
                                weft_access_got_fn *got, void *arg) {
  run_t r = {0};
  weft_status_t *s = run_init(a, &r);
  int at = 0, n;
  while (s == NULL && (n = choose(a, wanted, &at, r.chosen)) > 0) s = read_some(a, session, &r, n, got, arg);
  run_deinit(&r);
  return s;
}

static void release(void *data, size_t length, void *arg) {
  (void)data;
  (void)length;
  weft_tensor_release(arg);
}

/* Consumes `t`. */
static TF_Tensor *as_feed(weft_tensor_t *t) {
  return TF_NewTensor((TF_DataType)t->dtype, t->shape.dims, t->shape.rank, t->data, t->bytes, release, t);
}

static weft_status_t *write_some(const weft_access_t *a, TF_Session *session, run_t *r, int n,
                                 weft_access_give_fn *give, void *arg) {
  int num_writes = 0, k = 0;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    const weft_access_part_t *p = &a->parts[r->chosen[i]];
    weft_tensor_t *value = NULL;
    s = give(arg, p, &value);
    if (s != NULL) break;
    r->outputs[i] = p->feed;
    r->values[i] = as_feed(value);
    num_writes += p->num_writes;
    if (r->values[i] == NULL) s = no_memory();
  }
  const TF_Operation **writes = weft_calloc((size_t)num_writes + 1, sizeof(TF_Operation *));
  if (s == NULL && writes == NULL) s = no_memory();
  for (int i = 0; s == NULL && i < n; i++) {
    const weft_access_part_t *p = &a->parts[r->chosen[i]];
    for (int w = 0; w < p->num_writes; w++) writes[k++] = p->writes[w];
  }
  if (s == NULL) {
    s = run_step(session, &(access_step_t){.feeds = r->outputs,
                                           .given = r->values,
                                           .num_feeds = n,
                                           .targets = writes,
                                           .num_targets = num_writes});
  }
  for (int i = 0; i < n; i++) {
    TF_DeleteTensor(r->values[i]);
    r->values[i] = NULL;
  }
  weft_free(writes);
  return s;
}

weft_status_t *weft_access_write(const weft_access_t *a, TF_Session *session, const bool *wanted,
                                 weft_access_give_fn *give, void *arg) {
  run_t r = {0};
  weft_status_t *s = run_init(a, &r);
  int at = 0, n;
  while (s == NULL && (n = choose(a, wanted, &at, r.chosen)) > 0)
    s = write_some(a, session, &r, n, give, arg);
  run_deinit(&r);
  return s;
}
