/* graph/topology.h - topological orders that keep more than the edges. */
#ifndef WEFT_GRAPH_TOPOLOGY_H_
#define WEFT_GRAPH_TOPOLOGY_H_

#include "graph/passes.h"

enum { WEFT_MAX_LATENESS = 2 };

typedef struct weft_order_wishes {
  /* By node id, 0 to WEFT_MAX_LATENESS: a node is taken only when no node with a smaller number is ready.
   * NULL: all have 0. */
  const unsigned char *lateness;
  /* Exits come behind all other nodes of their loop and of the loops in it, so that a loop is one whole in
   * the order. Where loops wait for each other so that they cannot, they need not. NULL: they need not. */
  const weft_frames_t *frames;
} weft_order_wishes_t;

/* As weft_graph_topological_order, with what is wished. */
WEFT_MUST_CHECK weft_status_t *weft_graph_order_as_wished(const weft_graph_t *g, const weft_order_wishes_t *w,
                                                          weft_node_t ***out, bool *out_loops_are_whole);

#endif /* WEFT_GRAPH_TOPOLOGY_H_ */
