/* coordinator/worker_context.c - the inputs and results of a build function. */
#include "coordinator/worker_context.h"

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a closure's graph"); }

void weft_worker_context_init(WEFT_WorkerContext *x, const WEFT_Coordinator *c, int worker) {
  *x = (WEFT_WorkerContext){.coordinator = c, .worker = worker, .arena = WEFT_ARENA_INIT};
}

void weft_worker_context_deinit(WEFT_WorkerContext *x) {
  weft_free(x->inputs.items);
  weft_free(x->outputs.items);
  weft_free(x->targets.items);
  weft_arena_deinit(&x->arena);
  weft_status_free(x->failure);
}

static void fail(WEFT_WorkerContext *x, weft_status_t *s) {
  if (x->failure == NULL)
    x->failure = s;
  else
    weft_status_free(s);
}

static void add(WEFT_WorkerContext *x, weft_co_texts_t *to, const TF_Operation *op, int index,
                const char *what) {
  if (op == NULL) {
    fail(x, WEFT_ERROR(INVALID_ARGUMENT, "%s %d of a closure names no operation", what, to->n));
    return;
  }
  if (index >= TF_OperationNumOutputs((TF_Operation *)(uintptr_t)op)) {
    fail(x, WEFT_ERROR(INVALID_ARGUMENT, "%s %d of a closure is '%s:%d', which is no output", what, to->n,
                       TF_OperationName((TF_Operation *)(uintptr_t)op), index));
    return;
  }
  if (to->n == to->capacity) {
    int capacity = to->capacity == 0 ? 8 : to->capacity * 2;
    weft_str_t *items = weft_realloc(to->items, (size_t)capacity, sizeof *items);
    if (items == NULL) {
      fail(x, no_memory());
      return;
    }
    to->items = items;
    to->capacity = capacity;
  }
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, TF_OperationName((TF_Operation *)(uintptr_t)op));
  if (index >= 0) weft_strbuf_printf(&text, ":%d", index);
  weft_str_t copy =
      text.failed ? weft_str_of(NULL, 0) : weft_arena_str(&x->arena, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (copy.data == NULL)
    fail(x, no_memory());
  else
    to->items[to->n++] = copy;
}

void WEFT_WorkerContextAddInput(WEFT_WorkerContext *x, TF_Output input) {
  add(x, &x->inputs, input.oper, input.index < 0 ? INT32_MAX : input.index, "input");
}
void WEFT_WorkerContextAddOutput(WEFT_WorkerContext *x, TF_Output output) {
  add(x, &x->outputs, output.oper, output.index < 0 ? INT32_MAX : output.index, "output");
}
void WEFT_WorkerContextAddTarget(WEFT_WorkerContext *x, const TF_Operation *target) {
  add(x, &x->targets, target, -1, "target");
}

static weft_status_t *copy_texts(const weft_co_texts_t *from, weft_arena_t *a, weft_str_t **out, int *out_n) {
  *out = weft_arena_calloc(a, (size_t)from->n + 1, sizeof **out);
  if (*out == NULL) return no_memory();
  *out_n = from->n;
  for (int i = 0; i < from->n; i++) {
    (*out)[i] = weft_arena_str(a, from->items[i]);
    if ((*out)[i].data == NULL) return no_memory();
  }
  return NULL;
}

weft_status_t *weft_worker_context_take(WEFT_WorkerContext *x, weft_co_graph_t *out) {
  weft_status_t *s = x->failure;
  x->failure = NULL;
  if (s == NULL) s = copy_texts(&x->inputs, &out->arena, &out->inputs, &out->num_inputs);
  if (s == NULL) s = copy_texts(&x->outputs, &out->arena, &out->outputs, &out->num_outputs);
  if (s == NULL) s = copy_texts(&x->targets, &out->arena, &out->targets, &out->num_targets);
  if (s == NULL && x->id.oper != NULL) {
    weft_co_texts_t id = {NULL, 0, 0};
    add(x, &id, x->id.oper, x->id.index, "number");
    if (id.n == 1) out->id = weft_arena_str(&out->arena, id.items[0]);
    if (out->id.data == NULL) s = no_memory();
    weft_free(id.items);
  }
  return s;
}

/* ---- what it is told ---- */

int WEFT_WorkerContextIndex(const WEFT_WorkerContext *x) { return x->worker; }
int WEFT_WorkerContextNumWorkers(const WEFT_WorkerContext *x) { return x->coordinator->num_workers; }
int WEFT_WorkerContextNumParameterServers(const WEFT_WorkerContext *x) { return x->coordinator->num_ps; }
const char *WEFT_WorkerContextDevice(const WEFT_WorkerContext *x) {
  return x->coordinator->workers[x->worker].task.name;
}
const char *WEFT_WorkerContextParameterServerDevice(const WEFT_WorkerContext *x, int i) {
  return i < 0 || i >= x->coordinator->num_ps ? NULL : x->coordinator->ps[i].name;
}

TF_Output WEFT_WorkerContextClosureId(WEFT_WorkerContext *x, TF_Graph *graph, TF_Status *status) {
  TF_SetStatus(status, TF_OK, "");
  if (x->id.oper != NULL) return x->id;
  TF_OperationDescription *d = TF_NewOperation(graph, "Placeholder", "weft_call_number");
  TF_SetAttrType(d, "dtype", TF_INT64);
  TF_SetAttrShape(d, "shape", NULL, 0);
  TF_SetDevice(d, WEFT_WorkerContextDevice(x));
  x->id = (TF_Output){TF_FinishOperation(d, status), 0};
  return x->id;
}
