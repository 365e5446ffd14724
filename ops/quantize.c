/* ops/quantize.c - shapes of quantised arithmetic. */
#include <inttypes.h>

#include "ops/infer.h"
#include "ops/uniform_conv.h"

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

/* ---- uniform quantisation ---- */

/* Scales and zero points in inputs i and i+1: of rank `most` at most. */
static weft_status_t *scales_rank(weft_shape_ctx_t *c, int i, int most) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, i, most));
  return weft_infer_rank_at_most(c, i + 1, most);
}

/* They are scalars, or as many as there are features. */
static weft_status_t *scales_fit(weft_shape_ctx_t *c, int i, int64_t features) {
  const weft_shape_t *scales = &c->inputs[i], *zeros = &c->inputs[i + 1];
  int64_t merged = 0;
  if (scales->rank < 0 || zeros->rank < 0) return NULL;
  if (scales->rank != zeros->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "scales and zero_points must have same rank.");
  }
  if (scales->rank == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(scales->dims[0], features, &merged));
  return weft_shape_merge_dim(zeros->dims[0], features, &merged);
}

/* `lhs`: where its scales are; 0 if it is of floats. Behind them those of rhs, and of the result. */
static weft_status_t *uniform_dot(weft_shape_ctx_t *c, int lhs, int rhs, int out) {
  weft_shape_t a, b;
  int64_t inner = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &a));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 2, &b));
  if (lhs != 0) WEFT_RETURN_IF_ERROR(scales_rank(c, lhs, 0));
  WEFT_RETURN_IF_ERROR(scales_rank(c, rhs, 1));
  if (out != 0) WEFT_RETURN_IF_ERROR(scales_rank(c, out, 1));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(a.dims[1], b.dims[0], &inner));
  WEFT_RETURN_IF_ERROR(scales_fit(c, rhs, b.dims[1]));
  if (out != 0) WEFT_RETURN_IF_ERROR(scales_fit(c, out, b.dims[1]));
  c->outputs[0] = weft_shape_matrix(a.dims[0], b.dims[1]);
  return NULL;
}

weft_status_t *weft_infer_uniform_dot(weft_shape_ctx_t *c) { return uniform_dot(c, 2, 4, 6); }
weft_status_t *weft_infer_uniform_dot_hybrid(weft_shape_ctx_t *c) { return uniform_dot(c, 0, 2, 0); }

static weft_status_t *uniform_conv(weft_shape_ctx_t *c, int lhs, int rhs, int out) {
  weft_shape_t a, b;
  weft_uniform_conv_t plan;
  int64_t merged = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 2, &a));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 1, 2, &b));
  if (lhs != 0) WEFT_RETURN_IF_ERROR(scales_rank(c, lhs, 0));
  WEFT_RETURN_IF_ERROR(scales_rank(c, rhs, 1));
  if (out != 0) WEFT_RETURN_IF_ERROR(scales_rank(c, out, 1));
  c->outputs[0] = weft_infer_unknown_of_rank(a.rank < 0 ? b.rank : a.rank);
  if (a.rank < 0 || b.rank < 0) return NULL;
  if (a.rank != b.rank) return WEFT_ERROR(INVALID_ARGUMENT, "lhs and rhs must have same rank.");
  if (!weft_shape_is_known(&a) || !weft_shape_is_known(&b)) return NULL;
  WEFT_RETURN_IF_ERROR(weft_uniform_conv_plan(c->attrs, c->num_attrs, &a, &b, &plan));
  const int64_t features = b.dims[plan.rhs[0]];
  WEFT_RETURN_IF_ERROR(scales_fit(c, rhs, features));
  if (out != 0) {
    WEFT_RETURN_IF_ERROR(scales_fit(c, out, features));
    if (c->inputs[out].rank > 0) {
      WEFT_RETURN_IF_ERROR(
          weft_shape_merge_dim(weft_infer_dim(&c->inputs[rhs], 0), c->inputs[out].dims[0], &merged));
    }
  }
  c->outputs[0] = plan.shape;
  return NULL;
}

weft_status_t *weft_infer_uniform_conv(weft_shape_ctx_t *c) { return uniform_conv(c, 2, 4, 6); }
weft_status_t *weft_infer_uniform_conv_hybrid(weft_shape_ctx_t *c) { return uniform_conv(c, 0, 2, 0); }

weft_status_t *weft_infer_uniform_add(weft_shape_ctx_t *c) { return broadcast(c); }
