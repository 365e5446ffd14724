/* ops/learn_grad.c - gradients of solvers. */
#include "ops/grad.h"

/* Each element gets the mean of the gradients of its segment; segments are numbered anew in each row. */
weft_status_t *weft_grad_isotonic(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  if (!weft_dtype_is_floating(weft_grad_dtype(g, c->inputs[0]))) return NULL;
  value_t zero = weft_grad_int_scalar(g, WEFT_I32, 0), one = weft_grad_int_scalar(g, WEFT_I32, 1);
  value_t dy = weft_grad_dy_or_zeros(g, 0), shape = weft_grad_shape_node(g, dy, WEFT_I32);
  value_t size = weft_grad_op1(g, "Size", dy), flat = weft_grad_int32s(g, (int32_t[]){-1}, 1);
  value_t width = weft_grad_gather0(g, shape, weft_grad_op2(g, "Sub", weft_grad_op1(g, "Rank", dy), one));
  value_t row = weft_grad_op2(g, "FloorDiv", weft_grad_op3(g, "Range", zero, size, one), width);
  value_t ids = weft_grad_op2(g, "AddV2", weft_grad_op2(g, "Mul", row, width),
                              weft_grad_op2(g, "Reshape", c->outputs[1], flat));
  value_t values = weft_grad_op2(g, "Reshape", dy, flat);
  value_t sums = weft_grad_op3(g, "UnsortedSegmentSum", values, ids, size);
  value_t counts = weft_grad_op3(g, "UnsortedSegmentSum", weft_grad_op1(g, "OnesLike", values), ids, size);
  value_t means = weft_grad_gather0(g, weft_grad_op2(g, "RealDiv", sums, counts), ids);
  c->dx[0] = weft_grad_op2(g, "Reshape", means, shape);
  return g->s;
}
