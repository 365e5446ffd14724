/* strategies/origin.c - marks the variables of a graph. */
#include "strategies/origin.h"

weft_status_t *weft_origin_mark(weft_graph_t *g) {
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    if (n == NULL || (n->flags & WEFT_OP_VARIABLE) == 0) continue;
    const weft_attr_t name = {.kind = WEFT_ATTR_STRING, .s = n->name};
    WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, WEFT_ORIGIN_VARIABLE, &name));
  }
  return NULL;
}
