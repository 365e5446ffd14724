/* master/graph_version.h - a graph that does not change any more: runs read it while Extend makes the next
 * one. */
#ifndef WEFT_MASTER_GRAPH_VERSION_H_
#define WEFT_MASTER_GRAPH_VERSION_H_

#include "graph/graph.h"

typedef struct weft_graph_version { /* Thread-safe. Refcounted. */
  atomic_int refs;
  weft_graph_t *graph;
} weft_graph_version_t;

/* Takes `g` over on success. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_graph_version_create(weft_graph_t *g, weft_graph_version_t **out);
weft_graph_version_t *weft_graph_version_retain(weft_graph_version_t *v);
void weft_graph_version_release(weft_graph_version_t *v); /* NULL is fine */

#endif /* WEFT_MASTER_GRAPH_VERSION_H_ */
