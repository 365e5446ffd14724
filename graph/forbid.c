/* graph/forbid.c - marks on nodes that plans are to run as they are. */
#include "graph/passes.h"

static bool calls_functions(const weft_node_t *n) {
  for (int i = 0; i < n->num_attrs; i++) {
    if (n->attrs[i].value.kind == WEFT_ATTR_FUNC) return true;
  }
  return false;
}

weft_status_t *weft_pass_forbid(weft_graph_t *g, weft_forbidden_t f) {
  static const weft_attr_t is_set = {.kind = WEFT_ATTR_BOOL, .b = true};
  for (int i = 0; i < g->num_nodes && (f.chains || f.joint_updates); i++) {
    weft_node_t *n = g->nodes[i];
    if (n == NULL || n->function != NULL) continue;
    const bool calls = calls_functions(n);
    if (f.chains && (calls || weft_chain_may_link(n->op)))
      WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, WEFT_NO_CHAIN_ATTR, &is_set));
    if (f.joint_updates && (calls || (n->flags & WEFT_OP_UPDATE) != 0))
      WEFT_RETURN_IF_ERROR(weft_graph_set_attr(g, n, WEFT_APART_ATTR, &is_set));
  }
  return NULL;
}

weft_forbidden_t weft_pass_forbidden_in_calls(const weft_graph_t *g) {
  weft_forbidden_t f = {false, false};
  for (int i = 0; i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n == NULL || n->function != NULL || !calls_functions(n)) continue;
    f.chains = f.chains || weft_node_attr(n, WEFT_NO_CHAIN_ATTR) != NULL;
    f.joint_updates = f.joint_updates || weft_node_attr(n, WEFT_APART_ATTR) != NULL;
  }
  return f;
}
