/* kernels/cuda/scale.cu - ScaleAndTranslate and its gradient: resampling along one dimension.
 *
 * Pixel i of the result is made of `size` pixels from starts[i] on, times weights[i * size ...]. The gradient
 * is gathered: each pixel of the image adds up, in their order, what the pixels of the result give that it is
 * part of. As on the CPU (kernels/cpu/image/scale.c) all pixels of the image look at equally many of the
 * result, the most that one needs, so that what is not finite spreads as far.
 */
#include "kernels/cuda/scale_args.h"

namespace weft {

WEFT_FN void spans(int64_t *starts, float *weights, const weft_sampling_t &s) {
  for (int64_t i = first_index(); i < s.out; i += index_step()) {
    const weft_sampling_span_t span = weft_sampling_span(&s, i);
    float *w = weights + i * s.size;
    starts[i] = span.start;
    weft_sampling_weigh(&s, &span, w);
    for (int64_t j = span.end - span.start; j < s.size; j++) w[j] = 0;
  }
}

/* The place of the first pixel of the result whose span may reach `at`, or of the first behind those. */
WEFT_FN int64_t reached(const weft_sampling_t &s, double at, int64_t margin) {
  const double i = (at - (double)s.shift) / (double)s.inverse;
  const double place = floor(i + (margin < 0 ? -1e-6 : 1e-6) * fabs(i)) + (double)margin;
  return place < (double)s.out ? place > 0 ? (int64_t)place : 0 : s.out;
}

/* firsts[p]: the first pixel of the result that pixel p of the image is part of, 0 if there is none.
 * *most: how many there are from there to the last one, of that pixel that has the most of them. */
WEFT_FN void turned(const int64_t *starts, const float *weights, int64_t *firsts, int64_t *most,
                    const weft_sampling_t &s) {
  for (int64_t p = first_index(); p < s.in; p += index_step()) {
    int64_t begin = reached(s, (double)p + 0.5 - (double)s.reach, -2),
            end = reached(s, (double)p + 0.5 + (double)s.reach, 2), first = 0, behind = 0;
    if (!(s.inverse > 0 && s.reach < 1e9f)) begin = 0, end = s.out;
    for (int64_t i = begin; i < end; i++) {
      const int64_t j = p - starts[i];
      if (j < 0 || j >= s.size || weights[i * s.size + j] == 0) continue;
      if (behind == 0) first = i;
      behind = i + 1;
    }
    firsts[p] = first;
    if (behind > first) atomicMax((unsigned long long *)most, (unsigned long long)(behind - first));
  }
}

WEFT_FN void resample(const float *x, float *y, const int64_t *starts, const float *weights, int64_t size,
                      const weft_cuda_lines_t &l) {
  for (int64_t e = first_index(); e < l.count; e += index_step()) {
    const int64_t c = e % l.inner, i = e / l.inner % l.to, line = e / l.inner / l.to;
    const float *from = x + (line * l.from + starts[i]) * l.inner + c, *w = weights + i * size;
    const int64_t n = size < l.from - starts[i] ? size : l.from - starts[i];
    float sum = 0;
    for (int64_t k = 0; k < n; k++) sum += w[k] * from[k * l.inner];
    y[e] = sum;
  }
}

WEFT_FN void resample_grad(const float *dy, float *dx, const int64_t *starts, const float *weights,
                           int64_t size, const int64_t *firsts, const int64_t *most,
                           const weft_cuda_lines_t &l) {
  for (int64_t e = first_index(); e < l.count; e += index_step()) {
    const int64_t c = e % l.inner, p = e / l.inner % l.to, line = e / l.inner / l.to;
    const int64_t first = firsts[p], end = *most < l.from - first ? first + *most : l.from;
    float sum = 0;
    for (int64_t i = first; i < end; i++) {
      const int64_t j = p - starts[i];
      const float w = j >= 0 && j < size ? weights[i * size + j] : 0;
      sum += w * dy[(line * l.from + i) * l.inner + c];
    }
    dx[e] = sum;
  }
}

}  // namespace weft

WEFT_CUDA_KERNEL(weft_scale_spans, (int64_t * starts, float *weights, weft_sampling_t s)) {
  weft::spans(starts, weights, s);
}
WEFT_CUDA_KERNEL(weft_scale_turned, (const int64_t *starts, const float *weights, int64_t *firsts,
                                     int64_t *most, weft_sampling_t s)) {
  weft::turned(starts, weights, firsts, most, s);
}
WEFT_CUDA_KERNEL(weft_scale, (const float *x, float *y, const int64_t *starts, const float *weights,
                              int64_t size, weft_cuda_lines_t l)) {
  weft::resample(x, y, starts, weights, size, l);
}
WEFT_CUDA_KERNEL(weft_scale_grad,
                 (const float *dy, float *dx, const int64_t *starts, const float *weights, int64_t size,
                  const int64_t *firsts, const int64_t *most, weft_cuda_lines_t l)) {
  weft::resample_grad(dy, dx, starts, weights, size, firsts, most, l);
}
