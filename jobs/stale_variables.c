/* jobs/stale_variables.c - a walk from the initialisers against the edges, inputs before the nodes that take
 * them. */
#include "jobs/stale_variables.h"

#include <stdint.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "jobs/c_api.h"
#include "ops/op.h"

enum { UNKNOWN = -1, MOST_HOPS = 100 };

typedef struct seen { /* a node of the initialisers */
  TF_Operation *op;
  int branches;                     /* it is inside of so many; UNKNOWN: its inputs are being looked at */
  bool is_assigned, is_asked_about; /* of variables */
  struct seen *next;
} seen_t;

typedef struct stale_frame { /* a node whose inputs are being looked at */
  seen_t *node;
  TF_Operation **inputs; /* owned: data, then control */
  int n, at;
  struct stale_frame *below;
} stale_frame_t;

typedef struct stale_walk {
  weft_map_t by_op;   /* TF_Operation -> seen_t */
  seen_t *all;        /* owned, newest first */
  stale_frame_t *top; /* owned */
} stale_walk_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a walk through the initialisers"); }
static bool is(const TF_Operation *op, uint64_t flags) {
  const weft_op_def_t *def = weft_op_find(weft_str(TF_OperationOpType((TF_Operation *)(uintptr_t)op)));
  return def != NULL && (def->flags & flags) != 0;
}
static seen_t *find(const stale_walk_t *w, const TF_Operation *op) {
  return weft_map_get_u64(&w->by_op, (uint64_t)(uintptr_t)op);
}

/* ---- the walk ---- */

static weft_status_t *enter(stale_walk_t *w, TF_Operation *op) {
  int data = TF_OperationNumInputs(op), controls = TF_OperationNumControlInputs(op);
  seen_t *s = weft_calloc(1, sizeof *s);
  stale_frame_t *f = weft_calloc(1, sizeof *f);
  TF_Operation **inputs = weft_calloc((size_t)data + (size_t)controls + 1, sizeof(TF_Operation *));
  weft_status_t *status = s == NULL || f == NULL || inputs == NULL ? no_memory() : NULL;
  if (status == NULL) status = weft_map_put_u64(&w->by_op, (uint64_t)(uintptr_t)op, s, NULL);
  if (status != NULL) {
    weft_free(s);
    weft_free(f);
    weft_free(inputs);
    return status;
  }
  for (int i = 0; i < data; i++) inputs[i] = TF_OperationInput((TF_Input){op, i}).oper;
  if (controls > 0) controls = TF_OperationGetControlInputs(op, inputs + data, controls);
  *s = (seen_t){.op = op, .branches = UNKNOWN, .next = w->all};
  *f = (stale_frame_t){.node = s, .inputs = inputs, .n = data + controls, .below = w->top};
  w->all = s;
  w->top = f;
  return NULL;
}

/* All inputs are known, but those that close a loop. */
static void leave(stale_walk_t *w) {
  stale_frame_t *f = w->top;
  int most = 0;
  bool is_merge = is(f->node->op, WEFT_OP_MERGE), is_loop = false;
  for (int i = 0; i < f->n; i++) {
    const seen_t *in = find(w, f->inputs[i]);
    if (is_merge && is(in->op, WEFT_OP_NEXT_ITERATION)) is_loop = true;
    if (in->branches > most) most = in->branches;
  }
  if (is(f->node->op, WEFT_OP_SWITCH)) most++;
  bool joins = (is_merge && !is_loop) || is(f->node->op, WEFT_OP_EXIT);
  f->node->branches = joins && most > 0 ? most - 1 : most;
  w->top = f->below;
  weft_free(f->inputs);
  weft_free(f);
}

static weft_status_t *visit(stale_walk_t *w, const TF_Operation *root) {
  if (find(w, root) != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(enter(w, (TF_Operation *)(uintptr_t)root));
  while (w->top != NULL) {
    stale_frame_t *f = w->top;
    if (f->at == f->n) {
      leave(w);
      continue;
    }
    TF_Operation *in = f->inputs[f->at++];
    if (find(w, in) == NULL) WEFT_RETURN_IF_ERROR(enter(w, in));
  }
  return NULL;
}

static void walk_deinit(stale_walk_t *w) {
  while (w->top != NULL) {
    stale_frame_t *f = w->top;
    w->top = f->below;
    weft_free(f->inputs);
    weft_free(f);
  }
  while (w->all != NULL) {
    seen_t *s = w->all;
    w->all = s->next;
    weft_free(s);
  }
  weft_map_deinit(&w->by_op);
}

/* ---- variables ---- */

/* The variable that the first input refers to; NULL: none that is known. */
static seen_t *variable_of(const stale_walk_t *w, TF_Operation *op) {
  for (int hops = 0; hops < MOST_HOPS && TF_OperationNumInputs(op) > 0; hops++) {
    op = TF_OperationInput((TF_Input){op, 0}).oper;
    if (is(op, WEFT_OP_VARIABLE)) return find(w, op);
    if (!is(op, WEFT_OP_IDENTITY | WEFT_OP_ENTER | WEFT_OP_SWITCH)) return NULL;
  }
  return NULL;
}

/* Returns how many lose their value. */
static int mark(stale_walk_t *w) {
  int n = 0;
  for (seen_t *s = w->all; s != NULL; s = s->next) {
    bool assigns = s->branches == 0 && is(s->op, WEFT_OP_ASSIGN), asks = is(s->op, WEFT_OP_INITIALIZED);
    seen_t *v = assigns || asks ? variable_of(w, s->op) : NULL;
    if (v == NULL) continue;
    bool was = v->is_assigned && v->is_asked_about;
    if (assigns) v->is_assigned = true;
    if (asks) v->is_asked_about = true;
    n += !was && v->is_assigned && v->is_asked_about;
  }
  return n;
}

static weft_status_t *add_clear(TF_Graph *g, TF_Operation *variable, int number, const TF_Operation **out) {
  char name[64];
  for (snprintf(name, sizeof name, "weft/fresh_%d", number); TF_GraphOperationByName(g, name) != NULL;) {
    number += 1000003;
    snprintf(name, sizeof name, "weft/fresh_%d", number);
  }
  TF_Status *status = TF_NewStatus();
  if (status == NULL) return no_memory();
  bool is_handle = TF_OperationOutputType((TF_Output){variable, 0}) == TF_RESOURCE;
  TF_OperationDescription *d =
      TF_NewOperation(g, is_handle ? "DestroyResourceOp" : "WeftForgetVariable", name);
  TF_AddInput(d, (TF_Output){variable, 0});
  if (TF_OperationDevice(variable)[0] != '\0') TF_SetDevice(d, TF_OperationDevice(variable));
  if (is_handle) TF_SetAttrBool(d, "ignore_lookup_error", 1);
  *out = TF_FinishOperation(d, status);
  weft_status_t *s = weft_job_c_api_status(status);
  TF_DeleteStatus(status);
  return s;
}

weft_status_t *weft_job_stale_init(weft_job_stale_t *out, const weft_job_plan_t *plan) {
  stale_walk_t w = {.by_op = WEFT_MAP_INIT};
  weft_status_t *s = NULL;
  *out = (weft_job_stale_t){NULL, 0};
  for (int i = 0; s == NULL && i < plan->num_inits; i++) s = visit(&w, plan->inits[i]);
  int n = s == NULL ? mark(&w) : 0;
  out->clears = weft_calloc((size_t)n + 1, sizeof *out->clears);
  if (s == NULL && out->clears == NULL) s = no_memory();
  for (seen_t *v = w.all; s == NULL && v != NULL; v = v->next) {
    if (!v->is_assigned || !v->is_asked_about) continue;
    s = add_clear(plan->graph, v->op, out->n, &out->clears[out->n]);
    if (s == NULL) out->n++;
  }
  walk_deinit(&w);
  return s;
}

void weft_job_stale_deinit(weft_job_stale_t *f) {
  weft_free(f->clears);
  *f = (weft_job_stale_t){NULL, 0};
}
