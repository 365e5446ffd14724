/* graph/references.h - which values may lie in the buffer of a reference variable.
 *
 * What reads a variable behind a reference reads its buffer (docs/decisions/0003), and so does what reads a
 * value that an op hands on instead of copying it: an Identity, a view, a side of a Switch, an Enter.
 */
#ifndef WEFT_GRAPH_REFERENCES_H_
#define WEFT_GRAPH_REFERENCES_H_

#include "graph/graph.h"

/* The variables that a value may be the buffer of: ids of the nodes that make the references, each once. */
typedef struct weft_buffer_set {
  const int *variables; /* lent until the arena goes */
  int n;
} weft_buffer_set_t;

typedef struct weft_references {
  const weft_buffer_set_t *of_outputs;
  const int *first_output; /* by node id: the place of its output 0 in of_outputs */
} weft_references_t;

/* Follows references and buffers through the graph. `order`: its nodes, producers first. What an iteration of
 * a loop hands to the next one is followed only as far as it comes into the loop so, and a value that may be
 * of more than 32 variables counts as that of none. What is found lies in `arena`. Linear. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pass_find_references(const weft_graph_t *g, weft_node_t *const *order,
                                                         weft_arena_t *arena, weft_references_t *out);

static inline weft_buffer_set_t weft_references_behind(const weft_references_t *r, weft_output_t from) {
  return r->of_outputs[r->first_output[from.node->id] + from.index];
}

/* Does the node write what a reference refers to? That is its input 0. */
bool weft_node_updates_reference(const weft_node_t *n);
/* Does it only forward a reference, or make one, without reading or writing what that refers to? */
bool weft_node_forwards_reference(const weft_node_t *n);

/* Are there updates of reference variables, but for those that have this attribute? Their order with readers
 * has been settled. Linear. */
#define WEFT_ORDERED_ATTR "_weft_ordered"
bool weft_pass_may_order_references(const weft_graph_t *g);

/* Does the node `from` run in another task than `to`? Of copies: and in memory that an update would write? */
typedef bool weft_crosses_tasks_fn(void *arg, const weft_node_t *from, const weft_node_t *to);

/* Adds control edges, so that nodes that read a reference variable run before its updates, where no path
 * leads from an update to the reader, the reader is in the update's frame or in a loop in that, and the
 * update waits for all receives and queues that the reader does. Of a whole graph whose nodes are placed, or
 * with crosses == NULL of a part of one: the edges are right whatever the other parts are. There are none
 * between tasks. Linear. On failure the graph is unusable: destroy it. Errors: RESOURCE_EXHAUSTED; those of
 * weft_graph_topological_order and weft_pass_find_frames. */
WEFT_MUST_CHECK weft_status_t *weft_pass_order_references(weft_graph_t *g, weft_crosses_tasks_fn *crosses,
                                                          void *arg);
/* Gives the attribute to all updates of references. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pass_settle_references(weft_graph_t *g);

/* Copies values of reference variables that go to another task, where the step updates the variable without
 * waiting for what reads the value there, and that does not wait for an update. Of a whole graph, whose nodes
 * are placed; before weft_pass_order_references. Linear in the graph for each 64 updates of variables that
 * are read so. On failure the graph is unusable: destroy it. Errors: as there. */
WEFT_MUST_CHECK weft_status_t *weft_pass_copy_references(weft_graph_t *g, weft_crosses_tasks_fn *crosses,
                                                         void *arg);

#endif /* WEFT_GRAPH_REFERENCES_H_ */
