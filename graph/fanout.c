/* graph/fanout.c - consumers of every node, by counting and filling compressed rows. */
#include "base/alloc.h"
#include "graph/graph.h"

void weft_fanout_deinit(weft_fanout_t *f) {
  weft_free(f->begin);
  weft_free(f->edges);
  *f = (weft_fanout_t){NULL, NULL};
}

weft_status_t *weft_fanout_build(const weft_graph_t *g, weft_fanout_t *out) {
  /* begin[id + 1] first counts the edges out of id, then is where its row ends; filling moves it along. */
  int *begin = weft_calloc((size_t)g->num_nodes + 2, sizeof *begin);
  if (begin == NULL) return WEFT_NO_MEMORY("listing the consumers of %d nodes", g->num_nodes);
  int64_t total = 0;
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    if (n == NULL) continue;
    total += (int64_t)n->num_inputs + n->num_controls;
    for (int i = 0; i < n->num_inputs; i++) begin[n->inputs[i].node->id + 2]++;
    for (int i = 0; i < n->num_controls; i++) begin[n->controls[i]->id + 2]++;
  }
  weft_fanout_edge_t *edges = total > INT32_MAX ? NULL : weft_calloc((size_t)total + 1, sizeof *edges);
  if (edges == NULL) {
    weft_free(begin);
    return WEFT_NO_MEMORY("listing %lld edges", (long long)total);
  }
  for (int id = 0; id < g->num_nodes; id++) begin[id + 2] += begin[id + 1];
  for (int id = 0; id < g->num_nodes; id++) {
    weft_node_t *n = g->nodes[id];
    if (n == NULL) continue;
    for (int i = 0; i < n->num_inputs; i++) {
      edges[begin[n->inputs[i].node->id + 1]++] = (weft_fanout_edge_t){n, n->inputs[i].index, i};
    }
    for (int i = 0; i < n->num_controls; i++) {
      edges[begin[n->controls[i]->id + 1]++] = (weft_fanout_edge_t){n, -1, -1};
    }
  }
  *out = (weft_fanout_t){begin, edges};
  return NULL;
}
