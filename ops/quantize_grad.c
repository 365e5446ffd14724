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

/* A bound of each channel, or of all, as a tensor that broadcasts with x. */
static value_t along_axis(weft_grad_t *g, value_t bound, value_t x, int64_t axis) {
  if (axis < 0) return bound;
  value_t one = weft_grad_int_scalar(g, WEFT_I32, 1);
  value_t behind =
      weft_grad_op2(g, "Sub", weft_grad_op1(g, "Rank", x), weft_grad_int_scalar(g, WEFT_I32, axis + 1));
  value_t sizes[] = {weft_grad_op2(g, "Fill", weft_grad_int32s(g, (int32_t[]){(int32_t)axis}, 1), one),
                     weft_grad_shape_node(g, bound, WEFT_I32),
                     weft_grad_op2(g, "Fill", weft_grad_expand(g, behind, 0), one)};
  return weft_grad_op2(g, "Reshape", bound, weft_grad_concat(g, sizes, 3, 0));
}

/* It is linear in the gradients: each goes to the input, or to the bound on whose far side the input lies. */
weft_status_t *weft_grad_quantize_and_dequantize_v4_grad(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  value_t x = c->inputs[1], dx = weft_grad_dy_or_zeros(g, 0);
  int64_t axis = weft_grad_attr_int(g, "axis");
  value_t within[] = {dx, x, c->inputs[2], c->inputs[3]};
  weft_named_attr_t same = weft_grad_same(g, "axis");
  dx = weft_grad_node(g, "QuantizeAndDequantizeV4Grad", within, 4, &same, 1);
  for (int i = 1; i <= 2; i++) {
    if (weft_grad_is_zero(c->dy[i])) continue;
    value_t is_past =
        weft_grad_op2(g, i == 1 ? "Less" : "Greater", x, along_axis(g, c->inputs[1 + i], x, axis));
    dx = weft_grad_op3(g, "SelectV2", is_past, along_axis(g, c->dy[i], x, axis), dx);
  }
  c->dx[0] = dx;
  return g->s;
}
