/* kernels/cpu/loops/vector_math.h - exp, log, erf, tanh and the like for float, written so that a compiler
 * can vectorise a loop over them: no calls, no branches, no tables. Relative error below 2e-7, over all
 * floats.
 *
 * weft_exp_<suffix> and so on exist for every suffix of each_dtype.tmpl.h: half types compute in float,
 * double and complex go to the C library. Source: range reduction and polynomials after S. Moshier, "Methods
 * and Programs for Mathematical Functions" (1989), chapters 2 and 3; except that a power of two is applied in
 * two steps, so that subnormal results come out, too.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_VECTOR_MATH_H_
#define WEFT_KERNELS_CPU_LOOPS_VECTOR_MATH_H_

#include <complex.h>
#include <math.h>
#include <stdint.h>

#include "kernels/cpu/loops/libm_vectors.h"

typedef union weft_float_bits {
  float f;
  uint32_t u;
} weft_float_bits_t;

/* a * b + c, rounded once on the levels that have an instruction for it. */
static inline float weft_madd_f32(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/* e^v / 2^n, for `whole` = n, the integer next to v / ln 2. */
static inline float weft_exp_reduced_f32(float v, float whole) {
  const float r = weft_madd_f32(whole, 2.12194440e-4f, weft_madd_f32(whole, -0.693359375f, v));
  float p = 1.9875691500e-4f;
  p = weft_madd_f32(p, r, 1.3981999507e-3f);
  p = weft_madd_f32(p, r, 8.3334519073e-3f);
  p = weft_madd_f32(p, r, 4.1665795894e-2f);
  p = weft_madd_f32(p, r, 1.6666665459e-1f);
  p = weft_madd_f32(p, r, 5.0000001201e-1f);
  return weft_madd_f32(p * r, r, r) + 1.0f;
}

static inline float weft_exp_f32(float x) {
  /* Below this the result is 0; a NaN passes. The limit on the other side is applied to the result: two
   * limits one after the other are four comparisons to a compiler, and this a maximum and one. */
  const float v = x < -104.0f ? -104.0f : x;
  /* n = round(v / ln 2): adding 1.5 * 2^23 leaves the integer in the low bits. */
  weft_float_bits_t shifted = {.f = weft_madd_f32(v, 1.44269504f, 12582912.0f)};
  const int32_t n = (int32_t)(shifted.u - 0x4b400000u);
  const float p = weft_exp_reduced_f32(v, shifted.f - 12582912.0f);
  const int32_t half = n >> 1;
  weft_float_bits_t a = {.u = (uint32_t)(half + 127) << 23}, b = {.u = (uint32_t)(n - half + 127) << 23};
  const float y = p * a.f * b.f;
  return x > 89.0f ? INFINITY : y;
}

/* The same, bit for bit, for x that is at most 0 or a NaN, in two thirds of the operations; of a positive x
 * it gives any number.
 *
 * The integer that is added has 127 + 63, too, so that the low bits shifted by 23 are the float 2^(n + 63),
 * which is never subnormal: n is at least -150. */
static inline float weft_exp_of_negative_f32(float x) {
  const float v = x < -104.0f ? -104.0f : x, shift = 12582912.0f + 190.0f;
  const weft_float_bits_t shifted = {.f = weft_madd_f32(v, 1.44269504f, shift)};
  const weft_float_bits_t power = {.u = shifted.u << 23};
  return weft_exp_reduced_f32(v, shifted.f - shift) * power.f * 0x1p-63f;
}

/* log(1 + f) + e * ln 2 for f in [sqrt(1/2) - 1, sqrt(2) - 1). */
static inline float weft_log_reduced_f32(float f, float e) {
  const float z = f * f;
  float p = 7.0376836292e-2f;
  p = weft_madd_f32(p, f, -1.1514610310e-1f);
  p = weft_madd_f32(p, f, 1.1676998740e-1f);
  p = weft_madd_f32(p, f, -1.2420140846e-1f);
  p = weft_madd_f32(p, f, 1.4249322787e-1f);
  p = weft_madd_f32(p, f, -1.6668057665e-1f);
  p = weft_madd_f32(p, f, 2.0000714765e-1f);
  p = weft_madd_f32(p, f, -2.4999993993e-1f);
  p = weft_madd_f32(p, f, 3.3333331174e-1f);
  p = p * f * z + e * -2.12194440e-4f - 0.5f * z;
  return f + p + e * 0.693359375f;
}

static inline float weft_log_f32(float x) {
  /* A subnormal is scaled up first. */
  const int is_small = x < 1.17549435e-38f;
  weft_float_bits_t v = {.f = is_small ? x * 8388608.0f : x};
  /* v = m * 2^e with m in [sqrt(1/2), sqrt(2)) */
  const uint32_t from_root = v.u - 0x3f3504f3u;
  const float e = (float)((int32_t)from_root >> 23) - (is_small ? 23.0f : 0.0f);
  weft_float_bits_t m = {.u = (from_root & 0x7fffffu) + 0x3f3504f3u};
  float y = weft_log_reduced_f32(m.f - 1.0f, e);
  y = x == 0.0f ? -INFINITY : y;
  y = x < 0.0f ? NAN : y;
  return x == INFINITY || x != x ? x : y;
}

/* Up to 0.93 a polynomial, further on 1 - exp of one: both computed, one chosen. Error below 2 ulp.
 * Source: minimax polynomials after N. Juffa's erff(), which have one range less than the C library's. */
static inline float weft_erf_f32(float x) {
  const float a = fabsf(x), z = x * x;
  float far = weft_madd_f32(-1.72853470e-5f, a, 3.83197126e-4f);
  far = weft_madd_f32(far, z, weft_madd_f32(-3.88396438e-3f, a, 2.42546219e-2f));
  far = weft_madd_f32(far, a, -1.06777877e-1f);
  far = weft_madd_f32(far, a, -6.34846687e-1f);
  far = weft_madd_f32(far, a, -1.28717512e-1f);
  far = 1.0f - weft_exp_of_negative_f32(weft_madd_f32(far, a, -a));
  float near = weft_madd_f32(-5.96761703e-4f, z, 4.99119423e-3f);
  near = weft_madd_f32(near, z, -2.67681349e-2f);
  near = weft_madd_f32(near, z, 1.12819925e-1f);
  near = weft_madd_f32(near, z, -3.76125336e-1f);
  near = weft_madd_f32(near, z, 1.28379166e-1f);
  return a > 0.927734375f ? copysignf(far, x) : x * (near + 1.0f); /* near * x may be subnormal */
}

#ifdef WEFT_LIBM_VECTORS
static inline float weft_tanh_f32(float x) { return (tanhf)(x); }
#else
static inline float weft_tanh_f32(float x) {
  const float a = fabsf(x), z = x * x;
  /* A polynomial near 0, where 1 - 2 / (e^2x + 1) would lose digits. */
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near_zero = p * z * x + x;
  const float far = 1.0f - 2.0f / (weft_exp_f32(2.0f * a) + 1.0f);
  const float y = a < 0.625f ? near_zero : copysignf(far, x);
  return x != x ? x : y;
}
#endif

/* One exponential that never overflows. */
static inline float weft_sigmoid_f32(float x) {
  const float e = weft_exp_of_negative_f32(-fabsf(x)), r = 1.0f / (1.0f + e);
  return x < 0.0f ? e * r : r;
}

/* log(1 + e^x) = max(x, 0) + log(1 + u) with u = e^-|x| in [0, 1]; 1 + u is halved where it is above sqrt(2),
 * and never formed. */
static inline float weft_softplus_f32(float x) {
  const float low = x > 0.0f ? x : 0.0f, u = weft_exp_of_negative_f32(-fabsf(x));
  const float f = u > 0.41421356f ? (u - 1.0f) * 0.5f : u, e = u > 0.41421356f ? 1.0f : 0.0f;
  return low + weft_log_reduced_f32(f, e);
}

/* The library's looks at the bits, and sees a denormal where an operation of the processor sees 0. */
static inline double weft_log_f64(double x) { return (log)(x + 0.0); }

static inline double weft_sigmoid_f64(double x) {
  const double e = exp(-fabs(x)), r = 1 / (1 + e);
  return x < 0 ? e * r : r;
}
static inline double weft_softplus_f64(double x) {
  return x != x ? x : (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

#define weft_exp_f16 weft_exp_f32
#define weft_exp_bf16 weft_exp_f32
#define weft_exp_f64 exp
#define weft_exp_of_negative_f16 weft_exp_of_negative_f32
#define weft_exp_of_negative_bf16 weft_exp_of_negative_f32
#define weft_exp_of_negative_f64 exp
#define weft_exp_c64 cexpf
#define weft_exp_c128 cexp
#define weft_log_f16 weft_log_f32
#define weft_log_bf16 weft_log_f32
#define weft_log_c64 clogf
#define weft_log_c128 clog
#define weft_erf_f16 weft_erf_f32
#define weft_erf_bf16 weft_erf_f32
#define weft_erf_f64 (erf)
#define weft_tanh_f16 weft_tanh_f32
#define weft_tanh_bf16 weft_tanh_f32
#define weft_tanh_f64 tanh
#define weft_tanh_c64 ctanhf
#define weft_tanh_c128 ctanh
#define weft_sigmoid_f16 weft_sigmoid_f32
#define weft_sigmoid_bf16 weft_sigmoid_f32
#define weft_softplus_f16 weft_softplus_f32
#define weft_softplus_bf16 weft_softplus_f32

#endif /* WEFT_KERNELS_CPU_LOOPS_VECTOR_MATH_H_ */
