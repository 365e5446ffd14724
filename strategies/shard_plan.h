/* strategies/shard_plan.h - which variables of a graph can be sharded; for shard_graph.c and its neighbours
 * only.
 */
#ifndef WEFT_STRATEGIES_SHARD_PLAN_H_
#define WEFT_STRATEGIES_SHARD_PLAN_H_

#include "strategies/emit.h"
#include "strategies/placed_graph.h"
#include "strategies/shard.h"

typedef struct weft_shard {
  int64_t n;          /* parts; 1: whole */
  const char *why;    /* the reason why it stays whole although it is large enough; NULL: none */
  weft_str_t culprit; /* the node that is the reason */
  weft_shape_t shape;
  weft_dtype_t dtype;
  weft_output_t *parts; /* n, in the new graph */
  weft_output_t value;  /* all of it, in the new graph; node NULL: not built */
} weft_shard_t;

typedef struct weft_shard_plan { /* Confined. */
  weft_placed_graph_t l;         /* of the source */
  weft_shard_t *shards;          /* by variable; in l.arena */
  weft_copier_t c;
  weft_emitter_t b;     /* into the new graph */
  weft_fanout_t fanout; /* of the source */
  const weft_strategy_request_t *request;
} weft_shard_plan_t;

/* Fills plan->shards[].n, why, shape and dtype; plan->l is there. */
WEFT_MUST_CHECK weft_status_t *weft_shard_choose(weft_shard_plan_t *plan, const weft_partitioner_t *p);
/* The shard that input i of n is, straight from the variable or through a read of it; NULL: it is not a
 * sharded variable. */
weft_shard_t *weft_shard_behind(const weft_shard_plan_t *plan, const weft_node_t *n, int input,
                                bool straight);
/* Does n look up rows of its input 0 along dimension 0? */
bool weft_shard_is_lookup(const weft_node_t *n);

/* Rewrites of one node: *done says that the node needs no ordinary copy. Failures go to plan->b. */
void weft_shard_rewrite_lookup(weft_shard_plan_t *plan, const weft_node_t *n, bool *done);
void weft_shard_rewrite_update(weft_shard_plan_t *plan, const weft_node_t *n, bool *done);
void weft_shard_rewrite_save(weft_shard_plan_t *plan, const weft_node_t *n, bool *done);
/* n's control inputs, for a node that does part of its work. */
void weft_shard_like(weft_shard_plan_t *plan, const weft_node_t *n, weft_output_t part);
/* What part i holds when n's control inputs are done. */
weft_output_t weft_shard_read(weft_shard_plan_t *plan, weft_shard_t *v, int64_t i, const weft_node_t *n);
weft_output_t weft_shard_join(weft_shard_plan_t *plan, weft_str_t name, const weft_output_t *parts,
                              int64_t n);
/* "name/part_3" in the plan's arena. */
weft_str_t weft_shard_name(weft_shard_plan_t *plan, weft_str_t name, const char *middle, int64_t i);

#endif /* WEFT_STRATEGIES_SHARD_PLAN_H_ */
