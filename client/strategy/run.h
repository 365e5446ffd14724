/* client/strategy/run.h - one WEFT_StrategyRun: what its two ways of tracing share. */
#ifndef WEFT_CLIENT_STRATEGY_RUN_H_
#define WEFT_CLIENT_STRATEGY_RUN_H_

#include "client/strategy/scope.h"

typedef struct weft_replica_run weft_replica_run_t;

struct WEFT_ReplicaContext {
  weft_replica_run_t *run;
  int replica;
  bool asked_for_id; /* though the function is traced once */
};

struct weft_replica_run { /* Of one call. */
  WEFT_Strategy *strategy;
  TF_Graph *graph;
  weft_scope_t *scope;
  WEFT_ReplicaFn fn;
  void *user;
  WEFT_Value *const *args;
  WEFT_Value **results; /* num_results, per replica values at the end */
  int num_args, num_results;
  bool is_traced_once;
  /* A replica waits for the others: see weft_merge. */
  weft_status_t *(*merge)(WEFT_ReplicaContext *c, weft_merge_fn *fn, void *user, const TF_Output *args,
                          int num_args, TF_Output *results, int num_results, TF_Operation **out_op);
};

weft_place_t weft_replica_place(weft_replica_run_t *r, WEFT_ReplicaContext *c, weft_arena_t *arena);
WEFT_MUST_CHECK weft_status_t *weft_trace_once(weft_replica_run_t *r);
WEFT_MUST_CHECK weft_status_t *weft_trace_each(weft_replica_run_t *r);

/* Calls the merge function in cross-replica context, and returns to where we were. */
WEFT_MUST_CHECK weft_status_t *weft_call_merge(weft_replica_run_t *r, weft_merge_fn *fn, void *user,
                                               const TF_Output *args, int num_args, TF_Output *results,
                                               int num_results, TF_Operation **out_op);

#endif /* WEFT_CLIENT_STRATEGY_RUN_H_ */
