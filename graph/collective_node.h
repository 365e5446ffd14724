/* graph/collective_node.h - what a node says of the collective that it is a member of. */
#ifndef WEFT_GRAPH_COLLECTIVE_NODE_H_
#define WEFT_GRAPH_COLLECTIVE_NODE_H_

#include "graph/graph.h"

typedef struct weft_collective_keys {
  int64_t group_key, instance_key, group_size;
} weft_collective_keys_t;

/* Has a group, by its key or by a communicator. */
bool weft_node_is_collective(const weft_node_t *n);
/* From attributes (the ops' first form) or constant inputs (their second). False: the node is no member of a
 * collective, or computes its keys. */
bool weft_node_collective_keys(const weft_node_t *n, weft_collective_keys_t *out);

#endif /* WEFT_GRAPH_COLLECTIVE_NODE_H_ */
