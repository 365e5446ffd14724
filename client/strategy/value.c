/* client/strategy/value.c - values of replicas; reducing, gathering and sharing them out in cross-replica
 * context. */
#include "base/alloc.h"
#include "client/status.h"
#include "client/strategy/scope.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a value"); }

weft_status_t *weft_value_new(const TF_Output *outputs, int n, bool is_mirrored, WEFT_Value **out) {
  for (int i = 0; i < n; i++) {
    if (outputs[i].oper == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "the value of replica %d is missing", i);
  }
  if (n < 1) return WEFT_ERROR(INVALID_ARGUMENT, "a value of no replica");
  WEFT_Value *v = weft_calloc(1, sizeof *v + (size_t)n * sizeof v->outputs[0]);
  if (v == NULL) return no_memory();
  v->n = n;
  v->is_mirrored = is_mirrored;
  for (int i = 0; i < n; i++) v->outputs[i] = outputs[i];
  *out = v;
  return NULL;
}

WEFT_Value *WEFT_NewValue(TF_Output tensor, TF_Status *status) {
  return WEFT_NewPerReplicaValue(&tensor, 1, status);
}

WEFT_Value *WEFT_NewPerReplicaValue(const TF_Output *tensors, int num_replicas, TF_Status *status) {
  WEFT_Value *v = NULL;
  return weft_client_end(status, weft_value_new(tensors, num_replicas, false, &v)) ? v : NULL;
}

void WEFT_DeleteValue(WEFT_Value *v) { weft_free(v); }
int WEFT_ValueNumReplicas(const WEFT_Value *v) { return v->n; }
TF_Output WEFT_ValueOfReplica(const WEFT_Value *v, int replica) {
  return replica < 0 || (v->n > 1 && replica >= v->n) ? (TF_Output){NULL, 0} : weft_value_of(v, replica);
}
int WEFT_ValueIsMirrored(const WEFT_Value *v) { return v->is_mirrored; }

int WEFT_LocalResults(const WEFT_Strategy *strategy, const WEFT_Value *v, TF_Output *out, int max) {
  int n = v->n == 1 ? 1 : strategy->num_replicas < v->n ? strategy->num_replicas : v->n;
  for (int i = 0; i < n && i < max; i++) out[i] = v->outputs[i];
  return n;
}

static weft_status_t *check_replicas(const weft_scope_t *s, const WEFT_Value *v, const char *what) {
  if (v == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "%s: the value is NULL", what);
  if (v->n == 1 || v->n == s->strategy->num_replicas) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: a value of %d replicas, but the strategy has %d", what, v->n,
                    s->strategy->num_replicas);
}

/* ---- reduce ---- */

/* Sums and counts along the axis, so that a mean weighs every row alike. */
static weft_status_t *reduce_axis(TF_Graph *g, WEFT_ReduceOp op, TF_Output value, int axis, TF_Output *out,
                                  TF_Output *count) {
  static const char *const ops[] = {
      [WEFT_SUM] = "Sum", [WEFT_MEAN] = "Sum", [WEFT_MIN] = "Min", [WEFT_MAX] = "Max"};
  weft_adding_t b;
  weft_adding_begin(&b, g, value.oper->node->requested_device);
  weft_output_t x = weft_client_output(value), dim = weft_emit_int(&b.e, WEFT_I32, axis, "reduce/axis"),
                rows = {NULL, 0};
  weft_output_t reduced = weft_emit2(&b.e, ops[op], x, dim, "reduce/along_axis");
  if (op == WEFT_MEAN) {
    weft_output_t shape = weft_emit1(&b.e, "Shape", x, "reduce/shape");
    weft_output_t first = weft_emit_int(&b.e, WEFT_I32, 0, "reduce/gather_axis");
    rows = weft_emit_cast(&b.e, weft_emit3(&b.e, "GatherV2", shape, dim, first, "reduce/rows"),
                          weft_base_type_of(x), "reduce/rows_as_type");
  }
  weft_status_t *s = weft_adding_end(&b);
  if (s != NULL) return s;
  *out = weft_adding_output(&b, reduced);
  *count = weft_adding_output(&b, rows);
  return NULL;
}

static weft_status_t *reduce(TF_Graph *g, weft_scope_t *scope, WEFT_ReduceOp op, const WEFT_Value *v,
                             int axis, TF_Output *out) {
  int n = v->is_mirrored && op != WEFT_SUM ? 1 : v->n; /* equal on all */
  weft_str_t device = scope->strategy->devices[0];
  if (v->n == 1 && scope->strategy->num_replicas > 1 && op == WEFT_SUM) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "WEFT_StrategyReduce: one tensor for all replicas has no sum over them: give a "
                      "per-replica value, or ask for the mean");
  }
  TF_Output *values = weft_calloc((size_t)n * 2, sizeof *values);
  if (values == NULL) return no_memory();
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    values[i] = v->outputs[i];
    if (axis >= 0) s = reduce_axis(g, op, v->outputs[i], axis, &values[i], &values[n + i]);
  }
  bool weighs = axis >= 0 && op == WEFT_MEAN;
  TF_Output total, count;
  if (s == NULL) s = weft_reduce_to_one(g, weighs ? WEFT_SUM : op, values, n, device, &total);
  if (s == NULL && weighs) s = weft_reduce_to_one(g, WEFT_SUM, &values[n], n, device, &count);
  if (s == NULL && weighs) {
    weft_adding_t b;
    weft_adding_begin(&b, g, device);
    weft_output_t mean =
        weft_emit2(&b.e, "RealDiv", weft_client_output(total), weft_client_output(count), "reduce/mean");
    s = weft_adding_end(&b);
    if (s == NULL) total = weft_adding_output(&b, mean);
  }
  weft_free(values);
  if (s == NULL) *out = total;
  return s;
}

TF_Output WEFT_StrategyReduce(WEFT_Strategy *strategy, TF_Graph *graph, WEFT_ReduceOp op,
                              const WEFT_Value *value, int axis, TF_Status *status) {
  weft_scope_t *scope;
  TF_Output out = {NULL, 0};
  weft_status_t *s =
      weft_scope_check(graph, strategy, 1u << WEFT_CONTEXT_CROSS, "WEFT_StrategyReduce", &scope);
  if (s == NULL) s = check_replicas(scope, value, "WEFT_StrategyReduce");
  if (s == NULL) s = reduce(graph, scope, op, value, axis, &out);
  return weft_client_end(status, s) ? out : (TF_Output){NULL, 0};
}

static weft_status_t *batch_reduce(TF_Graph *g, weft_scope_t *scope, WEFT_ReduceOp op,
                                   WEFT_Value *const *values, int n, WEFT_Value **out) {
  int replicas = scope->strategy->num_replicas;
  TF_Output *all = weft_calloc((size_t)n * (size_t)replicas * 2 + 1, sizeof *all),
            *reduced = all == NULL ? NULL : all + (size_t)n * (size_t)replicas;
  weft_status_t *s = all == NULL ? no_memory() : NULL;
  for (int k = 0; s == NULL && k < n; k++) s = check_replicas(scope, values[k], "WEFT_StrategyBatchReduce");
  for (int k = 0; s == NULL && k < n; k++) {
    for (int i = 0; i < replicas; i++) all[k * replicas + i] = weft_value_of(values[k], i);
  }
  if (s == NULL && n > 0) s = weft_all_reduce(g, scope, op, all, n, reduced);
  for (int k = 0; s == NULL && k < n; k++)
    s = weft_value_new(&reduced[k * replicas], replicas, replicas > 1, &out[k]);
  weft_free(all);
  return s;
}

void WEFT_StrategyBatchReduce(WEFT_Strategy *strategy, TF_Graph *graph, WEFT_ReduceOp op,
                              WEFT_Value *const *values, int n, WEFT_Value **out, TF_Status *status) {
  weft_scope_t *scope;
  for (int k = 0; k < n; k++) out[k] = NULL;
  weft_status_t *s =
      weft_scope_check(graph, strategy, 1u << WEFT_CONTEXT_CROSS, "WEFT_StrategyBatchReduce", &scope);
  if (s == NULL) s = batch_reduce(graph, scope, op, values, n, out);
  weft_client_end(status, s);
}

/* ---- gather, share out ---- */

static weft_status_t *gather(TF_Graph *g, weft_scope_t *scope, const WEFT_Value *v, int axis,
                             TF_Output *out) {
  if (v->n == 1) {
    *out = v->outputs[0];
    return NULL;
  }
  weft_adding_t b;
  weft_output_t *inputs = weft_calloc((size_t)v->n + 1, sizeof *inputs);
  if (inputs == NULL) return no_memory();
  weft_adding_begin(&b, g, scope->strategy->devices[0]);
  for (int i = 0; i < v->n; i++) inputs[i] = weft_client_output(v->outputs[i]);
  inputs[v->n] = weft_emit_int(&b.e, WEFT_I32, axis, "gather/axis");
  weft_named_attr_t count = weft_int_attr("N", v->n);
  weft_output_t whole = weft_emit(&b.e, "ConcatV2", inputs, v->n + 1, &count, 1, "gather/all");
  weft_status_t *s = weft_adding_end(&b);
  weft_free(inputs);
  if (s == NULL) *out = weft_adding_output(&b, whole);
  return s;
}

TF_Output WEFT_StrategyGather(WEFT_Strategy *strategy, TF_Graph *graph, const WEFT_Value *value, int axis,
                              TF_Status *status) {
  weft_scope_t *scope;
  TF_Output out = {NULL, 0};
  weft_status_t *s =
      weft_scope_check(graph, strategy, 1u << WEFT_CONTEXT_CROSS, "WEFT_StrategyGather", &scope);
  if (s == NULL) s = check_replicas(scope, value, "WEFT_StrategyGather");
  if (s == NULL) s = gather(graph, scope, value, axis, &out);
  return weft_client_end(status, s) ? out : (TF_Output){NULL, 0};
}

/* rows * i / n of the batch at hand, as a vector of one. */
static weft_output_t border(weft_adding_t *b, weft_output_t rows, int i, int n) {
  weft_output_t times =
      weft_emit2(&b->e, "Mul", rows, weft_emit_int(&b->e, WEFT_I64, i, "share/replica"), "share/times");
  weft_output_t at =
      weft_emit2(&b->e, "FloorDiv", times, weft_emit_int(&b->e, WEFT_I64, n, "share/replicas"), "share/at");
  int64_t one = 1;
  return weft_emit2(&b->e, "Reshape", at, weft_emit_ints(&b->e, WEFT_I64, &one, 1, "share/one"),
                    "share/border");
}

static weft_status_t *distribute(TF_Graph *g, weft_scope_t *scope, TF_Output batch, WEFT_Value **out) {
  int n = scope->strategy->num_replicas;
  if (batch.oper == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "the batch is missing");
  if (n == 1) return weft_value_new(&batch, 1, false, out);
  weft_adding_t b;
  weft_output_t *parts = weft_calloc((size_t)n, sizeof *parts), x = weft_client_output(batch);
  TF_Output *made = weft_calloc((size_t)n, sizeof *made);
  weft_status_t *s = parts == NULL || made == NULL ? no_memory() : NULL;
  if (s == NULL) {
    weft_adding_begin(&b, g, x.node->requested_device);
    weft_named_attr_t wide = weft_type_attr("out_type", WEFT_I64);
    weft_output_t shape = weft_emit(&b.e, "Shape", &x, 1, &wide, 1, "share/shape");
    weft_output_t rows = weft_emit3(&b.e, "GatherV2", shape, weft_emit_int(&b.e, WEFT_I32, 0, "share/first"),
                                    weft_emit_int(&b.e, WEFT_I32, 0, "share/axis"), "share/rows");
    int64_t one = 1;
    for (int i = 0; i < n; i++) {
      weft_output_t inputs[] = {x, border(&b, rows, i, n), border(&b, rows, i + 1, n),
                                weft_emit_ints(&b.e, WEFT_I64, &one, 1, "share/stride")};
      parts[i] = weft_emit(&b.e, "StridedSlice", inputs, 4, NULL, 0, "share/part_%d", i);
    }
    s = weft_adding_end(&b);
  }
  for (int i = 0; s == NULL && i < n; i++) made[i] = weft_adding_output(&b, parts[i]);
  if (s == NULL) s = weft_value_new(made, n, false, out);
  weft_free(parts);
  weft_free(made);
  return s;
}

WEFT_Value *WEFT_DistributeBatch(WEFT_Strategy *strategy, TF_Graph *graph, TF_Output batch,
                                 TF_Status *status) {
  weft_scope_t *scope;
  WEFT_Value *v = NULL;
  weft_status_t *s =
      weft_scope_check(graph, strategy, 1u << WEFT_CONTEXT_CROSS, "WEFT_DistributeBatch", &scope);
  if (s == NULL) s = distribute(graph, scope, batch, &v);
  return weft_client_end(status, s) ? v : NULL;
}
