/* client/gradients.c - TF_AddGradients: our gradient builder on a caller's graph. */
#include "base/alloc.h"
#include "client/graph.h"
#include "client/status.h"

/* Shapes of the nodes that were added, and their edges. */
static weft_status_t *announce(TF_Graph *g, int first_id, bool has_calls) WEFT_REQUIRES(g->mu) {
  weft_client_reset_shapes_locked(g); /* the builder has inferred all shapes anew */
  WEFT_RETURN_IF_ERROR(weft_client_graph_infer(g->graph, g->inference, first_id));
  WEFT_RETURN_IF_ERROR(weft_client_graph_sync_locked(g));
  return has_calls ? weft_client_graph_relink_locked(g) : NULL;
}

/* Functional ops may become others. */
static bool holds_calls(const weft_graph_t *g) {
  bool holds = false;
  for (int id = 0; id < g->num_nodes && !holds; id++)
    holds = g->nodes[id] != NULL && (g->nodes[id]->flags & WEFT_OP_FUNCTIONAL) != 0;
  return holds;
}

/* Every x must be on some path to a y. */
static weft_status_t *check_reachable(const weft_graph_t *g, const weft_output_t *y, int ny,
                                      const weft_output_t *x, int nx) {
  size_t n = (size_t)g->num_nodes;
  uint8_t *is_reached = weft_calloc(n + 1, 1);
  const weft_node_t **stack = weft_calloc(n + 1, sizeof(*stack));
  weft_status_t *s = is_reached == NULL || stack == NULL ? WEFT_NO_MEMORY("gradients") : NULL;
  size_t depth = 0;
  for (int i = 0; i < ny && s == NULL; i++) {
    if (y[i].node == NULL || is_reached[y[i].node->id]) continue; /* what is no tensor is refused later */
    is_reached[y[i].node->id] = 1;
    stack[depth++] = y[i].node;
  }
  while (s == NULL && depth > 0) {
    const weft_node_t *node = stack[--depth];
    for (int i = 0; i < node->num_inputs; i++) {
      const weft_node_t *from = node->inputs[i].node;
      if (is_reached[from->id]) continue;
      is_reached[from->id] = 1;
      stack[depth++] = from;
    }
  }
  for (int i = 0; i < nx && s == NULL; i++) {
    if (x[i].node == NULL || is_reached[x[i].node->id]) continue;
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "Cannot compute the partial derivative for node '%s' as it's unreachable from the output "
                   "node(s).",
                   x[i].node->name.data);
  }
  weft_free(is_reached);
  weft_free((void *)stack);
  return s;
}

static weft_status_t *add(TF_Graph *g, weft_str_t prefix, weft_output_t *all, int ny, int nx, bool has_dx,
                          TF_Output *dy) WEFT_REQUIRES(g->mu) {
  weft_output_t *y = all, *x = all + ny, *dx = x + nx, *out = dx + ny;
  int first_id = g->graph->num_nodes;
  bool has_calls = holds_calls(g->graph);
  WEFT_RETURN_IF_ERROR(check_reachable(g->graph, y, ny, x, nx));
  weft_status_t *s = weft_graph_add_gradients(g->graph, prefix, y, ny, x, nx, has_dx ? dx : NULL, out);
  weft_status_t *announced = announce(g, first_id, has_calls); /* also what was added before a failure */
  s = weft_status_join(s, announced);
  for (int i = 0; i < nx && s == NULL; i++) {
    dy[i] = out[i].node == NULL ? (TF_Output){NULL, -1}
                                : (TF_Output){weft_client_operation(g, out[i].node), out[i].index};
  }
  return s;
}

void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y, int ny, TF_Output *x, int nx,
                               TF_Output *dx, TF_Status *status, TF_Output *dy) {
  weft_status_t *s = ny < 0 || nx < 0 ? WEFT_ERROR(INVALID_ARGUMENT, "a negative number of tensors") : NULL;
  weft_output_t *all = s != NULL ? NULL : weft_calloc((size_t)ny * 2 + (size_t)nx * 2 + 1, sizeof *all);
  if (s == NULL && all == NULL) s = WEFT_NO_MEMORY("gradients");
  if (s == NULL) {
    for (int i = 0; i < ny; i++) all[i] = weft_client_output(y[i]);
    for (int i = 0; i < nx; i++) all[ny + i] = weft_client_output(x[i]);
    for (int i = 0; dx != NULL && i < ny; i++) all[ny + nx + i] = weft_client_output(dx[i]);
    weft_str_t name = prefix == NULL ? (weft_str_t){NULL, 0} : weft_str(prefix);
    weft_mutex_lock(&g->mu);
    s = add(g, name, all, ny, nx, dx != NULL, dy);
    weft_mutex_unlock(&g->mu);
  }
  weft_free(all);
  weft_client_end(status, s);
}

void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx, TF_Output *dx,
                     TF_Status *status, TF_Output *dy) {
  TF_AddGradientsWithPrefix(g, NULL, y, ny, x, nx, dx, status, dy);
}
