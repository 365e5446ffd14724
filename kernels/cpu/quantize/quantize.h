/* kernels/cpu/quantize/quantize.h - numbers for which integers of 8, 16 or 32 bits stand.
 *
 * A quantised tensor is integers and a range: its lowest integer stands for the range's minimum, its highest
 * for the maximum. Zero need not be an integer; the functions here move the minimum by less than a step so
 * that it is. Rounding is TensorFlow's step by step (quantization_utils.h), for one step is one integer in
 * the result.
 */
#ifndef WEFT_KERNELS_CPU_QUANTIZE_QUANTIZE_H_
#define WEFT_KERNELS_CPU_QUANTIZE_QUANTIZE_H_

#include <float.h>
#include <math.h>

#include "kernels/cpu/loops/cast.h"

typedef struct weft_range {
  float min, max;
} weft_range_t;

/* The integers of a quantised type. */
int64_t weft_quant_lowest(int dtype);
int64_t weft_quant_highest(int dtype);

/* Element i of a quantised tensor. */
int32_t weft_quant_at(const weft_tensor_t *t, int64_t i);
/* Sets element i to the low bits of `value`. */
void weft_quant_set(weft_tensor_t *t, int64_t i, int32_t value);

/* Integers to floats: base + scale * integer. */
typedef struct weft_dequant {
  float base, scale;
} weft_dequant_t;
weft_dequant_t weft_dequant_of(int dtype, weft_range_t r);
static inline float weft_dequantize(const weft_dequant_t *d, int32_t v) {
  return d->base + (float)v * d->scale;
}

/* Floats to integers within the type's bounds. */
typedef struct weft_quant {
  float scale, offset, low, high;
} weft_quant_t;
weft_quant_t weft_quant_of(int dtype, weft_range_t r);
static inline int32_t weft_quantize(const weft_quant_t *q, float v) {
  float f = roundf(v * q->scale) - q->offset;
  f = f < q->low ? q->low : f;
  return (int32_t)(q->high < f ? q->high : f);
}

/* One number, worked out in double: differs from the two above by rounding. */
float weft_dequantize_exactly(int dtype, int32_t v, weft_range_t r);
int64_t weft_quantize_unclamped(int dtype, float v, weft_range_t r);
int32_t weft_quantize_exactly(int dtype, float v, weft_range_t r);

/* The range of qint32 sums of products of integers of ranges a and b. */
weft_range_t weft_product_range(int dtype_a, weft_range_t a, int dtype_b, weft_range_t b);

/* Integers of one type and range as those of another, `out`, of the same shape. qint32 goes to quint8 in
 * fixed point. Uses the device's threads. */
void weft_requantize(const weft_kernel_ctx_t *ctx, const weft_tensor_t *in, weft_range_t in_range,
                     weft_tensor_t *out, weft_range_t out_range);

/* float as x86 converts it to int32: what does not fit, and NaN, is the lowest integer. */
static inline int32_t weft_float_to_i32(float v) {
  return v >= -2147483648.0f && v < 2147483648.0f ? (int32_t)v : INT32_MIN;
}

/* Input i, a float scalar. Errors: INVALID_ARGUMENT "`min_x` must be rank 0 but is rank 1". */
WEFT_MUST_CHECK weft_status_t *weft_float_input(const weft_kernel_ctx_t *ctx, int i, float *out);
/* The range in inputs i and i+1. */
WEFT_MUST_CHECK weft_status_t *weft_range_input(const weft_kernel_ctx_t *ctx, int i, weft_range_t *out);
/* The same of tensors of one element, whatever their rank. */
WEFT_MUST_CHECK weft_status_t *weft_range_of_one(const weft_kernel_ctx_t *ctx, int i, weft_range_t *out);
/* Outputs i and i+1. */
WEFT_MUST_CHECK weft_status_t *weft_range_output(weft_kernel_ctx_t *ctx, int i, weft_range_t r);

#endif /* WEFT_KERNELS_CPU_QUANTIZE_QUANTIZE_H_ */
