/* graph/node_index.h - from the name of a node to the node, in 4 bytes for each slot.
 *
 * The names are those of the nodes themselves: the index holds ids, and every function is given the graph's
 * nodes by id. Open addressing with linear probing, at most three quarters full. Confined; concurrent readers
 * without a writer are fine.
 */
#ifndef WEFT_GRAPH_NODE_INDEX_H_
#define WEFT_GRAPH_NODE_INDEX_H_

#include "base/str.h"

struct weft_node;

typedef struct weft_node_index {
  uint32_t *slots;         /* owned */
  size_t capacity;         /* a power of two, or 0 */
  size_t num_used, num_in; /* slots that are not free; of these, with a node */
} weft_node_index_t;

#define WEFT_NODE_INDEX_MAX_IDS (1 << 27)

void weft_node_index_deinit(weft_node_index_t *x);
/* Makes room for `count` nodes in all. nodes[0..n) are the graph's; those that are NULL are in no index.
 * Errors: RESOURCE_EXHAUSTED, the index is then unchanged. */
WEFT_MUST_CHECK weft_status_t *weft_node_index_reserve(weft_node_index_t *x, struct weft_node *const *nodes,
                                                       int n, size_t count);
/* NULL if absent. */
struct weft_node *weft_node_index_find(const weft_node_index_t *x, struct weft_node *const *nodes,
                                       weft_str_t name);
/* Enters `node`, which is nodes[node->id] and whose name is not in the index. nodes[0..n) are the others.
 * Errors: RESOURCE_EXHAUSTED, the index is then unchanged. */
WEFT_MUST_CHECK weft_status_t *weft_node_index_add(weft_node_index_t *x, struct weft_node *const *nodes,
                                                   int n, const struct weft_node *node);
/* Takes out nodes[id], which is in the index. */
void weft_node_index_remove(weft_node_index_t *x, struct weft_node *const *nodes, int id);

#endif /* WEFT_GRAPH_NODE_INDEX_H_ */
