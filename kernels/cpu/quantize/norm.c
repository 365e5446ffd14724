/* kernels/cpu/quantize/norm.c - QuantizedBatchNormWithGlobalNormalization and QuantizedInstanceNorm. */
#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/quantize/quantize.h"

/* ---- batch normalisation, in fixed point ---- */

/* The result's range: enough for what networks have, with 10 bits behind the point. */
static const weft_range_t norm_range = {-1048576.0f, 1048576.0f};

static int32_t in_norm_range(float v) { return weft_quantize_exactly(WEFT_QINT32, v, norm_range); }

typedef struct norm_run {
  const uint8_t *x;
  int32_t *y;
  int64_t channels;
  int32_t of[UINT8_MAX + 1]; /* what each integer of x is in the result's range */
  int32_t one;
  const int32_t *scale, *offset; /* of each channel */
} norm_run_t;

static void norm_rows(void *arg, int64_t begin, int64_t end) {
  const norm_run_t *r = arg;
  for (int64_t i = begin * r->channels; i < end * r->channels; i += r->channels) {
    for (int64_t k = 0; k < r->channels; k++) {
      const int32_t scaled = (int32_t)((uint32_t)r->of[r->x[i + k]] * (uint32_t)r->scale[k]) / r->one;
      r->y[i + k] = (int32_t)((uint32_t)scaled + (uint32_t)r->offset[k]);
    }
  }
}

WEFT_ATTRS(batch_norm, (FLOAT, variance_epsilon), (BOOL, scale_after_normalization))

enum {
  MEAN,
  VARIANCE,
  BETA,
  GAMMA,
  NUM_PARTS
}; /* inputs 3 to 14: each has a tensor, a minimum and a maximum */

static weft_status_t *check_parts(const weft_kernel_ctx_t *c, weft_range_t ranges[NUM_PARTS]) {
  const weft_shape_t *x = &weft_in(c, 0)->shape;
  if (x->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional: %s", WEFT_SHAPE_TEXT(x));
  if (x->dims[3] < 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "Must have more than one channel: %s", WEFT_SHAPE_TEXT(x));
  for (int p = 0; p < NUM_PARTS; p++) {
    const int at = 3 + 3 * p;
    const weft_shape_t *s = &weft_in(c, at)->shape;
    WEFT_RETURN_IF_ERROR(weft_range_of_one(c, at + 1, &ranges[p]));
    if (s->rank == 1 && s->dims[0] == x->dims[3]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s must be 1-dimensional, of %" PRId64 " channels: %s",
                      WEFT_STR_ARGS(c->node->op->inputs[at].name), x->dims[3], WEFT_SHAPE_TEXT(s));
  }
  return NULL;
}

/* Channel k as x * scale + offset. */
static void channel_line(const weft_kernel_ctx_t *c, const batch_norm_attrs_t *a, const weft_range_t *ranges,
                         int64_t k, int32_t *scale, int32_t *offset) {
  float v[NUM_PARTS];
  for (int p = 0; p < NUM_PARTS; p++) {
    const weft_tensor_t *t = weft_in(c, 3 + 3 * p);
    v[p] = weft_dequantize_exactly(t->dtype, weft_quant_at(t, k), ranges[p]);
  }
  float by = 1.0f / sqrtf(v[VARIANCE] + a->variance_epsilon);
  if (a->scale_after_normalization) by *= v[GAMMA];
  *scale = in_norm_range(by);
  *offset = in_norm_range(-v[MEAN] * by + v[BETA]);
}

static weft_status_t *batch_norm(weft_kernel_ctx_t *c, const batch_norm_attrs_t *a) {
  const weft_tensor_t *x = weft_in(c, 0);
  weft_range_t range, ranges[NUM_PARTS];
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_range_of_one(c, 1, &range));
  WEFT_RETURN_IF_ERROR(check_parts(c, ranges));
  norm_run_t r = {.x = x->data, .channels = x->shape.dims[3], .one = in_norm_range(1)};
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_QINT32, &x->shape, &y));
  r.y = y->data;
  int32_t *lines = weft_malloc(2 * ((size_t)r.channels + 1) * sizeof *lines);
  if (lines == NULL) return WEFT_NO_MEMORY("the scales of channels");
  r.scale = lines;
  r.offset = lines + r.channels;
  for (int64_t k = 0; k < r.channels; k++) channel_line(c, a, ranges, k, lines + k, lines + r.channels + k);
  for (int v = 0; v <= UINT8_MAX; v++)
    r.of[v] = in_norm_range(weft_dequantize_exactly(WEFT_QUINT8, v, range));
  if (y->count > 0) {
    weft_parallel_for(c->device->pool, y->count / r.channels, WEFT_CPU_GRAIN / r.channels + 1, norm_rows, &r);
  }
  weft_free(lines);
  return weft_range_output(c, 1, norm_range);
}

/* ---- instance normalisation, in float ---- */

typedef struct moments {
  float mean, by; /* 1 / standard deviation */
} moments_t;

/* Of channel k of the pixels at x, in floats of `scale` a step. */
static moments_t moments_of(const uint8_t *x, int64_t pixels, int64_t channels, float scale, float epsilon) {
  float sum = 0, squares = 0;
  for (int64_t i = 0; i < pixels; i++) sum += (float)x[i * channels];
  const float mean = sum / (float)pixels;
  for (int64_t i = 0; i < pixels; i++) {
    const float d = scale * ((float)x[i * channels] - mean);
    squares += d * d;
  }
  return (moments_t){mean, 1.0f / sqrtf(squares / (float)pixels + epsilon)};
}

WEFT_ATTRS(instance_norm, (BOOL, output_range_given), (FLOAT, given_y_min), (FLOAT, given_y_max),
           (FLOAT, variance_epsilon), (FLOAT, min_separation))

/* Normalises each channel of each image; `normed` has room for all elements. */
static weft_range_t normalise(const weft_tensor_t *x, float scale, float epsilon, float *normed) {
  const int64_t channels = x->shape.dims[3], pixels = weft_cpu_product(&x->shape, 1, 3);
  weft_range_t found = {FLT_MAX, -FLT_MAX};
  for (int64_t n = 0; x->count > 0 && n < x->shape.dims[0]; n++) {
    for (int64_t k = 0; k < channels; k++) {
      const int64_t at = n * pixels * channels + k;
      const uint8_t *v = (const uint8_t *)x->data + at;
      const moments_t m = moments_of(v, pixels, channels, scale, epsilon);
      for (int64_t i = 0; i < pixels; i++) {
        const float y = scale * ((float)v[i * channels] - m.mean) * m.by;
        normed[at + i * channels] = y;
        found.min = y < found.min ? y : found.min;
        found.max = y > found.max ? y : found.max;
      }
    }
  }
  return found;
}

static weft_status_t *instance_norm(weft_kernel_ctx_t *c, const instance_norm_attrs_t *a) {
  const weft_tensor_t *x = weft_in(c, 0);
  weft_range_t range;
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 1, &range));
  if (!(range.min < range.max)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input_min must be less than input_max : %g >= %g", (double)range.min,
                      (double)range.max);
  }
  if (x->shape.rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "x must be 4-dimensional");
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_QUINT8, &x->shape, &y));
  float *normed = weft_malloc(((size_t)x->count + 1) * sizeof *normed);
  if (normed == NULL) return WEFT_NO_MEMORY("QuantizedInstanceNorm");
  weft_range_t out = normalise(x, (range.max - range.min) / 255.0f, a->variance_epsilon, normed);
  if (a->output_range_given) out = (weft_range_t){a->given_y_min, a->given_y_max};
  if (out.max - out.min < a->min_separation) out.max = out.min + a->min_separation;
  const weft_quant_t q = weft_quant_of(WEFT_QUINT8, out);
  for (int64_t i = 0; i < x->count; i++) ((uint8_t *)y->data)[i] = (uint8_t)weft_quantize(&q, normed[i]);
  weft_free(normed);
  return weft_range_output(c, 1, out);
}

static weft_status_t *instance_norm_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const float min = weft_knode_float(setup, "given_y_min"), max = weft_knode_float(setup, "given_y_max");
  if (weft_knode_bool(setup, "output_range_given") && !(min < max)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "given_y_min must be less than given_y_max : %g >= %g", (double)min,
                      (double)max);
  }
  return weft_attrs_prepare(setup, out_state);
}

#define QUINT8 WEFT_DTYPE_BIT(WEFT_QUINT8)
const weft_kernel_t weft_cpu_quantize_norm_kernels[] = {
    {.op = "QuantizedBatchNormWithGlobalNormalization",
     .type_attr = "Tinput",
     .types = QUINT8,
     .type_attr2 = "out_type",
     .types2 = WEFT_DTYPE_BIT(WEFT_QINT32),
     WEFT_COMPUTE(batch_norm)},
    {.op = "QuantizedInstanceNorm",
     .type_attr = "T",
     .types = QUINT8,
     WEFT_COMPUTE_CHECKED(instance_norm, instance_norm_prepare)},
    {0},
};
