/* kernels/cpu/quantize/uniform_product.c - UniformQuantizedDot, UniformQuantizedConvolution and their
 * hybrids.
 *
 * What the integers lie above their zero points is multiplied and summed in 32 bits, modulo 2^32; padding is
 * zero. A hybrid quantises each batch of floats by itself first.
 */
#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/quantize/uniform.h"
#include "ops/uniform_conv.h"

/* ---- sums ---- */

typedef struct product_run {
  weft_uniform_conv_t c;
  const int8_t *lhs, *rhs;
  const weft_shape_t *lhs_shape, *rhs_shape;
  int64_t lhs_strides[WEFT_MAX_DIMS], rhs_strides[WEFT_MAX_DIMS];
  weft_scales_t rs, os;
  const float *lhs_scales; /* of each batch, of a hybrid; else one */
  const int32_t *lhs_zeros;
  bool is_hybrid;
  const weft_fixed_factor_t *factors; /* of each output feature, or one */
  int64_t low, high;
  void *y;
} product_run_t;

static void set_strides(const weft_shape_t *s, int64_t *strides) {
  int64_t stride = 1;
  for (int d = s->rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= s->dims[d];
  }
}

/* The place of the input under window place `r` of each spatial dimension; -1: in the padding. */
static int64_t input_at(const product_run_t *p, const int64_t *out, int64_t r, int64_t *rhs_at) {
  int64_t at = 0;
  bool is_inside = true;
  for (int i = p->c.num_space - 1; i >= 0; i--) {
    const int rd = p->c.rhs[2 + i], ld = p->c.lhs[2 + i];
    const int64_t k = r % p->rhs_shape->dims[rd];
    const int64_t x = out[p->c.out[2 + i]] * p->c.stride[i] + k * p->c.rhs_dilation[i] - p->c.before[i];
    r /= p->rhs_shape->dims[rd];
    *rhs_at += k * p->rhs_strides[rd];
    is_inside &= x >= 0 && x % p->c.lhs_dilation[i] == 0 && x / p->c.lhs_dilation[i] < p->lhs_shape->dims[ld];
    at += x / p->c.lhs_dilation[i] * p->lhs_strides[ld];
  }
  return is_inside ? at : -1;
}

/* The sum for the element at `out`, batch `batch` of lhs. */
static int32_t sum_at(const product_run_t *p, const int64_t *out, int64_t batch, int64_t feature) {
  const int in_dim = p->c.rhs[1], feature_dim = p->c.lhs[1];
  const int64_t in = p->rhs_shape->dims[in_dim],
                per_group = p->c.shape.dims[p->c.out[1]] / p->c.feature_groups;
  const int64_t first = feature / per_group * in;
  const uint32_t lhs_zero = (uint32_t)p->lhs_zeros[p->is_hybrid ? batch : 0];
  const uint32_t rhs_zero = (uint32_t)weft_zero_at(&p->rs, feature);
  int64_t windows = 1;
  uint32_t sum = 0;
  for (int i = 0; i < p->c.num_space; i++) windows *= p->rhs_shape->dims[p->c.rhs[2 + i]];
  for (int64_t r = 0; r < windows; r++) {
    int64_t rhs_at = feature * p->rhs_strides[p->c.rhs[0]];
    int64_t lhs_at = input_at(p, out, r, &rhs_at);
    if (lhs_at < 0) continue;
    lhs_at += batch * p->lhs_strides[p->c.lhs[0]] + first * p->lhs_strides[feature_dim];
    for (int64_t k = 0; k < in; k++) {
      const uint32_t a = (uint32_t)p->lhs[lhs_at + k * p->lhs_strides[feature_dim]] - lhs_zero;
      sum += a * ((uint32_t)p->rhs[rhs_at + k * p->rhs_strides[in_dim]] - rhs_zero);
    }
  }
  return (int32_t)sum;
}

static void product_range(void *arg, int64_t begin, int64_t end) {
  const product_run_t *p = arg;
  const weft_shape_t *s = &p->c.shape;
  for (int64_t i = begin; i < end; i++) {
    int64_t out[WEFT_MAX_DIMS];
    for (int64_t d = s->rank - 1, rest = i; d >= 0; rest /= s->dims[d], d--) out[d] = rest % s->dims[d];
    const int64_t feature = out[p->c.out[1]], batches = s->dims[p->c.out[0]];
    const int64_t group = feature / (s->dims[p->c.out[1]] / p->c.batch_groups);
    const int64_t batch = group * batches + out[p->c.out[0]];
    const int32_t sum = sum_at(p, out, batch, feature);
    if (p->is_hybrid) {
      ((float *)p->y)[i] = (float)sum * p->lhs_scales[batch] * weft_scale_at(&p->rs, feature);
      continue;
    }
    const int32_t v = weft_fixed_multiply(sum, p->factors[p->rs.is_sliced ? feature : 0]);
    const uint32_t moved = (uint32_t)v + (uint32_t)weft_zero_at(&p->os, feature);
    ((int32_t *)p->y)[i] = weft_clamp_i32((int32_t)moved, p->low, p->high);
  }
}

static weft_status_t *run_product(weft_kernel_ctx_t *ctx, product_run_t *p) {
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, p->is_hybrid ? WEFT_F32 : WEFT_QINT32, &p->c.shape, &y));
  p->y = y->data;
  set_strides(p->lhs_shape, p->lhs_strides);
  set_strides(p->rhs_shape, p->rhs_strides);
  if (y->count == 0) return NULL;
  const int64_t work = weft_shape_count(p->rhs_shape) / p->c.shape.dims[p->c.out[1]];
  weft_parallel_for(ctx->device->pool, y->count, WEFT_CPU_GRAIN / (work + 1) + 1, product_range, p);
  return NULL;
}

/* ---- integers times integers ---- */

static weft_status_t *make_factors(const product_run_t *p, float lhs_scale, weft_fixed_factor_t **out) {
  const int64_t n = p->rs.scales->count;
  weft_fixed_factor_t *factors = weft_malloc(((size_t)n + 1) * sizeof *factors);
  weft_status_t *s = factors == NULL ? WEFT_NO_MEMORY("factors between scales") : NULL;
  for (int64_t k = 0; s == NULL && k < n; k++) {
    const double product = (double)lhs_scale * (double)weft_scale_at(&p->rs, k);
    s = weft_fixed_factor_of(product / (double)weft_scale_at(&p->os, k), &factors[k]);
  }
  if (s == NULL) {
    *out = factors;
  } else {
    weft_free(factors);
  }
  return s;
}

/* Inputs: lhs, rhs, and scales and zero points of both and of the result; p->c is planned. */
static weft_status_t *integer_product(weft_kernel_ctx_t *ctx, product_run_t *p, int64_t rhs_axis,
                                      int64_t out_axis) {
  weft_scales_t ls;
  weft_fixed_factor_t *factors = NULL;
  const weft_shape_t one = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_scales_input(ctx, 2, &one, -1, &ls));
  WEFT_RETURN_IF_ERROR(weft_scales_input(ctx, 4, p->rhs_shape, rhs_axis, &p->rs));
  WEFT_RETURN_IF_ERROR(weft_scales_input(ctx, 6, &p->c.shape, out_axis, &p->os));
  WEFT_RETURN_IF_ERROR(weft_scales_check(&ls));
  WEFT_RETURN_IF_ERROR(weft_scales_check(&p->rs));
  WEFT_RETURN_IF_ERROR(weft_scales_check(&p->os));
  if (p->os.is_sliced && !p->rs.is_sliced) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "If rhs is per-tensor quantized, output must be also per-tensor quantized. Given output "
        "scales/zero_points of rank 1");
  }
  p->lhs_zeros = ls.zeros->data;
  WEFT_RETURN_IF_ERROR(make_factors(p, weft_scale_at(&ls, 0), &factors));
  p->factors = factors;
  weft_status_t *s = run_product(ctx, p);
  weft_free(factors);
  return s;
}

/* ---- floats times integers ---- */

/* Scale and zero point of one batch, and its integers. */
typedef struct batch_run {
  const float *x;
  int64_t stride; /* between elements of which the batch number differs by one */
  int64_t batches, count;
  int8_t *y;
  float *scales;
  int32_t *zeros;
} batch_run_t;

/* Of the two zero points that fit the ends of the range, the one with the smaller error, on an integer. */
static int32_t zero_point(double min, double max, double scale) {
  const double low = INT8_MIN, high = INT8_MAX, by_min = low - min / scale, by_max = high - max / scale;
  const double zero = fabs(low) + fabs(min / scale) < fabs(high) + fabs(max / scale) ? by_min : by_max;
  return zero <= low ? INT8_MIN : zero >= high ? INT8_MAX : (int32_t)round(zero);
}

/* Element i is of batch i / stride % batches. */
static void quantize_batch(const batch_run_t *b, int64_t batch) {
  const int64_t inner = b->stride, outer = b->count / (inner * b->batches);
  float low = 0, high = 0;
  for (int64_t o = 0; o < outer; o++) {
    const float *x = b->x + (o * b->batches + batch) * inner;
    for (int64_t i = 0; i < inner; i++) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
  }
  const double min = (double)low, max = (double)high;
  const float scale = (float)((max - min) / 255.0),
              inverse = max - min != 0 ? (float)(255.0 / (max - min)) : 0;
  const bool is_zero = scale == 0 || !isfinite(inverse);
  b->scales[batch] = is_zero ? 1 : scale;
  b->zeros[batch] = is_zero ? 0 : zero_point(min, max, (double)scale);
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = (o * b->batches + batch) * inner; i < (o * b->batches + batch + 1) * inner; i++) {
      const uint32_t n =
          (uint32_t)weft_float_to_i32(floorf(b->x[i] * inverse + 0.5f)) + (uint32_t)b->zeros[batch];
      b->y[i] = is_zero ? 0 : (int8_t)weft_clamp_i32((int32_t)n, INT8_MIN, INT8_MAX);
    }
  }
}

static weft_status_t *hybrid_product(weft_kernel_ctx_t *ctx, product_run_t *p, int64_t rhs_axis) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  WEFT_RETURN_IF_ERROR(weft_scales_input(ctx, 2, p->rhs_shape, rhs_axis, &p->rs));
  WEFT_RETURN_IF_ERROR(weft_scales_check(&p->rs));
  batch_run_t b = {
      .x = x->data, .count = x->count, .batches = x->count == 0 ? 0 : x->shape.dims[p->c.lhs[0]]};
  set_strides(&x->shape, p->lhs_strides);
  b.stride = p->lhs_strides[p->c.lhs[0]];
  b.y = weft_malloc((size_t)x->count + 1);
  b.scales = weft_malloc(((size_t)b.batches + 1) * sizeof *b.scales);
  b.zeros = weft_malloc(((size_t)b.batches + 1) * sizeof *b.zeros);
  weft_status_t *s = NULL;
  if (b.y == NULL || b.scales == NULL || b.zeros == NULL) {
    s = WEFT_NO_MEMORY("quantised batches");
  } else {
    for (int64_t k = 0; k < b.batches; k++) quantize_batch(&b, k);
    p->is_hybrid = true;
    p->lhs = b.y;
    p->lhs_scales = b.scales;
    p->lhs_zeros = b.zeros;
    s = run_product(ctx, p);
  }
  weft_free(b.y);
  weft_free(b.scales);
  weft_free(b.zeros);
  return s;
}

/* ---- rows ---- */

static product_run_t begin_product(const weft_kernel_ctx_t *ctx) {
  return (product_run_t){.lhs = weft_in(ctx, 0)->data,
                         .rhs = weft_in(ctx, 1)->data,
                         .lhs_shape = &weft_in(ctx, 0)->shape,
                         .rhs_shape = &weft_in(ctx, 1)->shape};
}

/* The axis of a dot's scales is what their rank says. */
static int64_t axis_of(const weft_kernel_ctx_t *ctx, int i) {
  return weft_in(ctx, i)->shape.rank == 0 ? -1 : 1;
}

WEFT_ATTRS(dot, (INT, output_quantization_min_val), (INT, output_quantization_max_val))
static weft_status_t *dot(weft_kernel_ctx_t *ctx, const dot_attrs_t *a) {
  product_run_t p = begin_product(ctx);
  p.low = a->output_quantization_min_val;
  p.high = a->output_quantization_max_val;
  WEFT_RETURN_IF_ERROR(weft_uniform_dot_plan(p.lhs_shape, p.rhs_shape, &p.c));
  return integer_product(ctx, &p, axis_of(ctx, 4), axis_of(ctx, 6));
}

static weft_status_t *dot_hybrid(weft_kernel_ctx_t *ctx) {
  product_run_t p = begin_product(ctx);
  WEFT_RETURN_IF_ERROR(weft_uniform_dot_plan(p.lhs_shape, p.rhs_shape, &p.c));
  return hybrid_product(ctx, &p, axis_of(ctx, 2));
}

/* Attribute `name` is -1, or the axis of features if there is one. */
static weft_status_t *check_axis(const weft_kernel_setup_t *setup, const char *name, bool may_be_1) {
  const int64_t axis = weft_knode_int_or(setup, name, -1);
  if (axis == -1 || (may_be_1 && axis == 1)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s Attr must be%s -1 (per-tensor).", name,
                    may_be_1 ? " 1 (per-channel) or" : "");
}

static weft_status_t *dot_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  WEFT_RETURN_IF_ERROR(check_axis(setup, "lhs_quantization_axis", false));
  WEFT_RETURN_IF_ERROR(check_axis(setup, "rhs_quantization_axis", true));
  WEFT_RETURN_IF_ERROR(check_axis(setup, "output_quantization_axis", true));
  return weft_attrs_prepare(setup, out_state);
}

static weft_status_t *dot_hybrid_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  *out_state = NULL;
  return check_axis(setup, "rhs_quantization_axis", true);
}

/* Attributes of a convolution; they live as long as the plan. */
typedef struct conv_state {
  const weft_named_attr_t *attrs;
  int num_attrs;
  int64_t rhs_axis, out_axis, low, high;
} conv_state_t;

static weft_status_t *conv_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  WEFT_RETURN_IF_ERROR(check_axis(setup, "lhs_quantization_axis", false));
  WEFT_RETURN_IF_ERROR(weft_uniform_conv_check(setup->attrs, setup->num_attrs));
  conv_state_t *s = weft_malloc(sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *s = (conv_state_t){.attrs = setup->attrs,
                      .num_attrs = setup->num_attrs,
                      .rhs_axis = weft_knode_int(setup, "rhs_quantization_axis"),
                      .out_axis = weft_knode_int_or(setup, "output_quantization_axis", -1),
                      .low = weft_knode_int_or(setup, "output_quantization_min_val", 0),
                      .high = weft_knode_int_or(setup, "output_quantization_max_val", 0)};
  *out_state = s;
  return NULL;
}

static weft_status_t *plan_conv(weft_kernel_ctx_t *ctx, product_run_t *p) {
  const conv_state_t *s = ctx->state;
  p->low = s->low;
  p->high = s->high;
  WEFT_RETURN_IF_ERROR(weft_uniform_conv_plan(s->attrs, s->num_attrs, p->lhs_shape, p->rhs_shape, &p->c));
  if (s->rhs_axis != -1 && s->rhs_axis != p->c.rhs[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "rhs_quantization_axis Attr must be -1 (per-tensor) or "
                      "dimension_numbers.kernel_output_feature_dimension (per-channel).");
  }
  if (s->out_axis != -1 && s->out_axis != p->c.out[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "output_quantization_axis Attr must be -1 (per-tensor) or "
                      "dimension_numbers.output_feature_dimension (per-channel).");
  }
  return NULL;
}

static weft_status_t *conv(weft_kernel_ctx_t *ctx) {
  const conv_state_t *s = ctx->state;
  product_run_t p = begin_product(ctx);
  WEFT_RETURN_IF_ERROR(plan_conv(ctx, &p));
  return integer_product(ctx, &p, s->rhs_axis, s->out_axis);
}

static weft_status_t *conv_hybrid(weft_kernel_ctx_t *ctx) {
  const conv_state_t *s = ctx->state;
  product_run_t p = begin_product(ctx);
  WEFT_RETURN_IF_ERROR(plan_conv(ctx, &p));
  return hybrid_product(ctx, &p, s->rhs_axis);
}

#define FLOAT WEFT_DTYPE_BIT(WEFT_F32)
#define QINT8 WEFT_DTYPE_BIT(WEFT_QINT8)
const weft_kernel_t weft_cpu_uniform_product_kernels[] = {
    WEFT_KERNEL("UniformQuantizedConvolution", "Tin", QINT8, conv_prepare, conv, weft_free),
    WEFT_KERNEL2("UniformQuantizedConvolutionHybrid", "Tlhs", FLOAT, "Trhs", QINT8, conv_prepare, conv_hybrid,
                 weft_free),
    {.op = "UniformQuantizedDot", .type_attr = "Tin", .types = QINT8, WEFT_COMPUTE_CHECKED(dot, dot_prepare)},
    WEFT_KERNEL2("UniformQuantizedDotHybrid", "Tlhs", FLOAT, "Trhs", QINT8, dot_hybrid_prepare, dot_hybrid,
                 NULL),
    {0},
};
