/* graph/copy.c - a copy of a graph. */
#include "base/alloc.h"
#include "graph/function.h"
#include "graph/node_build.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("copying a graph"); }

/* Everything but the edges, for which there is room. */
static weft_status_t *copy_node(weft_graph_t *to, const weft_graph_t *g, const weft_node_t *from,
                                weft_node_t **out) {
  weft_node_t *n = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_enter(to, from->name, &n));
  WEFT_RETURN_IF_ERROR(weft_node_describe_like(to, g, from, n));
  WEFT_RETURN_IF_ERROR(weft_node_reserve_controls(to, n, from->num_controls));
  *out = n;
  return NULL;
}

static weft_status_t *copy_versions(const weft_graph_t *from, weft_graph_t *to) {
  to->producer = from->producer;
  to->min_consumer = from->min_consumer;
  if (from->num_bad_consumers == 0) return NULL;
  int *bad = weft_arena_calloc(to->arena, (size_t)from->num_bad_consumers, sizeof *bad);
  if (bad == NULL) return no_memory();
  memcpy(bad, from->bad_consumers, (size_t)from->num_bad_consumers * sizeof *bad);
  to->bad_consumers = bad;
  to->num_bad_consumers = from->num_bad_consumers;
  return NULL;
}

weft_status_t *weft_graph_copy(const weft_graph_t *g, weft_graph_t **out) {
  weft_graph_t *to = NULL;
  weft_node_t **twin = NULL; /* by id of the original */
  weft_status_t *s = weft_graph_create(&to);
  if (s != NULL) goto done;
  weft_function_library_release(to->library);
  to->library = weft_function_library_retain(g->library);
  s = copy_versions(g, to);
  if (s != NULL) goto done;
  twin = weft_calloc((size_t)g->num_nodes + 1, sizeof(*twin));
  if (twin == NULL) s = no_memory();
  if (s == NULL) s = weft_graph_reserve(to, g->num_live);
  for (int id = 0; id < g->num_nodes && s == NULL; id++) {
    if (g->nodes[id] != NULL) s = copy_node(to, g, g->nodes[id], &twin[id]);
  }
  for (int id = 0; id < g->num_nodes && s == NULL; id++) {
    const weft_node_t *from = g->nodes[id];
    if (from == NULL) continue;
    for (int i = 0; i < from->num_inputs; i++) {
      twin[id]->inputs[i] = (weft_output_t){twin[from->inputs[i].node->id], from->inputs[i].index};
    }
    for (int i = 0; i < from->num_controls; i++) twin[id]->controls[i] = twin[from->controls[i]->id];
    twin[id]->num_controls = from->num_controls;
  }
  if (s != NULL) goto done;
  *out = to;
  to = NULL;
done:
  weft_free(twin);
  weft_graph_destroy(to);
  return s;
}
