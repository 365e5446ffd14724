/* ops/ctc_grad.c - gradients of connectionist temporal classification. */
#include "ops/grad.h"

/* The op computes it: output 1 is that of each sequence's loss. */
weft_status_t *weft_grad_ctc_loss(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  value_t d = weft_grad_op1(&g, "PreventGradient", c->outputs[1]);
  c->dx[0] = weft_grad_op2(&g, "Mul", weft_grad_expand(&g, weft_grad_dy_or_zeros(&g, 0), -1), d);
  return g.s;
}
