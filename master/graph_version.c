/* master/graph_version.c - the life of a version of a graph. */
#include "master/graph_version.h"

#include "base/alloc.h"

weft_status_t *weft_graph_version_create(weft_graph_t *g, weft_graph_version_t **out) {
  weft_graph_version_t *v = weft_calloc(1, sizeof *v);
  if (v == NULL) return WEFT_NO_MEMORY("a version of a session's graph");
  atomic_init(&v->refs, 1);
  v->graph = g;
  *out = v;
  return NULL;
}

weft_graph_version_t *weft_graph_version_retain(weft_graph_version_t *v) {
  atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  return v;
}

void weft_graph_version_release(weft_graph_version_t *v) {
  if (v == NULL || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  weft_graph_destroy(v->graph);
  weft_free(v);
}
