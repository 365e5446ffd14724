/* graph/chain_regions.h - which elementwise nodes and reductions become one _WeftChain. Private to the chain
 * passes. */
#ifndef WEFT_GRAPH_CHAIN_REGIONS_H_
#define WEFT_GRAPH_CHAIN_REGIONS_H_

#include "graph/passes.h"

/* Regions of two nodes and more, in an order in which a region comes behind those that it reads. */
typedef struct weft_chain_regions {
  int num_regions;
  int *begin;          /* num_regions + 1 */
  weft_node_t **nodes; /* of region r: begin[r] .. begin[r + 1], producers first */
  int *region_of;      /* by node id; -1: none */
} weft_chain_regions_t;

/* All lies in `arena`. Linear in nodes and edges, but for the inputs of chains that are limited. Errors:
 * those of weft_graph_topological_order and weft_pass_find_frames; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_chain_regions_find(const weft_graph_t *g, const weft_fanout_t *fanout,
                                                       weft_chain_limits_fn *limits, void *arg,
                                                       weft_arena_t *arena, weft_chain_regions_t *out);

#endif /* WEFT_GRAPH_CHAIN_REGIONS_H_ */
