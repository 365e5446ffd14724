/* kernels/cpu/quantize/quantize.c - see quantize.h. */
#include "kernels/cpu/quantize/quantize.h"

int64_t weft_quant_lowest(int dtype) {
  switch (dtype) {
    case WEFT_QINT8: return INT8_MIN;
    case WEFT_QINT16: return INT16_MIN;
    case WEFT_QINT32: return INT32_MIN;
    default: return 0;
  }
}

int64_t weft_quant_highest(int dtype) {
  switch (dtype) {
    case WEFT_QINT8: return INT8_MAX;
    case WEFT_QUINT8: return UINT8_MAX;
    case WEFT_QINT16: return INT16_MAX;
    case WEFT_QUINT16: return UINT16_MAX;
    default: return INT32_MAX;
  }
}

int32_t weft_quant_at(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_QINT8: return ((const int8_t *)t->data)[i];
    case WEFT_QUINT8: return ((const uint8_t *)t->data)[i];
    case WEFT_QINT16: return ((const int16_t *)t->data)[i];
    case WEFT_QUINT16: return ((const uint16_t *)t->data)[i];
    default: return ((const int32_t *)t->data)[i];
  }
}

void weft_quant_set(weft_tensor_t *t, int64_t i, int32_t value) {
  switch (t->dtype) {
    case WEFT_QINT8: ((int8_t *)t->data)[i] = (int8_t)value; break;
    case WEFT_QUINT8: ((uint8_t *)t->data)[i] = (uint8_t)value; break;
    case WEFT_QINT16: ((int16_t *)t->data)[i] = (int16_t)value; break;
    case WEFT_QUINT16: ((uint16_t *)t->data)[i] = (uint16_t)value; break;
    default: ((int32_t *)t->data)[i] = value;
  }
}

/* How many steps there are from the lowest integer to the highest. */
static double steps_of(int dtype) { return (double)(weft_quant_highest(dtype) - weft_quant_lowest(dtype)); }

weft_dequant_t weft_dequant_of(int dtype, weft_range_t r) {
  float scale = (float)((double)(r.max - r.min) / steps_of(dtype));
  float rounded = r.max == r.min ? r.min : roundf(r.min / scale) * scale;
  return (weft_dequant_t){rounded - (float)weft_quant_lowest(dtype) * scale, scale};
}

weft_quant_t weft_quant_of(int dtype, weft_range_t r) {
  float lowest = (float)weft_quant_lowest(dtype), highest = (float)weft_quant_highest(dtype);
  float scale = r.max == r.min ? 0.0f : (float)(steps_of(dtype) / (double)(r.max - r.min));
  const float below_2_31 = 2147483520.0f; /* the largest float that is an int32 */
  return (weft_quant_t){.scale = scale,
                        .offset = roundf(r.min * scale) - lowest,
                        .low = lowest,
                        .high = highest < below_2_31 ? highest : below_2_31};
}

float weft_dequantize_exactly(int dtype, int32_t v, weft_range_t r) {
  if (r.min == r.max) return r.min;
  const double steps = steps_of(dtype) + 1.0, range = (double)(r.max - r.min) * (steps / (steps - 1.0));
  const double scale = range / steps, rounded = (double)(roundf(r.min / (float)scale) * (float)scale);
  return (float)(rounded + (double)(v - weft_quant_lowest(dtype)) * scale);
}

/* Numbers that no int64 holds become the lowest one, as on x86. */
static int64_t to_int64(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }

int64_t weft_quantize_unclamped(int dtype, float v, weft_range_t r) {
  const int64_t lowest = weft_quant_lowest(dtype);
  if (r.min == r.max) return lowest;
  const double steps = steps_of(dtype) + 1.0, range = (double)(r.max - r.min) * (steps / (steps - 1.0));
  const double scale = steps / range;
  return (int64_t)((uint64_t)to_int64(round((double)v * scale) - round((double)r.min * scale)) +
                   (uint64_t)lowest);
}

int32_t weft_quantize_exactly(int dtype, float v, weft_range_t r) {
  const int64_t lowest = weft_quant_lowest(dtype), highest = weft_quant_highest(dtype);
  int64_t q = weft_quantize_unclamped(dtype, v, r);
  q = q < lowest ? lowest : q;
  return (int32_t)(q > highest ? highest : q);
}

static float step_of(int dtype, weft_range_t r) { return (r.max - r.min) / (float)steps_of(dtype); }

weft_range_t weft_product_range(int dtype_a, weft_range_t a, int dtype_b, weft_range_t b) {
  float step = step_of(dtype_a, a) * step_of(dtype_b, b);
  return (weft_range_t){step * (float)INT32_MIN, step * (float)INT32_MAX};
}

/* ---- requantisation ---- */

typedef struct requantize_run {
  const weft_tensor_t *in;
  weft_tensor_t *out;
  weft_dequant_t from;
  weft_quant_t to;
  int64_t scale, offset; /* of qint32 to quint8, with FIXED_BITS behind the point */
} requantize_run_t;

enum { FIXED_BITS = 16 };

static void requantize_range(void *arg, int64_t begin, int64_t end) {
  const requantize_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    weft_quant_set(r->out, i, weft_quantize(&r->to, weft_dequantize(&r->from, weft_quant_at(r->in, i))));
  }
}

static void requantize_fixed_range(void *arg, int64_t begin, int64_t end) {
  const requantize_run_t *r = arg;
  const int32_t *in = r->in->data;
  uint8_t *out = r->out->data;
  for (int64_t i = begin; i < end; i++) {
    int64_t scaled = (int64_t)((uint64_t)(int64_t)(float)in[i] * (uint64_t)r->scale) >>
                     32; /* by way of float, as in TensorFlow */
    int64_t v = (int64_t)((uint64_t)scaled + (uint64_t)r->offset) >> FIXED_BITS;
    out[i] = (uint8_t)(v < 0 ? 0 : v > UINT8_MAX ? UINT8_MAX : v);
  }
}

/* offset: where 0 lies, and half a step for rounding. */
static void prepare_fixed(requantize_run_t *r, weft_range_t in, weft_range_t out) {
  const float in_range = in.max - in.min, out_range = out.max - out.min;
  const float middle = (float)((double)(in.min + in.max) / 2.0), one = (float)(1 << FIXED_BITS);
  const float reciprocal = out_range == 0 ? 0.0f : (float)(255.0 / (double)out_range);
  r->scale = out_range == 0 ? 0 : to_int64(255.0 * (double)one * (double)in_range / (double)out_range);
  int64_t to_middle = to_int64((double)(middle * reciprocal * one));
  int64_t to_min =
      out_range == 0 ? 0 : to_int64(round((double)one * ((double)out.min * 255.0) / (double)out_range));
  r->offset = (int64_t)((uint64_t)to_middle - (uint64_t)to_min + (1u << (FIXED_BITS - 1)));
}

void weft_requantize(const weft_kernel_ctx_t *ctx, const weft_tensor_t *in, weft_range_t in_range,
                     weft_tensor_t *out, weft_range_t out_range) {
  requantize_run_t r = {.in = in,
                        .out = out,
                        .from = weft_dequant_of(in->dtype, in_range),
                        .to = weft_quant_of(out->dtype, out_range)};
  bool is_fixed = in->dtype == WEFT_QINT32 && out->dtype == WEFT_QUINT8;
  if (is_fixed) prepare_fixed(&r, in_range, out_range);
  weft_parallel_for(ctx->device->pool, in->count, WEFT_CPU_GRAIN,
                    is_fixed ? requantize_fixed_range : requantize_range, &r);
}

/* ---- ranges of nodes ---- */

weft_status_t *weft_float_input(const weft_kernel_ctx_t *ctx, int i, float *out) {
  const weft_tensor_t *t = weft_in(ctx, i);
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`%.*s` must be rank 0 but is rank %d",
                      WEFT_STR_ARGS(ctx->node->op->inputs[i].name), t->shape.rank);
  }
  *out = *(const float *)t->data;
  return NULL;
}

weft_status_t *weft_range_input(const weft_kernel_ctx_t *ctx, int i, weft_range_t *out) {
  WEFT_RETURN_IF_ERROR(weft_float_input(ctx, i, &out->min));
  return weft_float_input(ctx, i + 1, &out->max);
}

weft_status_t *weft_range_of_one(const weft_kernel_ctx_t *ctx, int i, weft_range_t *out) {
  for (int k = i; k < i + 2; k++) {
    if (weft_in(ctx, k)->count == 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s must be a scalar, but got shape %s",
                      WEFT_STR_ARGS(ctx->node->op->inputs[k].name), WEFT_SHAPE_TEXT(&weft_in(ctx, k)->shape));
  }
  *out = (weft_range_t){*(const float *)weft_in(ctx, i)->data, *(const float *)weft_in(ctx, i + 1)->data};
  return NULL;
}

weft_status_t *weft_range_output(weft_kernel_ctx_t *ctx, int i, weft_range_t r) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i, WEFT_F32, &WEFT_SCALAR, &t));
  *(float *)t->data = r.min;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i + 1, WEFT_F32, &WEFT_SCALAR, &t));
  *(float *)t->data = r.max;
  return NULL;
}
