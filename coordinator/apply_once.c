/* coordinator/apply_once.c - updates that take effect once, however often their call is run.
 *
 *   value -> here -.-> Switch -> live -> guarded -> (the caller's updates)
 *                  |     ^         \        ^
 *                  '--> WeftOnce    `-> WeftOnceDone      all on the parameter server; all but the first
 * arrow local
 *
 * WeftOnce waits for all values, so nothing behind it has to wait for the network. When it answers that the
 * call is new it commits this server's part of the step: what follows is run although the worker dies and the
 * step is cancelled. Therefore the call may be written down as done before the updates have run.
 */
#include <stdio.h>

#include "client/status.h"
#include "coordinator/worker_context.h"

enum { WINDOW = 1 << 20 }; /* calls that a server remembers: four times as many as may wait by default */

/* Names and devices of one guard's nodes. */
typedef struct guard {
  TF_Graph *graph;
  const char *device;
  int number;
  TF_Status *status;
} guard_t;

static TF_OperationDescription *begin(const guard_t *g, const char *op, const char *name, int i) {
  char text[64];
  snprintf(text, sizeof text, "weft_once_%d/%s_%d", g->number, name, i);
  TF_OperationDescription *d = TF_NewOperation(g->graph, op, text);
  TF_SetDevice(d, g->device);
  return d;
}

/* oper NULL on failure. */
static TF_Output end(const guard_t *g, TF_OperationDescription *d) {
  return (TF_Output){TF_FinishOperation(d, g->status), 0};
}
static bool ok(const guard_t *g) { return TF_GetCode(g->status) == TF_OK; }

static TF_Output identity(const guard_t *g, const char *name, int i, TF_Output x, TF_Operation *after) {
  TF_OperationDescription *d = begin(g, "Identity", name, i);
  TF_AddInput(d, x);
  if (after != NULL) TF_AddControlInput(d, after);
  return end(g, d);
}

static TF_OperationDescription *begin_once(const guard_t *g, const char *op, const char *name, TF_Output id) {
  char shared_name[32];
  int length = snprintf(shared_name, sizeof shared_name, "weft_calls_%d", g->number);
  TF_OperationDescription *d = begin(g, op, name, 0);
  TF_AddInput(d, id);
  TF_SetAttrInt(d, "window", WINDOW);
  TF_SetAttrString(d, "shared_name", shared_name, (size_t)length);
  return d;
}

static void build(const guard_t *g, TF_Output id, const TF_Output *values, int n, TF_Output *guarded) {
  for (int i = 0; i < n && ok(g); i++) guarded[i] = identity(g, "here", i, values[i], NULL);
  if (!ok(g)) return;
  TF_OperationDescription *d = begin_once(g, "WeftOnce", "claim", id);
  for (int i = 0; i < n; i++) TF_AddControlInput(d, guarded[i].oper);
  TF_Output is_new = end(g, d);
  for (int i = 0; i < n && ok(g); i++) {
    d = begin(g, "Switch", "switch", i);
    TF_AddInput(d, guarded[i]);
    TF_AddInput(d, is_new);
    TF_Output branches = end(g, d);
    if (ok(g)) guarded[i] = identity(g, "live", i, (TF_Output){branches.oper, 1}, NULL);
  }
  if (!ok(g)) return;
  d = begin_once(g, "WeftOnceDone", "done", id);
  TF_AddControlInput(d, guarded[0].oper);
  TF_Output done = end(g, d);
  for (int i = 0; i < n && ok(g); i++) guarded[i] = identity(g, "guarded", i, guarded[i], done.oper);
}

void WEFT_WorkerContextApplyOnce(WEFT_WorkerContext *x, TF_Graph *graph, int ps, const TF_Output *values,
                                 int num_values, TF_Output *guarded, TF_Status *status) {
  const char *device = WEFT_WorkerContextParameterServerDevice(x, ps);
  for (int i = 0; i < num_values; i++) guarded[i] = (TF_Output){NULL, 0};
  weft_status_t *s = NULL;
  if (device == NULL) s = WEFT_ERROR(INVALID_ARGUMENT, "there is no parameter server %d", ps);
  if (s == NULL && num_values < 1) s = WEFT_ERROR(INVALID_ARGUMENT, "a guard needs at least one value");
  if (!weft_client_end(status, s)) return;
  const guard_t g = {graph, device, x->num_guards++, status};
  TF_Output id = WEFT_WorkerContextClosureId(x, graph, status);
  if (ok(&g)) build(&g, id, values, num_values, guarded);
  for (int i = 0; i < num_values && !ok(&g); i++) guarded[i] = (TF_Output){NULL, 0};
}
