/* graph/graph_store.h - what nodes are described by: names, attributes, types, shapes.
 *
 * A graph writes into its own store. What was written is never changed, so that copies of a node in other
 * graphs, and plans that are compiled from these, point to it and keep the store instead of copying it. A
 * store keeps the stores that it was given: a graph that is extended keeps what its former version had.
 *
 * Counts are thread-safe. `arena`, and weft_graph_store_keep(), are for the one graph that writes; what it
 * has written may be read on any thread.
 */
#ifndef WEFT_GRAPH_GRAPH_STORE_H_
#define WEFT_GRAPH_GRAPH_STORE_H_

#include <stdatomic.h>

#include "base/arena.h"

typedef struct weft_graph_store weft_graph_store_t; /* Refcounted. */

struct weft_graph_store {
  atomic_int refs;
  weft_arena_t arena;
  weft_graph_store_t **kept; /* owned, num_kept; each retained */
  int num_kept, capacity;
  weft_graph_store_t *next_dead; /* while it is released */
};

WEFT_MUST_CHECK weft_status_t *weft_graph_store_create(weft_graph_store_t **out);
weft_graph_store_t *weft_graph_store_retain(weft_graph_store_t *s);
void weft_graph_store_release(weft_graph_store_t *s); /* NULL is fine */
/* Keeps `other` as long as `s`; nothing if that is so already. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_graph_store_keep(weft_graph_store_t *s, weft_graph_store_t *other);

#endif /* WEFT_GRAPH_GRAPH_STORE_H_ */
