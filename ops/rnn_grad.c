/* ops/rnn_grad.c - gradients of layers of recurrent networks. The gates' own gradients are not used, as in
 * TensorFlow. */
#include "ops/grad.h"

enum { INPUTS = 9, OUTPUTS = 7, CS = 1, H = 6 };

static weft_status_t *layer(weft_grad_ctx_t *c, const char *op) {
  weft_grad_t g = {c, NULL};
  value_t in[INPUTS + OUTPUTS + 2];
  for (int i = 0; i < INPUTS; i++) in[i] = c->inputs[i];
  for (int i = 0; i < OUTPUTS; i++) in[INPUTS + i] = c->outputs[i];
  in[INPUTS + OUTPUTS] = weft_grad_dy_or_zeros(&g, CS);
  in[INPUTS + OUTPUTS + 1] = weft_grad_dy_or_zeros(&g, H);
  weft_named_attr_t use_peephole = weft_grad_same(&g, "use_peephole");
  value_t d = weft_grad_node(&g, op, in, INPUTS + OUTPUTS + 2, &use_peephole, 1);
  for (int i = 1; i < INPUTS; i++) c->dx[i] = weft_grad_output(d, i - 1);
  return g.s;
}

weft_status_t *weft_grad_block_lstm(weft_grad_ctx_t *c) { return layer(c, "BlockLSTMGrad"); }
/* The same op as for version 1, although the order of the gates differs: so does TensorFlow. */
weft_status_t *weft_grad_block_lstm_v2(weft_grad_ctx_t *c) { return layer(c, "BlockLSTMGrad"); }
