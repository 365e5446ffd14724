/* strategies/gradient_shapes.c - infers shapes of gradients from the variables that they update.
 *
 * Shape inference goes from producers to consumers; this goes the other way, from
 * updates to what they apply. Only ops that give no other shape than that of the
 * input pass it on: one input, all inputs of equal shape, or all others scalars.
 */
#include "strategies/gradient_shapes.h"

#include "base/alloc.h"
#include "strategies/emit.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("shapes of gradients"); }

/* The gradient that `n` applies to all of its variable, as an input; -1: none. */
static int dense_gradient_of(const weft_node_t *n) {
  int input = n->op->update_grad_input;
  if ((n->flags & WEFT_OP_UPDATE) == 0 || input < 0 || n->num_inputs != n->op->num_inputs) return -1;
  bool is_gradient =
      weft_str_is(n->op->inputs[input].name, "grad") || weft_str_is(n->op->inputs[input].name, "delta");
  bool is_sparse = input + 1 < n->op->num_inputs && weft_str_is(n->op->inputs[input + 1].name, "indices");
  return is_gradient && !is_sparse ? input : -1;
}

/* The shape of the variable behind a handle or a reference. */
static weft_shape_t shape_of_variable(weft_output_t handle) {
  const weft_node_t *n = handle.node;
  while ((n->flags & WEFT_OP_VARIABLE) == 0) {
    bool passes_on = n->num_inputs == 1 && (n->op->flags & (WEFT_OP_ELEMENTWISE | WEFT_OP_ENTER)) != 0;
    if (!passes_on) return WEFT_UNKNOWN_SHAPE;
    n = n->inputs[0].node;
  }
  const weft_attr_t *shape = weft_node_attr(n, "shape");
  return shape == NULL || shape->shape == NULL ? WEFT_UNKNOWN_SHAPE : *shape->shape;
}

static bool is_scalar(weft_output_t o) { return weft_static_shape_of(o).rank == 0; }

static weft_status_t *set_shape(weft_output_t of, const weft_shape_t *shape, weft_graph_t *g) {
  weft_shape_t known = weft_static_shape_of(of);
  weft_node_t *n = of.node;
  bool fits = weft_shape_compatible(&known, shape); /* else the step will fail */
  if (weft_shape_is_known(&known) || n->output_shapes == NULL || !fits) return NULL;
  weft_shape_t *shapes = weft_arena_calloc(g->arena, (size_t)n->num_outputs, sizeof *shapes);
  if (shapes == NULL) return no_memory();
  for (int k = 0; k < n->num_outputs; k++) shapes[k] = k == of.index ? *shape : n->output_shapes[k];
  n->output_shapes = shapes;
  return NULL;
}

/* What the inputs of n are, if its output k has this shape. */
static weft_status_t *pass_on(weft_graph_t *g, const weft_node_t *n, int k) {
  weft_shape_t shape = n->output_shapes[k];
  if ((n->flags & WEFT_OP_BUNDLE) != 0) return set_shape(n->inputs[k], &shape, g);
  if (n->op->collective == WEFT_OP_ALL_REDUCE) return set_shape(n->inputs[0], &shape, g);
  bool are_equal =
      (n->flags & WEFT_OP_AGGREGATE) != 0 && n->op->inputs[0].kind == WEFT_ARG_REPEATED; /* no broadcasting */
  if (!are_equal && (n->op->flags & WEFT_OP_ELEMENTWISE) == 0) return NULL;
  int others = 0; /* that are no scalars */
  for (int i = 0; i < n->num_inputs; i++) others += !is_scalar(n->inputs[i]);
  for (int i = 0; i < n->num_inputs; i++) {
    if (are_equal || (others == 1 && !is_scalar(n->inputs[i])))
      WEFT_RETURN_IF_ERROR(set_shape(n->inputs[i], &shape, g));
  }
  return NULL;
}

weft_status_t *weft_infer_gradient_shapes(weft_graph_t *g) {
  weft_node_t **order = NULL;
  weft_status_t *s = weft_graph_topological_order(g, &order);
  for (int at = g->num_live - 1; at >= 0 && s == NULL; at--) {
    weft_node_t *n = order[at];
    int grad = dense_gradient_of(n);
    weft_shape_t shape = grad >= 0 ? shape_of_variable(n->inputs[0]) : WEFT_UNKNOWN_SHAPE;
    if (weft_shape_is_known(&shape)) s = set_shape(n->inputs[grad], &shape, g);
    for (int k = 0; k < n->num_outputs && s == NULL && n->output_shapes != NULL; k++) {
      if (weft_shape_is_known(&n->output_shapes[k])) s = pass_on(g, n, k);
    }
  }
  weft_free(order);
  return s;
}
