/* kernels/cpu/quantize/uniform.c - UniformQuantize, UniformDequantize, UniformRequantize, and the sum and the
 * clipping of uniformly quantised values. */
#include "kernels/cpu/quantize/uniform.h"

#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/loops/broadcast.h"

weft_status_t *weft_scales_input(const weft_kernel_ctx_t *ctx, int i, const weft_shape_t *data, int64_t axis,
                                 weft_scales_t *out) {
  *out = (weft_scales_t){weft_in(ctx, i), weft_in(ctx, i + 1), axis >= 0};
  const weft_shape_t *s = &out->scales->shape;
  if (!weft_shape_eq(s, &out->zeros->shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "scales and zero_points shape must be same, but given scales shape %s and zero_points shape %s",
        WEFT_SHAPE_TEXT(s), WEFT_SHAPE_TEXT(&out->zeros->shape));
  }
  if (axis < -1 || axis >= data->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "quantization_axis must be -1 or in range [0, input.rank), but given %" PRId64, axis);
  }
  if (axis == -1 ? s->rank == 0 : s->rank == 1 && s->dims[0] == data->dims[axis]) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "scales and zero_points must be scalars if quantization_axis is -1, else vectors of as many "
      "elements as the input has along it, but given quantization_axis %" PRId64 " and scales shape %s",
      axis, WEFT_SHAPE_TEXT(s));
}

weft_status_t *weft_scales_check(const weft_scales_t *s) {
  for (int64_t k = 0; k < s->scales->count; k++) {
    if (!(((const float *)s->scales->data)[k] > 0)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "scales elements must be all positive.");
    }
  }
  return NULL;
}

weft_status_t *weft_fixed_factor_of(double factor, weft_fixed_factor_t *out) {
  if (!isfinite(factor) || factor <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "double_multiplier must be a poisitive finite number. Given %g",
                      factor);
  }
  int64_t fixed = (int64_t)round(frexp(factor, &out->shift) * 0x1p31);
  if (fixed == INT64_C(1) << 31) {
    fixed /= 2;
    out->shift++;
  }
  if (out->shift < -31) {
    out->shift = 0;
    fixed = 0;
  }
  if (out->shift > 30) {
    out->shift = 30;
    fixed = INT32_MAX;
  }
  out->multiplier = (int32_t)fixed;
  return NULL;
}

/* ---- one value after another ---- */

typedef struct uniform_run {
  const weft_tensor_t *x;
  weft_tensor_t *y;
  weft_scales_t from, to;
  const weft_fixed_factor_t *factors; /* of each slice */
  int64_t slices, inner;              /* element i is of slice i / inner % slices */
  int64_t low, high;
} uniform_run_t;

static void set_slices(uniform_run_t *r, const weft_shape_t *s, int64_t axis) {
  r->slices = axis < 0 ? 1 : s->dims[axis];
  r->inner = axis < 0 ? weft_cpu_product(s, 0, s->rank) : weft_cpu_product(s, (int)axis + 1, s->rank);
}

static void quantize_range(void *arg, int64_t begin, int64_t end) {
  const uniform_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    const int64_t k = i / r->inner % r->slices;
    const float v = floorf(((const float *)r->x->data)[i] * (1.0f / weft_scale_at(&r->to, k)) + 0.5f);
    const uint32_t n = (uint32_t)weft_float_to_i32(v) + (uint32_t)weft_zero_at(&r->to, k);
    weft_quant_set(r->y, i, weft_clamp_i32((int32_t)n, r->low, r->high));
  }
}

static void dequantize_range(void *arg, int64_t begin, int64_t end) {
  const uniform_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    const int64_t k = i / r->inner % r->slices;
    const uint32_t n = (uint32_t)weft_uniform_at(r->x, i) - (uint32_t)weft_zero_at(&r->from, k);
    ((float *)r->y->data)[i] = (float)(int32_t)n * weft_scale_at(&r->from, k);
  }
}

static void requantize_range(void *arg, int64_t begin, int64_t end) {
  const uniform_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    const int64_t k = i / r->inner % r->slices;
    const uint32_t n = (uint32_t)weft_uniform_at(r->x, i) - (uint32_t)weft_zero_at(&r->from, k);
    const uint32_t zero = r->to.zeros == NULL ? 0 : (uint32_t)weft_zero_at(&r->to, k);
    const uint32_t v = (uint32_t)weft_fixed_multiply((int32_t)n, r->factors[k]) + zero;
    weft_quant_set(r->y, i, weft_clamp_i32((int32_t)v, r->low, r->high));
  }
}

/* Output 0 of x's shape, by `fn`. */
static weft_status_t *run_each(weft_kernel_ctx_t *c, uniform_run_t *r, int64_t axis, weft_range_fn *fn) {
  const weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &r->x->shape, &r->y));
  set_slices(r, &r->x->shape, axis);
  if (r->y->count > 0) weft_parallel_for(c->device->pool, r->y->count, WEFT_CPU_GRAIN, fn, r);
  return NULL;
}

WEFT_ATTRS(quantize, (INT, quantization_axis), (INT, quantization_min_val), (INT, quantization_max_val))
static weft_status_t *quantize(weft_kernel_ctx_t *c, const quantize_attrs_t *a) {
  uniform_run_t r = {.x = weft_in(c, 0), .low = a->quantization_min_val, .high = a->quantization_max_val};
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 1, &r.x->shape, a->quantization_axis, &r.to));
  return run_each(c, &r, a->quantization_axis, quantize_range);
}

WEFT_ATTRS(dequantize, (INT, quantization_axis))
static weft_status_t *dequantize(weft_kernel_ctx_t *c, const dequantize_attrs_t *a) {
  uniform_run_t r = {.x = weft_in(c, 0)};
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 1, &r.x->shape, a->quantization_axis, &r.from));
  WEFT_RETURN_IF_ERROR(weft_scales_check(&r.from));
  return run_each(c, &r, a->quantization_axis, dequantize_range);
}

/* The factor from scale to scale, of each slice; the caller frees it. */
static weft_status_t *make_factors(const uniform_run_t *r, weft_fixed_factor_t **out) {
  weft_fixed_factor_t *factors = weft_malloc(((size_t)r->slices + 1) * sizeof *factors);
  weft_status_t *s = factors == NULL ? WEFT_NO_MEMORY("factors between scales") : NULL;
  for (int64_t k = 0; s == NULL && k < r->slices; k++) {
    s = weft_fixed_factor_of((double)weft_scale_at(&r->from, k) / (double)weft_scale_at(&r->to, k),
                             &factors[k]);
  }
  if (s == NULL) {
    *out = factors;
  } else {
    weft_free(factors);
  }
  return s;
}

WEFT_ATTRS(requantize, (INT, input_quantization_axis), (INT, output_quantization_axis),
           (INT, output_quantization_min_val), (INT, output_quantization_max_val))
static weft_status_t *requantize(weft_kernel_ctx_t *c, const requantize_attrs_t *a) {
  uniform_run_t r = {
      .x = weft_in(c, 0), .low = a->output_quantization_min_val, .high = a->output_quantization_max_val};
  const int64_t in = a->input_quantization_axis, out = a->output_quantization_axis, axis = in >= 0 ? in : out;
  weft_fixed_factor_t *factors = NULL;
  if (in >= 0 && out >= 0 && in != out) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "If input and output is both per-axis quantized, the quantization axis must be same.");
  }
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 1, &r.x->shape, in, &r.from));
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 3, &r.x->shape, out, &r.to));
  WEFT_RETURN_IF_ERROR(weft_scales_check(&r.from));
  WEFT_RETURN_IF_ERROR(weft_scales_check(&r.to));
  set_slices(&r, &r.x->shape, axis);
  WEFT_RETURN_IF_ERROR(make_factors(&r, &factors));
  r.factors = factors;
  weft_status_t *s = run_each(c, &r, axis, requantize_range);
  weft_free(factors);
  return s;
}

/* ---- UniformQuantizedClipByValue ---- */

static void clip_range(void *arg, int64_t begin, int64_t end) {
  const uniform_run_t *r = arg;
  const int32_t *x = r->x->data, *low = r->from.scales->data, *high = r->from.zeros->data;
  int32_t *y = r->y->data;
  for (int64_t i = begin; i < end; i++) {
    const int64_t k = i / r->inner % r->slices;
    const int32_t v = x[i] < low[k] ? low[k] : x[i];
    y[i] = high[k] < v ? high[k] : v;
  }
}

WEFT_ATTRS(clip, (INT, quantization_axis))
static weft_status_t *clip(weft_kernel_ctx_t *c, const clip_attrs_t *a) {
  weft_scales_t scales;
  uniform_run_t r = {.x = weft_in(c, 0), .from = {.scales = weft_in(c, 1), .zeros = weft_in(c, 2)}};
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 3, &r.x->shape, a->quantization_axis, &scales));
  for (int i = 1; i < 3; i++) {
    if (weft_shape_eq(&weft_in(c, i)->shape, &scales.scales->shape)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input %.*s shape must be same as scales/zero_points. Given it of shape %s and "
                      "scales/zero_points of shape %s",
                      WEFT_STR_ARGS(c->node->op->inputs[i].name), WEFT_SHAPE_TEXT(&weft_in(c, i)->shape),
                      WEFT_SHAPE_TEXT(&scales.scales->shape));
  }
  return run_each(c, &r, a->quantization_axis, clip_range);
}

/* ---- UniformQuantizedAdd ---- */

WEFT_ATTRS(add, (INT, lhs_quantization_axis), (INT, rhs_quantization_axis), (INT, output_quantization_axis),
           (INT, output_quantization_min_val), (INT, output_quantization_max_val))

/* An operand in the result's scales, with 0 as its zero point; the caller releases it. */
static weft_status_t *in_result_scales(weft_kernel_ctx_t *c, const weft_tensor_t *x, weft_scales_t from,
                                       int64_t axis, const weft_scales_t *to, int64_t to_axis,
                                       weft_tensor_t **out) {
  uniform_run_t r = {.x = x, .from = from, .to = *to, .low = INT32_MIN, .high = INT32_MAX};
  weft_fixed_factor_t *factors = NULL;
  const int64_t by = axis >= 0 ? axis : to_axis;
  r.to.zeros = NULL;
  if (by >= x->shape.rank || (to->is_sliced && by >= 0 && x->shape.dims[by] > to->scales->count)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "an operand of shape %s has no quantisation axis %" PRId64,
                      WEFT_SHAPE_TEXT(&x->shape), by);
  }
  set_slices(&r, &x->shape, by);
  WEFT_RETURN_IF_ERROR(make_factors(&r, &factors));
  r.factors = factors;
  weft_status_t *s = weft_tensor_new(WEFT_QINT32, &x->shape, c->device->allocator, out);
  if (s == NULL) {
    r.y = *out;
    if (x->count > 0) weft_parallel_for(c->device->pool, x->count, WEFT_CPU_GRAIN, requantize_range, &r);
  }
  weft_free(factors);
  return s;
}

typedef struct add_run {
  const weft_tensor_t *x[2];
  int32_t *y;
  weft_scales_t out;
  int64_t slices, inner, low, high;
} add_run_t;

static void add_run_of(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const add_run_t *r = arg;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t a = (uint32_t)weft_uniform_at(r->x[0], at[0] + i * step[0]);
    const uint32_t b = (uint32_t)weft_uniform_at(r->x[1], at[1] + i * step[1]);
    const uint32_t zero = (uint32_t)weft_zero_at(&r->out, (out_at + i) / r->inner % r->slices);
    r->y[out_at + i] = weft_clamp_i32((int32_t)(a + b + zero), r->low, r->high);
  }
}

static weft_status_t *check_axes(int64_t axis, int rank, int64_t out_axis, int out_rank) {
  if (axis < 0 || out_axis < 0 || rank - axis == out_rank - out_axis) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "If an operand and output is both per-axis quantized, the quantization axis must match.");
}

static weft_status_t *sum(weft_kernel_ctx_t *c, const add_attrs_t *a, const weft_broadcast_t *b,
                          weft_scales_t s[3], weft_tensor_t *scaled[2]) {
  const int64_t out_axis = a->output_quantization_axis;
  const int64_t left = out_axis == -1                  ? -1
                       : a->lhs_quantization_axis >= 0 ? a->lhs_quantization_axis
                                                       : out_axis;
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(
      in_result_scales(c, weft_in(c, 0), s[0], a->lhs_quantization_axis, &s[2], left, &scaled[0]));
  WEFT_RETURN_IF_ERROR(
      in_result_scales(c, weft_in(c, 1), s[1], a->rhs_quantization_axis, &s[2], out_axis, &scaled[1]));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_QINT32, &b->shape, &y));
  uniform_run_t out = {0};
  set_slices(&out, &b->shape, out_axis);
  add_run_t r = {.x = {scaled[0], scaled[1]},
                 .y = y->data,
                 .out = s[2],
                 .slices = out.slices,
                 .inner = out.inner,
                 .low = a->output_quantization_min_val,
                 .high = a->output_quantization_max_val};
  if (y->count > 0) weft_broadcast_run(b, c->device->pool, WEFT_CPU_GRAIN, add_run_of, &r);
  return NULL;
}

static weft_status_t *add(weft_kernel_ctx_t *c, const add_attrs_t *a) {
  const weft_shape_t *x = &weft_in(c, 0)->shape, *y = &weft_in(c, 1)->shape;
  weft_tensor_t *scaled[2] = {NULL, NULL};
  weft_scales_t s[3];
  weft_broadcast_t b;
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 2, x, a->lhs_quantization_axis, &s[0]));
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 4, y, a->rhs_quantization_axis, &s[1]));
  if (!weft_broadcast_init(&b, (const weft_shape_t *[]){x, y}, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot Add tensors of shapes: %s%s", WEFT_SHAPE_TEXT(x),
                      WEFT_SHAPE_TEXT(y));
  }
  WEFT_RETURN_IF_ERROR(weft_scales_input(c, 6, &b.shape, a->output_quantization_axis, &s[2]));
  WEFT_RETURN_IF_ERROR(
      check_axes(a->lhs_quantization_axis, x->rank, a->output_quantization_axis, b.shape.rank));
  WEFT_RETURN_IF_ERROR(
      check_axes(a->rhs_quantization_axis, y->rank, a->output_quantization_axis, b.shape.rank));
  for (int i = 0; i < 3; i++) WEFT_RETURN_IF_ERROR(weft_scales_check(&s[i]));
  weft_status_t *status = sum(c, a, &b, s, scaled);
  weft_tensor_release(scaled[0]);
  weft_tensor_release(scaled[1]);
  return status;
}

#define QINT8 WEFT_DTYPE_BIT(WEFT_QINT8)
#define QINT32 WEFT_DTYPE_BIT(WEFT_QINT32)
const weft_kernel_t weft_cpu_uniform_kernels[] = {
    WEFT_KERNEL_ATTRS("UniformDequantize", "Tin", QINT8 | QINT32, dequantize),
    WEFT_KERNEL_ATTRS("UniformQuantize", "Tout", QINT8 | QINT32, quantize),
    WEFT_KERNEL_ATTRS("UniformQuantizedAdd", "T", QINT32, add),
    WEFT_KERNEL_ATTRS("UniformQuantizedClipByValue", "T", QINT32, clip),
    {.op = "UniformRequantize",
     .type_attr = "Tin",
     .types = QINT8 | QINT32,
     .type_attr2 = "Tout",
     .types2 = QINT8,
     WEFT_COMPUTE(requantize)},
    {0},
};
