/* strategies/parameter_server.h - what the files of the parameter-server strategy share. */
#ifndef WEFT_STRATEGIES_PARAMETER_SERVER_H_
#define WEFT_STRATEGIES_PARAMETER_SERVER_H_

#include "sharding/data/plan.h"
#include "strategies/placed_graph.h"
#include "strategies/replicate.h"
#include "strategies/shard.h"

typedef enum weft_ps_mode { WEFT_PS_ASYNC, WEFT_PS_SYNC, WEFT_PS_SSP } weft_ps_mode_t;

typedef struct weft_ps_options {
  weft_ps_mode_t mode;
  weft_placement_t placement;
  weft_partitioner_t partitioner;
  int servers, workers; /* requested; 0: all available */
  int staleness, backup;
  bool caches;
  bool splits; /* of sync: workers share each batch */
  weft_input_policy_t input;
  bool local_batch_norm; /* these for workers that share batches: as for replicas (replicate.h) */
  weft_names_t batch;
  weft_str_t algorithm;
  double timeout_seconds;
} weft_ps_options_t;

/* A rewrite under way. */
typedef struct weft_ps { /* Confined. */
  const weft_strategy_request_t *request;
  weft_ps_options_t options;
  weft_ps_places_t places;
  weft_graph_t *whole;   /* owned; of sync: the graph before variables were sharded, which `data` describes */
  weft_data_plan_t data; /* of sync; graph NULL: not analysed */
  weft_graph_t *source;  /* owned: lowered, variables sharded, shapes inferred */
  weft_placed_graph_t placed; /* of source */
  bool *begins; /* by node id of source: sets up what each worker has its own of, before the steps; arena */
  bool *begins_data;   /* by node id of source: the same, and what that needs; arena */
  weft_rewrite_t *out; /* out->graph is being built */
} weft_ps_t;

/* Arrays and texts are in `arena`, or views of `text`. Errors: INVALID_ARGUMENT naming the option. */
WEFT_MUST_CHECK weft_status_t *weft_ps_options_parse(weft_str_t text, int num_ps_tasks, weft_arena_t *arena,
                                                     weft_ps_options_t *out);
/* The devices of servers and of workers. Texts go to `arena`. Errors: INVALID_ARGUMENT: more were requested
 * than exist. */
WEFT_MUST_CHECK weft_status_t *weft_ps_find_places(const weft_cluster_view_t *cluster,
                                                   const weft_ps_options_t *o, weft_arena_t *arena,
                                                   weft_ps_places_t *out);

/* Workers in step that share each batch: replicas whose variables are on servers (replicate.h). Fills all of
 * *out. */
WEFT_MUST_CHECK weft_status_t *weft_ps_replicate(weft_ps_t *p);
/* The worker loops of each other mode; they fill out->graph, out->loops and out->inits. */
WEFT_MUST_CHECK weft_status_t *weft_ps_build_async(weft_ps_t *p); /* async and ssp */
WEFT_MUST_CHECK weft_status_t *weft_ps_build_sync(weft_ps_t *p);

/* parameter_server_data.c: fills begins and begins_data. Then for each worker loop: what a copier must not
 * copy again of them; what it copies, of them and of the step; and, after it has, the worker's part of the
 * data (`base` is whose initialisers run). */
WEFT_MUST_CHECK weft_status_t *weft_ps_find_data(weft_ps_t *p);
bool weft_ps_is_copied(const weft_ps_t *p, const weft_copier_t *c, const weft_node_t *n);
WEFT_MUST_CHECK weft_status_t *weft_ps_share_data(const weft_ps_t *p, weft_placed_copier_t *c,
                                                  const weft_placed_copier_t *base);
WEFT_MUST_CHECK weft_status_t *weft_ps_shard_data(const weft_ps_t *p, const weft_placed_copier_t *c,
                                                  const weft_placed_copier_t *base);

/* Adds `loop` to out->loops: name, task and kind of worker i, and the names that stand for the request's,
 * then `more` (may be NULL) as another target. */
WEFT_MUST_CHECK weft_status_t *weft_ps_add_loop(weft_ps_t *p, int worker, const weft_copier_t *names,
                                                const weft_node_t *more);
/* The request's inits, then `more` (may be NULL). */
WEFT_MUST_CHECK weft_status_t *weft_ps_set_inits(weft_ps_t *p, const weft_copier_t *names,
                                                 const weft_node_t *more);
/* The shared_name of the strategy's own state `name`: none where one session owns it, so that a job never
 * sees the clocks, tokens and gradients that an earlier job's client left behind. */
weft_named_attr_t weft_ps_shared_name(const weft_ps_t *p, weft_str_t name);
/* before, i and after put together, in the arena; data NULL without memory. */
weft_str_t weft_ps_numbered(weft_arena_t *arena, const char *before, int i, const char *after);
/* "worker_3/" in the rewrite's arena; data NULL without memory. */
weft_str_t weft_ps_prefix(weft_ps_t *p, int worker);

/* Notes of `out`: what runs on servers and what on workers. */
WEFT_MUST_CHECK weft_status_t *weft_ps_explain(weft_ps_t *p);

#endif /* WEFT_STRATEGIES_PARAMETER_SERVER_H_ */
