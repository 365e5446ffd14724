/* ops/matrix_diag_grad.c - gradients of MatrixDiag, MatrixDiagPart, MatrixSetDiag and their versions. */
#include "ops/grad.h"

/* How diagonals lie: as the op's attribute says. V2 has none and aligns all to the left, but TensorFlow's
 * gradients of it take the default of V3. */
static weft_named_attr_t align_of(weft_grad_t *g) {
  if (weft_op_attr(g->c->op, WEFT_STR("align")) != NULL) return weft_grad_same(g, "align");
  return weft_text_attr("align", WEFT_STR("RIGHT_LEFT"));
}

static value_t k_of(weft_grad_t *g, int input) { /* the main diagonal, where the op has no such input */
  return input < g->c->num_inputs ? g->c->inputs[input] : weft_grad_int_scalar(g, WEFT_I32, 0);
}

static value_t diag_part(weft_grad_t *g, value_t x, value_t k) {
  weft_named_attr_t align = align_of(g);
  value_t zero = weft_grad_scalar(g, weft_grad_dtype(g, x), 0);
  return weft_grad_node(g, "MatrixDiagPartV3", (value_t[]){x, k, zero}, 3, &align, 1);
}

static value_t set_diag(weft_grad_t *g, value_t x, value_t diagonal, value_t k) {
  weft_named_attr_t align = align_of(g);
  return weft_grad_node(g, "MatrixSetDiagV3", (value_t[]){x, diagonal, k}, 3, &align, 1);
}

weft_status_t *weft_grad_matrix_diag(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = diag_part(&g, c->dy[0], k_of(&g, 1));
  return g.s;
}

weft_status_t *weft_grad_matrix_diag_part(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = set_diag(&g, weft_grad_op1(&g, "ZerosLike", c->inputs[0]), c->dy[0], k_of(&g, 1));
  return g.s;
}

weft_status_t *weft_grad_matrix_set_diag(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  value_t k = k_of(&g, 2);
  c->dx[0] = set_diag(&g, c->dy[0], weft_grad_op1(&g, "ZerosLike", c->inputs[1]), k);
  c->dx[1] = diag_part(&g, c->dy[0], k);
  return g.s;
}
