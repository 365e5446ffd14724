/* graph/topology.h - topological orders that leave some nodes for last. */
#ifndef WEFT_GRAPH_TOPOLOGY_H_
#define WEFT_GRAPH_TOPOLOGY_H_

#include "graph/graph.h"

/* As weft_graph_topological_order, but a node with is_late[id] set is taken only when no other node is ready.
 * `is_late`: num_nodes of the graph, or NULL. */
WEFT_MUST_CHECK weft_status_t *weft_graph_order_with_late(const weft_graph_t *g, const bool *is_late,
                                                          weft_node_t ***out);

#endif /* WEFT_GRAPH_TOPOLOGY_H_ */
