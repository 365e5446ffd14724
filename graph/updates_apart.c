/* graph/updates_apart.c - marks updates of variables that must stay nodes of their own. */
#include "graph/passes.h"

weft_status_t *weft_pass_forbid_updates(weft_graph_t *g) {
  const weft_attr_t is_set = {.kind = WEFT_ATTR_BOOL, .b = true};
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    if (n != NULL && n->function == NULL && (n->flags & WEFT_OP_UPDATE) != 0)
      WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, WEFT_APART_ATTR, &is_set));
  }
  return NULL;
}
