/* kernels/cpu/audio/fixed_fft.c - decimation in time by four, at the end by two; each stage divides by its
 * radix first, so that nothing overflows. Numbers are fractions of 2^15. A real transform is a complex one of
 * half the length, of pairs of neighbours, whose two halves are taken apart. */
#include "kernels/cpu/audio/fixed_fft.h"

#include <math.h>

#include "base/alloc.h"

#define PI 3.14159265358979323846264338327

typedef weft_fixed_complex_t point_t;

static int16_t rounded(int32_t x) { return (int16_t)((x + (1 << 14)) >> 15); }
static int16_t part(int16_t x, int n) { return rounded(x * (INT16_MAX / n)); } /* x / n */
static point_t divided(point_t a, int n) { return (point_t){part(a.re, n), part(a.im, n)}; }
static point_t plus(point_t a, point_t b) {
  return (point_t){(int16_t)(a.re + b.re), (int16_t)(a.im + b.im)};
}
static point_t minus(point_t a, point_t b) {
  return (point_t){(int16_t)(a.re - b.re), (int16_t)(a.im - b.im)};
}
/* The sum of two products wraps where both are as large as they get. */
static point_t times(point_t a, point_t b) {
  return (point_t){rounded((int32_t)((uint32_t)(a.re * b.re) - (uint32_t)(a.im * b.im))),
                   rounded((int32_t)((uint32_t)(a.re * b.im) + (uint32_t)(a.im * b.re)))};
}
static point_t turn(double phase) {
  return (point_t){(int16_t)floor(0.5 + INT16_MAX * cos(phase)),
                   (int16_t)floor(0.5 + INT16_MAX * sin(phase))};
}

weft_status_t *weft_fixed_fft_init(weft_fixed_fft_t *t, int64_t length) {
  const int64_t half = length / 2;
  *t = (weft_fixed_fft_t){.half = half};
  t->turns = weft_calloc((size_t)(3 * half), sizeof *t->turns);
  if (t->turns == NULL) return WEFT_NO_MEMORY("a transform of %lld numbers", (long long)length);
  t->half_turns = t->turns + half;
  t->work = t->half_turns + half;
  for (int64_t i = 0; i < half; i++) t->turns[i] = turn(-2 * PI * (double)i / (double)half);
  for (int64_t i = 0; i < half / 2; i++)
    t->half_turns[i] = turn(-PI * ((double)(i + 1) / (double)half + 0.5));
  return NULL;
}

void weft_fixed_fft_deinit(weft_fixed_fft_t *t) { weft_free(t->turns); }

static void by_two(const weft_fixed_fft_t *t, point_t *out, int64_t stride, int64_t m) {
  for (int64_t k = 0; k < m; k++) {
    const point_t a = divided(out[k], 2), b = times(divided(out[k + m], 2), t->turns[k * stride]);
    out[k + m] = minus(a, b);
    out[k] = plus(a, b);
  }
}

static void by_four(const weft_fixed_fft_t *t, point_t *out, int64_t stride, int64_t m) {
  for (int64_t k = 0; k < m; k++) {
    const point_t a = divided(out[k], 4);
    const point_t b = times(divided(out[k + m], 4), t->turns[k * stride]);
    const point_t c = times(divided(out[k + 2 * m], 4), t->turns[2 * k * stride]);
    const point_t d = times(divided(out[k + 3 * m], 4), t->turns[3 * k * stride]);
    const point_t odd = minus(a, c), even = plus(a, c), sum = plus(b, d), difference = minus(b, d);
    const point_t rotated = {difference.im, (int16_t)-difference.re};
    out[k + 2 * m] = minus(even, sum);
    out[k] = plus(even, sum);
    out[k + m] = plus(odd, rotated);
    out[k + 3 * m] = minus(odd, rotated);
  }
}

/* The transform of the n numbers in[0], in[stride], ... */
static void transform(const weft_fixed_fft_t *t, const point_t *in, int64_t stride, int64_t n, point_t *out) {
  const int radix = n % 4 == 0 ? 4 : 2;
  const int64_t m = n / radix;
  if (n == 1) { /* a stage of nothing, which Kiss FFT has all the same */
    *out = t->half == 1 ? divided(*in, 1) : *in;
    return;
  }
  for (int i = 0; i < radix; i++) transform(t, in + i * stride, stride * radix, m, out + i * m);
  if (radix == 4) by_four(t, out, stride, m);
  if (radix == 2) by_two(t, out, stride, m);
}

void weft_fixed_fft_real(weft_fixed_fft_t *t, const int16_t *in, weft_fixed_complex_t *out) {
  const int64_t n = t->half;
  for (int64_t i = 0; i < n; i++) out[i] = (point_t){in[2 * i], in[2 * i + 1]};
  transform(t, out, 1, n, t->work);
  const point_t first = divided(t->work[0], 2);
  out[0] = (point_t){(int16_t)(first.re + first.im), 0};
  out[n] = (point_t){(int16_t)(first.re - first.im), 0};
  for (int64_t k = 1; k <= n / 2; k++) {
    const point_t mirrored = {t->work[n - k].re, (int16_t)-t->work[n - k].im};
    const point_t a = divided(t->work[k], 2), b = divided(mirrored, 2);
    const point_t sum = plus(a, b), turned = times(minus(a, b), t->half_turns[k - 1]);
    out[k] = (point_t){(int16_t)((sum.re + turned.re) >> 1), (int16_t)((sum.im + turned.im) >> 1)};
    out[n - k] = (point_t){(int16_t)((sum.re - turned.re) >> 1), (int16_t)((turned.im - sum.im) >> 1)};
  }
}
