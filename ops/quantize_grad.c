/* ops/quantize_grad.c - gradients of imitated quantisation: they pass where a value lay within the range. */
#include "ops/grad.h"

/* dx[i] = output i of `op`, of dy, the inputs, and the attributes of these names. */
static weft_status_t *by_op(weft_grad_ctx_t *c, const char *op, const char *const *names, int num_names,
                            int outputs) {
  enum { MANY = 4 };
  weft_grad_t g = {c, NULL};
  value_t in[MANY] = {c->dy[0]};
  weft_named_attr_t attrs[MANY];
  for (int i = 0; i < c->num_inputs && i + 1 < MANY; i++) in[i + 1] = c->inputs[i];
  for (int i = 0; i < num_names; i++) attrs[i] = weft_grad_same(&g, names[i]);
  value_t node = weft_grad_node(&g, op, in, c->num_inputs + 1, attrs, num_names);
  for (int i = 0; i < outputs; i++) c->dx[i] = weft_grad_output(node, i);
  return g.s;
}

weft_status_t *weft_grad_fake_quant_args(weft_grad_ctx_t *c) {
  static const char *const names[] = {"min", "max", "num_bits", "narrow_range"};
  return by_op(c, "FakeQuantWithMinMaxArgsGradient", names, 4, 1);
}

static const char *const bits[] = {"num_bits", "narrow_range"};

weft_status_t *weft_grad_fake_quant_vars(weft_grad_ctx_t *c) {
  return by_op(c, "FakeQuantWithMinMaxVarsGradient", bits, 2, 3);
}

weft_status_t *weft_grad_fake_quant_channels(weft_grad_ctx_t *c) {
  return by_op(c, "FakeQuantWithMinMaxVarsPerChannelGradient", bits, 2, 3);
}

weft_status_t *weft_grad_quantize_and_dequantize(weft_grad_ctx_t *c) {
  c->dx[0] = c->dy[0];
  return NULL;
}

weft_status_t *weft_grad_quantize_and_dequantize_v4(weft_grad_ctx_t *c) {
  static const char *const axis[] = {"axis"};
  return by_op(c, "QuantizeAndDequantizeV4Grad", axis, 1, 3);
}
