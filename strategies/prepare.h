/* strategies/prepare.h - a request's graph made ready for a rewrite, and its names resolved. */
#ifndef WEFT_STRATEGIES_PREPARE_H_
#define WEFT_STRATEGIES_PREPARE_H_

#include "strategies/rewrite.h"

typedef struct weft_root { /* a node of the prepared graph that is fetched or run */
  weft_node_t *node;
  uint64_t fetched; /* bit k: output k is fetched (bit 63: that one and those behind it) */
  bool is_init;     /* runs before the steps */
} weft_root_t;

typedef struct weft_prepared_graph {
  weft_graph_t *graph; /* owned: pruned to what the request needs, control flow lowered, shapes inferred */
  weft_root_t *roots;  /* owned; each node once, in the order of the request: fetches, targets, inits */
  weft_node_t **feeds; /* owned; in the order of the request */
  int num_roots, num_feeds;
  int num_expanded; /* fused batch normalisations that were taken apart */
} weft_prepared_graph_t;

/* With expands_batch_norms, those are made of what can be summed over replicas (batch_norm.h).
 * A feed that replaces a value inside the graph becomes a placeholder of that name.
 * Errors: NOT_FOUND naming what the graph lacks; INVALID_ARGUMENT; whatever lowering and inference say. */
WEFT_MUST_CHECK weft_status_t *weft_prepare(const weft_strategy_request_t *r, bool expands_batch_norms,
                                            weft_prepared_graph_t *out);
void weft_prepared_deinit(weft_prepared_graph_t *p);

/* The node that "node" or "node:k" names. Errors: NOT_FOUND; INVALID_ARGUMENT if it has no output k. */
WEFT_MUST_CHECK weft_status_t *weft_find_named(const weft_graph_t *g, weft_str_t name, const char *what,
                                               weft_node_t **out, int *out_index);
/* A node that stands for a value that is fed: a Placeholder of any kind. */
bool weft_node_is_placeholder(const weft_node_t *n);
/* Copies of the names in `arena`. */
WEFT_MUST_CHECK weft_status_t *weft_copy_names(weft_arena_t *arena, weft_names_t names, weft_names_t *out);

#endif /* WEFT_STRATEGIES_PREPARE_H_ */
