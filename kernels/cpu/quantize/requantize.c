/* kernels/cpu/quantize/requantize.c - from one range to another, and which range the values need. */
#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/quantize/quantize.h"

/* The range of qint32 values that occur. */
static weft_range_t used_range(const weft_tensor_t *x, weft_range_t r) {
  const int32_t *v = x->data;
  int32_t min = INT32_MAX, max = INT32_MIN;
  for (int64_t i = 0; i < x->count; i++) {
    min = v[i] < min ? v[i] : min;
    max = v[i] > max ? v[i] : max;
  }
  const float low = weft_dequantize_exactly(x->dtype, min, r);
  return (weft_range_t){low < 0 ? low : 0.0f, weft_dequantize_exactly(x->dtype, max, r)};
}

/* Alone among these ops it takes ranges of any shape, and the first elements of them. */
static weft_status_t *requantization_range(weft_kernel_ctx_t *c) {
  if (weft_in(c, 1)->count == 0 || weft_in(c, 2)->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input_min and input_max must not be empty");
  }
  const weft_range_t r = {*(const float *)weft_in(c, 1)->data, *(const float *)weft_in(c, 2)->data};
  return weft_range_output(c, 0, used_range(weft_in(c, 0), r));
}

static weft_status_t *requantize_into(weft_kernel_ctx_t *c, weft_range_t from, weft_range_t to) {
  const weft_tensor_t *x = weft_in(c, 0);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, (weft_dtype_t)c->node->output_types[0], &x->shape, &y));
  weft_requantize(c, x, from, y, to);
  return weft_range_output(c, 1, to);
}

static weft_status_t *shrink_range(weft_kernel_ctx_t *c) {
  weft_range_t r;
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 1, &r));
  return requantize_into(c, r, used_range(weft_in(c, 0), r));
}

static weft_status_t *requantize(weft_kernel_ctx_t *c) {
  weft_range_t from, to;
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 1, &from));
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 3, &to));
  if (!(to.min <= 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "requested_output_min must be <= 0, but got %g", (double)to.min);
  }
  if (!(to.max >= to.min)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "requested_output_max must be >= requested_output_min, but got %g and %g",
                      (double)to.max, (double)to.min);
  }
  return requantize_into(c, from, to);
}

/* ---- a range for each channel, the last of four dimensions ---- */

static float larger(float a, float b) { return fabsf(a) < fabsf(b) ? fabsf(b) : fabsf(a); }

static weft_status_t *check_channels(const weft_kernel_ctx_t *c, int64_t channels) {
  for (int i = 1; i < 3; i++) {
    const weft_tensor_t *t = weft_in(c, i);
    if (t->shape.rank == 1 && t->count == channels) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s has incorrect size, expected %" PRId64 " was %" PRId64,
                      WEFT_STR_ARGS(c->node->op->inputs[i].name), channels, t->count);
  }
  return NULL;
}

WEFT_ATTRS(channel_range, (FLOAT, clip_value_max))
static weft_status_t *channel_range(weft_kernel_ctx_t *c, const channel_range_attrs_t *a) {
  const weft_tensor_t *x = weft_in(c, 0);
  const float *min = weft_in(c, 1)->data, *max = weft_in(c, 2)->data;
  const int64_t channels = weft_in(c, 2)->count;
  const int32_t *v = x->data;
  float most = FLT_MIN;
  bool has_negative = false;
  WEFT_RETURN_IF_ERROR(check_channels(c, channels));
  if (x->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "input must not be empty");
  if (x->shape.rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "input must be in NHWC format");
  if (x->shape.dims[3] != channels) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input must have same number of channels as length of input_min: %" PRId64
                      " vs %" PRId64,
                      x->shape.dims[3], channels);
  }
  for (int64_t k = 0; k < channels; k++) {
    int64_t largest = 0;
    for (int64_t i = k; i < x->count; i += channels) {
      const int64_t size = v[i] < 0 ? -(int64_t)v[i] : v[i];
      largest = size > largest ? size : largest;
      has_negative |= v[i] < 0;
    }
    const float range = larger(min[k], max[k]) * (float)largest / 2147483648.0f;
    most = most < range ? range : most;
  }
  if (most > a->clip_value_max) most = a->clip_value_max;
  return weft_range_output(c, 0, (weft_range_t){has_negative ? -most : 0.0f, most});
}

typedef struct channels_run {
  const int32_t *x;
  weft_tensor_t *y;
  const float *scales; /* of each channel */
  int64_t channels;
  float low, high;
} channels_run_t;

static void requantize_rows(void *arg, int64_t begin, int64_t end) {
  const channels_run_t *r = arg;
  for (int64_t i = begin * r->channels; i < end * r->channels; i += r->channels) {
    for (int64_t k = 0; k < r->channels; k++) {
      float v = (float)r->x[i + k] * r->scales[k];
      v = v < r->low ? r->low : v;
      weft_quant_set(r->y, i + k, (int32_t)rintf(v > r->high ? r->high : v));
    }
  }
}

/* Zero stays zero: only the larger side of each range counts. */
static weft_status_t *requantize_channels(weft_kernel_ctx_t *c) {
  const weft_tensor_t *x = weft_in(c, 0);
  const float *min = weft_in(c, 1)->data, *max = weft_in(c, 2)->data;
  channels_run_t r = {.x = x->data, .channels = weft_in(c, 1)->count};
  const weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  weft_range_t to;
  WEFT_RETURN_IF_ERROR(check_channels(c, r.channels));
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 3, &to));
  if (dtype == WEFT_QINT8 && !(to.min < 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "If out_type is QINT8, requested_output_min must be negative, got %g",
                      (double)to.min);
  }
  if (x->shape.rank < 1 || x->shape.dims[x->shape.rank - 1] != r.channels) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must have %" PRId64 " channels, its shape is %s", r.channels,
                      WEFT_SHAPE_TEXT(&x->shape));
  }
  float *scales = weft_malloc(((size_t)r.channels + 1) * sizeof *scales);
  if (scales == NULL) return WEFT_NO_MEMORY("the scales of channels");
  for (int64_t k = 0; k < r.channels; k++) {
    scales[k] = (float)(dtype == WEFT_QINT8 ? INT8_MAX : UINT8_MAX) *
                (larger(min[k], max[k]) / larger(to.min, to.max) / 2147483648.0f);
  }
  r.scales = scales;
  r.low = (float)weft_quant_lowest(dtype);
  r.high = (float)weft_quant_highest(dtype);
  weft_status_t *s = weft_out_new(c, 0, dtype, &x->shape, &r.y);
  if (s == NULL && x->count > 0) {
    weft_parallel_for(c->device->pool, x->count / r.channels, WEFT_CPU_GRAIN / r.channels + 1,
                      requantize_rows, &r);
  }
  weft_free(scales);
  return s != NULL ? s : weft_range_output(c, 1, to);
}

#define QINT32 WEFT_DTYPE_BIT(WEFT_QINT32)
#define BYTES (WEFT_DTYPE_BIT(WEFT_QINT8) | WEFT_DTYPE_BIT(WEFT_QUINT8))
const weft_kernel_t weft_cpu_requantize_kernels[] = {
    WEFT_KERNEL2("QuantizeDownAndShrinkRange", "Tinput", QINT32, "out_type", WEFT_DTYPE_BIT(WEFT_QUINT8),
                 NULL, shrink_range, NULL),
    WEFT_KERNEL("RequantizationRange", "Tinput", QINT32, NULL, requantization_range, NULL),
    WEFT_KERNEL_ATTRS("RequantizationRangePerChannel", "T", QINT32, channel_range),
    WEFT_KERNEL2("Requantize", "Tinput", QINT32, "out_type", BYTES, NULL, requantize, NULL),
    WEFT_KERNEL2("RequantizePerChannel", "T", QINT32, "out_type", BYTES, NULL, requantize_channels, NULL),
    {0},
};
