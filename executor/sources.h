/* executor/sources.h - what nodes wait for that the graph does not show, and what they are dead of.
 *
 * For passes that make one node of several: those must not wait for each other by way of anything outside,
 * and must be dead together. Private to the executor.
 */
#ifndef WEFT_EXECUTOR_SOURCES_H_
#define WEFT_EXECUTOR_SOURCES_H_

#include "graph/passes.h"

/* By node id: the numbers of two sets. Nodes with the same numbers wait for the same sources, and are dead
 * together. */
typedef struct node_sources {
  uint32_t *waits_of, *dead_of;
  weft_frames_t frames;
} node_sources_t;

static const uint32_t TOO_MANY_SOURCES = UINT32_MAX; /* instead of a number: such a node joins no other */

/* `order`: the nodes of the graph, producers first. What is found lies in `arena`. */
WEFT_MUST_CHECK weft_status_t *weft_plan_find_sources(const weft_graph_t *g, weft_node_t *const *order,
                                                      weft_arena_t *arena, node_sources_t *out);

#endif /* WEFT_EXECUTOR_SOURCES_H_ */
