/* kernels/cpu/quantize/uniform.h - integers that stand for (integer - zero point) * scale.
 *
 * A tensor has one scale and zero point, or one for each slice along its quantisation axis.
 */
#ifndef WEFT_KERNELS_CPU_QUANTIZE_UNIFORM_H_
#define WEFT_KERNELS_CPU_QUANTIZE_UNIFORM_H_

#include "kernels/cpu/quantize/quantize.h"

/* Scales and zero points, in inputs i and i+1. */
typedef struct weft_scales {
  const weft_tensor_t *scales, *zeros;
  bool is_sliced;
} weft_scales_t;

static inline float weft_scale_at(const weft_scales_t *s, int64_t k) {
  return ((const float *)s->scales->data)[s->is_sliced ? k : 0];
}
static inline int32_t weft_zero_at(const weft_scales_t *s, int64_t k) {
  return ((const int32_t *)s->zeros->data)[s->is_sliced ? k : 0];
}

/* Reads inputs i and i+1, which fit a tensor of shape `data` and the axis: -1, or one of its dimensions.
 * Errors: INVALID_ARGUMENT in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_scales_input(const weft_kernel_ctx_t *ctx, int i,
                                                 const weft_shape_t *data, int64_t axis, weft_scales_t *out);
/* Errors: INVALID_ARGUMENT if a scale is not above 0. */
WEFT_MUST_CHECK weft_status_t *weft_scales_check(const weft_scales_t *s);

/* A positive factor in fixed point: multiplier * 2^(shift - 31). */
typedef struct weft_fixed_factor {
  int32_t multiplier;
  int shift;
} weft_fixed_factor_t;
/* Errors: INVALID_ARGUMENT if the factor is not positive and finite. */
WEFT_MUST_CHECK weft_status_t *weft_fixed_factor_of(double factor, weft_fixed_factor_t *out);
static inline int32_t weft_fixed_multiply(int32_t x, weft_fixed_factor_t f) {
  const int shift = 31 - f.shift;
  const int64_t v = ((int64_t)x * f.multiplier + (INT64_C(1) << (shift - 1))) >> shift;
  return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

/* The integers that a result may have, from the attributes. */
static inline int32_t weft_clamp_i32(int32_t v, int64_t low, int64_t high) {
  const int64_t least = v < high ? v : high;
  return (int32_t)(least < low ? low : least);
}

/* Element i as TensorFlow converts it: a qint32 goes by way of float. */
static inline int32_t weft_uniform_at(const weft_tensor_t *t, int64_t i) {
  return t->dtype == WEFT_QINT8 ? ((const int8_t *)t->data)[i]
                                : weft_float_to_i32((float)((const int32_t *)t->data)[i]);
}

#endif /* WEFT_KERNELS_CPU_QUANTIZE_UNIFORM_H_ */
