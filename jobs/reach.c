/* jobs/reach.c - a walk against the edges. */
#include "jobs/reach.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "ops/op.h"

typedef struct reach_walk {
  weft_map_t seen;
  TF_Operation **stack;
  size_t n, capacity;
} reach_walk_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a walk through a graph"); }

static weft_status_t *push(reach_walk_t *w, TF_Operation *op) {
  if (weft_map_get_u64(&w->seen, (uint64_t)(uintptr_t)op) != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put_u64(&w->seen, (uint64_t)(uintptr_t)op, op, NULL));
  if (w->n == w->capacity) {
    size_t capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
    TF_Operation **more = weft_realloc(w->stack, capacity, sizeof(*more));
    if (more == NULL) return no_memory();
    w->stack = more;
    w->capacity = capacity;
  }
  w->stack[w->n++] = op;
  return NULL;
}

static weft_status_t *push_controls(reach_walk_t *w, TF_Operation *op) {
  int n = TF_OperationNumControlInputs(op);
  TF_Operation **controls = weft_calloc((size_t)n + 1, sizeof(*controls));
  if (controls == NULL) return no_memory();
  n = TF_OperationGetControlInputs(op, controls, n);
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) s = push(w, controls[i]);
  weft_free(controls);
  return s;
}

static weft_status_t *push_inputs(reach_walk_t *w, TF_Operation *op, const TF_Output *outputs, int n,
                                  bool *reached) {
  for (int i = 0; i < TF_OperationNumInputs(op); i++) {
    TF_Output from = TF_OperationInput((TF_Input){op, i});
    bool is_fed = false;
    for (int k = 0; k < n; k++) {
      if (outputs[k].oper != from.oper || outputs[k].index != from.index) continue;
      reached[k] = is_fed = true;
    }
    if (!is_fed) WEFT_RETURN_IF_ERROR(push(w, from.oper));
  }
  return push_controls(w, op);
}

weft_status_t *weft_job_reach(const TF_Operation *op, const TF_Output *outputs, int n, bool *reached) {
  reach_walk_t w = {.seen = WEFT_MAP_INIT};
  weft_status_t *s = push(&w, (TF_Operation *)(uintptr_t)op);
  while (s == NULL && w.n > 0) s = push_inputs(&w, w.stack[--w.n], outputs, n, reached);
  weft_free(w.stack);
  weft_map_deinit(&w.seen);
  return s;
}

weft_status_t *weft_job_visit(const TF_Operation *const *roots, int n, weft_job_visit_fn *fn, void *arg) {
  reach_walk_t w = {.seen = WEFT_MAP_INIT};
  weft_status_t *s = NULL;
  bool stops = false;
  for (int i = 0; s == NULL && i < n; i++) s = push(&w, (TF_Operation *)(uintptr_t)roots[i]);
  while (s == NULL && w.n > 0 && !stops) {
    TF_Operation *at = w.stack[--w.n];
    s = fn(arg, at, &stops);
    if (s == NULL) s = push_inputs(&w, at, NULL, 0, NULL);
  }
  weft_free(w.stack);
  weft_map_deinit(&w.seen);
  return s;
}

bool weft_job_is_iterator(const TF_Operation *op) {
  static const char *const makers[] = {"Iterator", "IteratorV2", "OneShotIterator", "MultiDeviceIterator"};
  const char *type = TF_OperationOpType((TF_Operation *)(uintptr_t)op);
  for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
    if (strcmp(type, makers[i]) == 0) return true;
  }
  return false;
}

bool weft_job_is_reader(const TF_Operation *op) {
  const weft_str_t type = weft_str(TF_OperationOpType((TF_Operation *)(uintptr_t)op));
  const weft_op_def_t *def = weft_op_find(type);
  if (weft_str_is(type, "MultiDeviceIteratorGetNextFromShard")) return true; /* a batch for one device */
  return def != NULL && def->batch == WEFT_BATCH_BATCH_READER;
}

/* A function reads an iterator that it is given. */
static weft_status_t *look_for_reader(void *arg, TF_Operation *op, bool *out_stops) {
  bool *is_found = arg;
  *is_found = *out_stops = weft_job_is_reader(op) || weft_job_is_iterator(op);
  return NULL;
}

weft_status_t *weft_job_reads_data(const TF_Operation *op, bool *out) {
  *out = false;
  return weft_job_visit(&op, 1, look_for_reader, out);
}
