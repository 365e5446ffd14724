/* graph/prune.c - drops what the roots do not need. */
#include "base/alloc.h"
#include "graph/passes.h"

enum { UNSEEN = 0, SEEN = 1 };

/* Marks `n` and puts it on the stack, once; the stack has room for every node. */
static void visit(weft_node_t *n, weft_node_t **stack, int *depth) {
  if (n->mark == SEEN) return;
  n->mark = SEEN;
  stack[(*depth)++] = n;
}

weft_status_t *weft_pass_prune(weft_graph_t *g, weft_node_t *const *roots, int num_roots) {
  weft_node_t **stack = weft_calloc((size_t)g->num_nodes + 1, sizeof(*stack));
  if (stack == NULL) return WEFT_NO_MEMORY("pruning %d nodes", g->num_nodes);
  int depth = 0;
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL) g->nodes[id]->mark = UNSEEN;
  }
  for (int i = 0; i < num_roots; i++) visit(roots[i], stack, &depth);
  while (depth > 0) {
    weft_node_t *n = stack[--depth];
    for (int i = 0; i < n->num_inputs; i++) visit(n->inputs[i].node, stack, &depth);
    for (int i = 0; i < n->num_controls; i++) visit(n->controls[i], stack, &depth);
  }
  for (int id = 0; id < g->num_nodes; id++) {
    if (g->nodes[id] != NULL && g->nodes[id]->mark == UNSEEN) weft_graph_remove(g, g->nodes[id]);
  }
  weft_free(stack);
  return NULL;
}
