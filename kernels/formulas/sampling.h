/* kernels/formulas/sampling.h - resampling of a line of pixels by a kernel, for C and for CUDA's C++: which
 * pixels of the line each pixel of the result is made of, and with what weights.
 *
 * Pixel i of the result lies at (i + 0.5 - translation) / scale in the line. Where that is outside, the
 * result is 0. A result that is smaller than the line has, with antialias, a kernel that is wider by as much.
 *
 * The includer has <stdint.h>, <float.h> and <math.h>, and gives, before this header, WEFT_FORMULA: how a
 * function is declared, and WEFT_PRODUCT(a, b): a product of floats that is rounded before anything is added
 * to it. Which pixels a result is made of depends on that.
 *
 * Source: TensorFlow's ScaleAndTranslate.
 */
#ifndef WEFT_KERNELS_FORMULAS_SAMPLING_H_
#define WEFT_KERNELS_FORMULAS_SAMPLING_H_

#include "kernels/formulas/pixel.h"

/* ---- kernels: of the distance x from a pixel. All are 0 from their radius on. ---- */

typedef enum weft_sampling_kind {
  WEFT_SAMPLING_LANCZOS1,
  WEFT_SAMPLING_LANCZOS3,
  WEFT_SAMPLING_LANCZOS5,
  WEFT_SAMPLING_GAUSSIAN,
  WEFT_SAMPLING_BOX,
  WEFT_SAMPLING_TRIANGLE,
  WEFT_SAMPLING_KEYS,
  WEFT_SAMPLING_MITCHELL,
  WEFT_NUM_SAMPLINGS
} weft_sampling_kind_t;

/* The value of the attribute `kernel_type`, in small or capital letters. */
WEFT_FORMULA const char *weft_sampling_name(int kind) {
  switch (kind) {
    case WEFT_SAMPLING_LANCZOS1: return "lanczos1";
    case WEFT_SAMPLING_LANCZOS3: return "lanczos3";
    case WEFT_SAMPLING_LANCZOS5: return "lanczos5";
    case WEFT_SAMPLING_GAUSSIAN: return "gaussian";
    case WEFT_SAMPLING_BOX: return "box";
    case WEFT_SAMPLING_TRIANGLE: return "triangle";
    case WEFT_SAMPLING_KEYS: return "keyscubic";
    default: return "mitchellcubic";
  }
}

WEFT_FORMULA float weft_sampling_radius(int kind) {
  switch (kind) {
    case WEFT_SAMPLING_LANCZOS3: return 3;
    case WEFT_SAMPLING_LANCZOS5: return 5;
    case WEFT_SAMPLING_GAUSSIAN: return 1.5F;
    case WEFT_SAMPLING_KEYS:
    case WEFT_SAMPLING_MITCHELL: return 2;
    default: return 1;
  }
}

/* Sinc windowed by sinc; source: Lanczos. */
WEFT_FORMULA float weft_sampling_lanczos(float x, float radius) {
  const float pi = 3.14159265359F;
  if (x > radius) return 0;
  if (x <= 1e-3) return 1;
  return radius * sinf(pi * x) * sinf(pi * x / radius) / (pi * pi * x * x);
}

/* Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981). */
WEFT_FORMULA float weft_sampling_keys(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return ((-0.5F * x + 2.5F) * x - 4.0F) * x + 2.0F;
  return ((1.5F * x - 2.5F) * x) * x + 1.0F;
}

/* Mitchell and Netravali, "Reconstruction Filters in Computer Graphics" (1988). */
WEFT_FORMULA float weft_sampling_mitchell(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return (((-7.0F / 18.0F) * x + 2.0F) * x - 10.0F / 3.0F) * x + 16.0F / 9.0F;
  return (((7.0F / 6.0F) * x - 2.0F) * x) * x + 8.0F / 9.0F;
}

WEFT_FORMULA float weft_sampling_at(int kind, float x) {
  switch (kind) {
    /* A deviation of 0.5: Turkowski, "Filters for Common Resampling Tasks" (1990). */
    case WEFT_SAMPLING_GAUSSIAN: return x >= 1.5F ? 0 : (float)exp(-x * x / (2.0 * 0.5 * 0.5));
    case WEFT_SAMPLING_BOX: return x < 0.5F ? 1 : x == 0.5F ? 0.5F : 0;
    case WEFT_SAMPLING_TRIANGLE: return x < 1 ? 1 - x : 0;
    case WEFT_SAMPLING_KEYS: return weft_sampling_keys(x);
    case WEFT_SAMPLING_MITCHELL: return weft_sampling_mitchell(x);
    default: return weft_sampling_lanczos(x, weft_sampling_radius(kind));
  }
}

/* ---- spans ---- */

/* Of a line of `in` pixels `out` are made. */
typedef struct weft_sampling {
  int64_t in, out;
  int64_t size; /* pixels that one of the result is made of, at most */
  float inverse, shift, reach, shrink;
  int32_t kind;
} weft_sampling_t;

/* Pixels [start, end) of the line; none: the result is 0. end - start may be larger than `size` where floats
 * are too coarse for such lines: this is refused. */
typedef struct weft_sampling_span {
  int64_t start, end;
  float at;
} weft_sampling_span_t;

/* scale is above 0. */
WEFT_FORMULA weft_sampling_t weft_sampling_of(int kind, int antialias, int64_t in, int64_t out, float scale,
                                              float translation) {
  weft_sampling_t s;
  s.in = in;
  s.out = out;
  s.kind = kind;
  s.inverse = (float)(1.0 / (double)scale);
  s.shift = -s.inverse * translation;
  const float stretch = !antialias || s.inverse < 1 ? 1 : s.inverse;
  s.reach = weft_sampling_radius(kind) * stretch;
  s.shrink = 1.0F / stretch;
  const int64_t whole = weft_pixel_index(ceilf(s.reach));
  s.size = whole >= 0 && whole <= INT32_MAX / 2 - 1 ? 2 * whole + 1 : 1;
  if (s.size > in) s.size = in;
  return s;
}

WEFT_FORMULA int64_t weft_sampling_index(float at, int64_t in) {
  const int64_t i = weft_pixel_index(at);
  return i >= in ? in - 1 : i < 0 ? 0 : i;
}

WEFT_FORMULA weft_sampling_span_t weft_sampling_span(const weft_sampling_t *s, int64_t i) {
  weft_sampling_span_t span;
  span.at = WEFT_PRODUCT((float)i + 0.5F, s->inverse) + s->shift;
  span.start = span.end = 0;
  if (span.at < 0 || span.at > (float)s->in) return span;
  span.start = weft_sampling_index(ceilf(span.at - s->reach - 0.5F), s->in);
  span.end = weft_sampling_index(floorf(span.at + s->reach - 0.5F), s->in) + 1;
  return span;
}

/* The weights of a span's pixels, of which there are no more than `size`. */
WEFT_FORMULA void weft_sampling_weigh(const weft_sampling_t *s, const weft_sampling_span_t *span, float *w) {
  const int64_t n = span->end - span->start;
  float total = 0;
  for (int64_t j = 0; j < n; j++) {
    w[j] = weft_sampling_at(s->kind, fabsf(((float)(span->start + j) + 0.5F - span->at) * s->shrink));
    total += w[j];
  }
  const float by = fabsf(total) >= 1000.0F * FLT_MIN ? 1.0F / total : 0;
  for (int64_t j = 0; j < n; j++) w[j] = by == 0 ? 0 : w[j] * by;
}

#endif /* WEFT_KERNELS_FORMULAS_SAMPLING_H_ */
