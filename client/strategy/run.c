/* client/strategy/run.c - a replica's function, and what may be called inside of it. */
#include "client/strategy/run.h"

#include <stdio.h>

#include "base/alloc.h"
#include "client/status.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a replica's function"); }

weft_status_t *weft_merge(WEFT_ReplicaContext *c, weft_merge_fn *fn, void *user, const TF_Output *args,
                          int num_args, TF_Output *results, int num_results, TF_Operation **out_op) {
  for (int i = 0; i < num_args; i++) {
    if (args[i].oper == NULL)
      return WEFT_ERROR(INVALID_ARGUMENT, "argument %d of a merge call is missing", i);
  }
  return c->run->merge(c, fn, user, args, num_args, results, num_results, out_op);
}

/* ---- WEFT_StrategyRun ---- */

static weft_status_t *check_args(const WEFT_Strategy *s, WEFT_Value *const *args, int n) {
  for (int i = 0; i < n; i++) {
    if (args[i] == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "WEFT_StrategyRun: argument %d is NULL", i);
    if (args[i]->n != 1 && args[i]->n != s->num_replicas) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "WEFT_StrategyRun: argument %d has values for %d replicas, but the strategy has %d",
                        i, args[i]->n, s->num_replicas);
    }
  }
  return NULL;
}

void WEFT_StrategyRun(WEFT_Strategy *strategy, TF_Graph *graph, WEFT_TraceMode mode, WEFT_ReplicaFn fn,
                      WEFT_Value *const *args, int num_args, WEFT_Value **results, int num_results,
                      void *user, TF_Status *status) {
  weft_replica_run_t r = {.strategy = strategy,
                          .graph = graph,
                          .fn = fn,
                          .user = user,
                          .args = args,
                          .results = results,
                          .num_args = num_args,
                          .num_results = num_results};
  for (int i = 0; i < num_results; i++) results[i] = NULL;
  weft_status_t *s =
      weft_scope_check(graph, strategy, 1u << WEFT_CONTEXT_CROSS, "WEFT_StrategyRun", &r.scope);
  if (s == NULL) s = check_args(strategy, args, num_args);
  if (s == NULL) {
    weft_place_t before = r.scope->place;
    s = mode == WEFT_TRACE_EACH ? weft_trace_each(&r) : weft_trace_once(&r);
    weft_scope_go(graph, r.scope, before);
  }
  for (int i = 0; s != NULL && i < num_results; i++) {
    WEFT_DeleteValue(results[i]);
    results[i] = NULL;
  }
  weft_client_end(status, s);
}

/* ---- inside ---- */

int WEFT_ReplicaId(WEFT_ReplicaContext *c) {
  if (!c->run->is_traced_once) return c->replica;
  c->asked_for_id = true;
  return -1;
}
int WEFT_NumReplicas(const WEFT_ReplicaContext *c) { return c->run->strategy->num_replicas; }
TF_Graph *WEFT_ReplicaGraph(const WEFT_ReplicaContext *c) { return c->run->graph; }

typedef struct all_reduce {
  WEFT_ReduceOp op;
} all_reduce_t;

static weft_status_t *merge_all_reduce(TF_Graph *g, weft_scope_t *s, const TF_Output *args, int num_args,
                                       TF_Output *results, int num_results, TF_Operation **op, void *user) {
  (void)num_results;
  (void)op;
  return weft_all_reduce(g, s, ((all_reduce_t *)user)->op, args, num_args, results);
}

void WEFT_ReplicaBatchAllReduce(WEFT_ReplicaContext *c, WEFT_ReduceOp op, const TF_Output *values, int n,
                                TF_Output *out, TF_Status *status) {
  all_reduce_t how = {op};
  for (int i = 0; i < n; i++) out[i] = (TF_Output){NULL, 0};
  weft_client_end(status, n == 0 ? NULL : weft_merge(c, merge_all_reduce, &how, values, n, out, n, NULL));
}

TF_Output WEFT_ReplicaAllReduce(WEFT_ReplicaContext *c, WEFT_ReduceOp op, TF_Output value,
                                TF_Status *status) {
  TF_Output out;
  WEFT_ReplicaBatchAllReduce(c, op, &value, 1, &out, status);
  return out;
}

/* Everything goes to every replica; the join is each replica's own. */
static weft_status_t *merge_gather(TF_Graph *g, weft_scope_t *s, const TF_Output *args, int num_args,
                                   TF_Output *results, int num_results, TF_Operation **op, void *user) {
  int n = s->strategy->num_replicas;
  (void)num_args;
  (void)num_results;
  (void)op;
  weft_adding_t b;
  weft_output_t *inputs = weft_calloc((size_t)n * 2 + 1, sizeof *inputs),
                *made = inputs == NULL ? NULL : inputs + n + 1;
  if (inputs == NULL) return no_memory();
  for (int i = 0; i < n; i++) inputs[i] = weft_client_output(args[i]);
  weft_adding_begin(&b, g, WEFT_STR(""));
  for (int i = 0; i < n; i++) {
    weft_named_attr_t count = weft_int_attr("N", n);
    b.e.device = s->strategy->devices[i];
    inputs[n] = weft_emit_int(&b.e, WEFT_I32, *(int *)user, "all_gather/axis");
    made[i] = n == 1 ? weft_emit1(&b.e, "Identity", inputs[0], "all_gather/one")
                     : weft_emit(&b.e, "ConcatV2", inputs, n + 1, &count, 1, "replica_%d/all_gather", i);
  }
  weft_status_t *status = weft_adding_end(&b);
  for (int i = 0; status == NULL && i < n; i++) results[i] = weft_adding_output(&b, made[i]);
  weft_free(inputs);
  return status;
}

TF_Output WEFT_ReplicaAllGather(WEFT_ReplicaContext *c, TF_Output value, int axis, TF_Status *status) {
  TF_Output out = {NULL, 0};
  return weft_client_end(status, weft_merge(c, merge_gather, &axis, &value, 1, &out, 1, NULL))
             ? out
             : (TF_Output){NULL, 0};
}

/* ---- a merge function of the caller's ---- */

typedef struct user_merge {
  WEFT_MergeFn fn;
  void *user;
} user_merge_t;

static weft_status_t *merge_user(TF_Graph *g, weft_scope_t *s, const TF_Output *args, int num_args,
                                 TF_Output *results, int num_results, TF_Operation **op, void *user) {
  const user_merge_t *m = user;
  int n = s->strategy->num_replicas;
  (void)op;
  WEFT_Value **in = weft_calloc((size_t)num_args + 1, sizeof *in),
             **out = weft_calloc((size_t)num_results + 1, sizeof *out);
  weft_status_t *status = in == NULL || out == NULL ? no_memory() : NULL;
  for (int k = 0; status == NULL && k < num_args; k++)
    status = weft_value_new(&args[k * n], n, false, &in[k]);
  if (status == NULL) {
    TF_Status *said = TF_NewStatus();
    m->fn(s->strategy, g, in, num_args, out, num_results, m->user, said);
    status = weft_status_taken(said);
    TF_DeleteStatus(said);
  }
  for (int k = 0; status == NULL && k < num_results; k++) {
    if (out[k] == NULL)
      status = WEFT_ERROR(INVALID_ARGUMENT, "a merge call gave no result %d", k);
    else if (out[k]->n != 1 && out[k]->n != n)
      status = WEFT_ERROR(INVALID_ARGUMENT, "result %d of a merge call is for %d replicas, not %d", k,
                          out[k]->n, n);
    for (int i = 0; status == NULL && i < n; i++) results[k * n + i] = weft_value_of(out[k], i);
  }
  for (int k = 0; in != NULL && k < num_args; k++) WEFT_DeleteValue(in[k]);
  for (int k = 0; out != NULL && k < num_results; k++) WEFT_DeleteValue(out[k]);
  weft_free(in);
  weft_free(out);
  return status;
}

void WEFT_ReplicaMergeCall(WEFT_ReplicaContext *c, WEFT_MergeFn fn, const TF_Output *args, int num_args,
                           TF_Output *results, int num_results, void *user, TF_Status *status) {
  user_merge_t m = {fn, user};
  for (int i = 0; i < num_results; i++) results[i] = (TF_Output){NULL, 0};
  weft_client_end(status, weft_merge(c, merge_user, &m, args, num_args, results, num_results, NULL));
}

/* ---- updates ---- */

static weft_status_t *update(TF_Graph *g, weft_scope_t *scope, WEFT_Variable *v, WEFT_UpdateFn fn,
                             WEFT_Value *const *args, int num_args, void *user, TF_Operation **out) {
  TF_Output *own = weft_calloc((size_t)num_args + 1, sizeof *own);
  TF_Operation **ops = weft_calloc((size_t)v->num_components + 1, sizeof(TF_Operation *));
  weft_status_t *s = own == NULL || ops == NULL ? no_memory() : NULL;
  TF_Status *status = TF_NewStatus();
  weft_place_t before = scope->place;
  for (int i = 0; s == NULL && i < v->num_components; i++) {
    weft_place_t p = {.context = WEFT_CONTEXT_UPDATE,
                      .component = i,
                      .device = v->components[i].device,
                      .prefix = WEFT_STR("")};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "update_%d/", i);
    if (i > 0) p.prefix = weft_arena_str(&scope->arena, weft_str(prefix));
    for (int k = 0; k < num_args; k++) own[k] = weft_value_of(args[k], args[k]->n > i ? i : 0);
    weft_scope_go(g, scope, p);
    ops[i] = fn(g, v, v->components[i].handle, own, num_args, user, status);
    weft_scope_go(g, scope, before);
    s = weft_status_taken(status);
    if (s == NULL && ops[i] == NULL)
      s = WEFT_ERROR(INVALID_ARGUMENT, "the update of variable '%.*s' gave no operation",
                     WEFT_STR_ARGS(v->name));
  }
  if (s == NULL) {
    weft_adding_t b;
    weft_adding_begin(&b, g, WEFT_STR(""));
    weft_node_t *all = weft_emit_noop(&b.e, NULL, 0, "%.*s/updated", WEFT_STR_ARGS(v->name));
    for (int i = 0; i < v->num_components; i++) weft_emit_control(&b.e, ops[i]->node, all);
    s = weft_adding_end(&b);
    if (s == NULL) *out = weft_adding_operation(&b, all);
  }
  TF_DeleteStatus(status);
  weft_free(own);
  weft_free(ops);
  return s;
}

TF_Operation *WEFT_StrategyUpdate(WEFT_Strategy *strategy, TF_Graph *graph, WEFT_Variable *variable,
                                  WEFT_UpdateFn fn, WEFT_Value *const *args, int num_args, void *user,
                                  TF_Status *status) {
  weft_scope_t *scope;
  TF_Operation *out = NULL;
  weft_status_t *s =
      weft_scope_check(graph, strategy, 1u << WEFT_CONTEXT_CROSS, "WEFT_StrategyUpdate", &scope);
  if (s == NULL && (variable == NULL || variable->graph != graph))
    s = WEFT_ERROR(INVALID_ARGUMENT, "WEFT_StrategyUpdate: no variable of this graph");
  if (s == NULL) s = check_args(strategy, args, num_args);
  if (s == NULL) s = update(graph, scope, variable, fn, args, num_args, user, &out);
  return weft_client_end(status, s) ? out : NULL;
}
