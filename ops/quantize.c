/* ops/quantize.c - shapes of quantised arithmetic. */
#include <inttypes.h>

#include "ops/infer.h"

/* `s` is what the first result said; inputs first to last are scalars, the ends of ranges, and so are the
 * results behind the first. */
static weft_status_t *with_ranges(weft_shape_ctx_t *c, weft_status_t *s, int first, int last) {
  if (s == NULL) s = weft_infer_scalars(c, first, last);
  for (int i = 1; i < c->num_outputs; i++) c->outputs[i] = WEFT_SCALAR;
  return s;
}

/* All inputs but the first are ends of ranges. */
weft_status_t *weft_infer_quantized_unchanged(weft_shape_ctx_t *c) {
  return with_ranges(c, weft_infer_unchanged(c), 1, c->num_inputs - 1);
}

weft_status_t *weft_infer_requantization_range(weft_shape_ctx_t *c) {
  c->outputs[0] = WEFT_SCALAR;
  return with_ranges(c, NULL, 1, 2);
}

static weft_status_t *channel_ranges(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  return weft_infer_rank(&c->inputs[2], 1, NULL);
}

weft_status_t *weft_infer_requantization_range_per_channel(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(channel_ranges(c));
  return weft_infer_scalar(c);
}

weft_status_t *weft_infer_requantize_per_channel(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(channel_ranges(c));
  return with_ranges(c, weft_infer_unchanged(c), 3, 4);
}

/* ---- imitations ---- */

weft_status_t *weft_infer_fake_quant_grad(weft_shape_ctx_t *c) {
  weft_shape_t range;
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[0], &c->inputs[1], &c->outputs[0]));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 0, &range));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&range, &c->inputs[3], &range));
  c->outputs[1] = c->outputs[2] = range;
  return NULL;
}

weft_status_t *weft_infer_fake_quant_channels(weft_shape_ctx_t *c) {
  weft_shape_t x, min, max;
  int64_t channels = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &min));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &max));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(weft_infer_dim(&x, -1), min.dims[0], &channels));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(weft_infer_dim(&x, -1), max.dims[0], &channels));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(min.dims[0], max.dims[0], &channels));
  c->outputs[0] = x;
  return NULL;
}

weft_status_t *weft_infer_fake_quant_channels_grad(weft_shape_ctx_t *c) {
  weft_shape_t x, range;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, 4));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&x, &c->inputs[1], &x));
  const weft_shape_t last = weft_shape_vector(weft_infer_dim(&x, -1));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &range));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&range, &last, &range));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[3], &range, &range));
  c->outputs[0] = x;
  c->outputs[1] = c->outputs[2] = range;
  return NULL;
}

/* ---- a range for all, or for each slice along attribute axis ---- */

static weft_status_t *range_rank(weft_shape_ctx_t *c, int i, weft_shape_t *out) {
  return weft_shape_with_rank(c, i, weft_infer_int(c, "axis") == -1 ? 0 : 1, out);
}

/* The slices of input x are as many as `range` has elements. */
static weft_status_t *fit_slices(weft_shape_ctx_t *c, int x, const weft_shape_t *range) {
  const int64_t axis = weft_infer_int(c, "axis");
  int64_t depth = 0;
  weft_shape_t in;
  if (axis < -1) return WEFT_ERROR(INVALID_ARGUMENT, "axis should be at least -1, got %" PRId64, axis);
  if (axis == -1) return NULL;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, x, (int)weft_infer_rank_for_axis(axis), &in));
  return weft_shape_merge_dim(range->dims[0], weft_infer_dim(&in, (int)axis), &depth);
}

weft_status_t *weft_infer_dequantize(weft_shape_ctx_t *c) {
  weft_shape_t range;
  c->outputs[0] = c->inputs[0];
  WEFT_RETURN_IF_ERROR(range_rank(c, 1, &range));
  WEFT_RETURN_IF_ERROR(range_rank(c, 2, &range));
  for (int i = 1; i < c->num_outputs; i++) c->outputs[i] = range;
  return fit_slices(c, 0, &range);
}

weft_status_t *weft_infer_quantize_and_dequantize(weft_shape_ctx_t *c) {
  weft_shape_t range;
  WEFT_RETURN_IF_ERROR(range_rank(c, 1, &range));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[2], &range, &range));
  WEFT_RETURN_IF_ERROR(fit_slices(c, 0, &range));
  if (c->num_inputs > 3) WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, 3));
  c->outputs[0] = c->inputs[0];
  return NULL;
}

weft_status_t *weft_infer_quantize_and_dequantize_grad(weft_shape_ctx_t *c) {
  weft_shape_t range;
  WEFT_RETURN_IF_ERROR(range_rank(c, 2, &range));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[3], &range, &range));
  WEFT_RETURN_IF_ERROR(fit_slices(c, 0, &range));
  c->outputs[1] = c->outputs[2] = range;
  return weft_shape_merge(&c->inputs[0], &c->inputs[1], &c->outputs[0]);
}

/* ---- values that move ---- */

weft_status_t *weft_infer_quantized_concat(weft_shape_ctx_t *c) {
  const int n = (c->num_inputs - 1) / 3;
  return with_ranges(c, weft_infer_join(c, 1, n, 0), n + 1, c->num_inputs - 1);
}

weft_status_t *weft_infer_quantized_concat_v2(weft_shape_ctx_t *c) {
  const int n = (c->num_inputs - 1) / 3;
  return with_ranges(c, weft_infer_join(c, 0, n - 1, n), n + 1, c->num_inputs - 1);
}

weft_status_t *weft_infer_quantized_reshape(weft_shape_ctx_t *c) {
  return with_ranges(c, weft_infer_reshape(c), 2, 3);
}

/* ---- layers ---- */

static weft_status_t *broadcast(weft_shape_ctx_t *c) {
  return weft_shape_broadcast(&c->inputs[0], &c->inputs[1], &c->outputs[0]);
}

weft_status_t *weft_infer_quantized_add(weft_shape_ctx_t *c) { return with_ranges(c, broadcast(c), 2, 5); }

/* Ends of ranges may be anything. */
weft_status_t *weft_infer_quantized_mul(weft_shape_ctx_t *c) { return with_ranges(c, broadcast(c), 1, 0); }

weft_status_t *weft_infer_quantized_bias_add(weft_shape_ctx_t *c) {
  return with_ranges(c, weft_infer_bias_add(c), 2, 5);
}

weft_status_t *weft_infer_quantized_avg_pool(weft_shape_ctx_t *c) {
  return with_ranges(c, weft_infer_avg_pool(c), 1, 2);
}

weft_status_t *weft_infer_quantized_max_pool(weft_shape_ctx_t *c) {
  return with_ranges(c, weft_infer_pool(c), 1, 2);
}

weft_status_t *weft_infer_quantized_matmul(weft_shape_ctx_t *c) {
  return with_ranges(c, weft_infer_matmul(c), 2, 5);
}

weft_status_t *weft_infer_quantized_conv2d(weft_shape_ctx_t *c) {
  return with_ranges(c, weft_infer_conv2d(c), 2, 5);
}

weft_status_t *weft_infer_quantized_batch_norm(weft_shape_ctx_t *c) {
  weft_shape_t x, part;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &x));
  for (int i = 3; i < 15; i += 3) { /* mean, variance, beta, gamma */
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &part));
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(x.dims[3], part.dims[0], &x.dims[3]));
  }
  c->outputs[0] = x;
  return with_ranges(c, NULL, 1, 0);
}

weft_status_t *weft_infer_quantized_instance_norm(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 4, NULL));
  return weft_infer_quantized_unchanged(c);
}
