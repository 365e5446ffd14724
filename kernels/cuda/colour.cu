/* kernels/cuda/colour.cu - RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrast, by the formulas
 * of the CPU's kernels (kernels/cpu/image/colour.c). A thread has a pixel of three channels. */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* ---- colour spaces; each step is rounded to the type ---- */

template <class T>
WEFT_FN comp_t<T> times(comp_t<T> a, comp_t<T> b) {
  return rounded<T>(multiplied(a, b));
}
template <class C>
WEFT_FN C larger(C a, C b) {
  return a < b ? b : a;
}
template <class C>
WEFT_FN C smaller(C a, C b) {
  return b < a ? b : a;
}

template <class T>
WEFT_FN void to_hsv(const T *x, T *y) {
  typedef comp_t<T> C;
  const C sixth = rounded<T>((C)1 / (C)6), third = rounded<T>((C)2 / (C)6),
          two_thirds = rounded<T>((C)4 / (C)6);
  const C r = load(x[0]), g = load(x[1]), b = load(x[2]);
  const C high = larger(larger(r, g), b), low = smaller(smaller(r, g), b);
  const C range = rounded<T>(high - low), norm = times<T>(rounded<T>((C)1 / range), sixth);
  C hue;
  if (r == high) {
    hue = times<T>(norm, rounded<T>(g - b));
  } else if (g == high) {
    hue = rounded<T>(times<T>(norm, rounded<T>(b - r)) + third);
  } else {
    hue = rounded<T>(times<T>(norm, rounded<T>(r - g)) + two_thirds);
  }
  if (!(range > 0)) hue = 0;
  store(&y[0], hue < 0 ? hue + 1 : hue);
  store(&y[1], high > 0 ? range / high : (C)0);
  store(&y[2], high);
}

template <class T>
WEFT_FN void to_rgb(const T *x, T *y) {
  typedef comp_t<T> C;
  const C s = load(x[1]), v = load(x[2]), six = times<T>(load(x[0]), (C)6), rest = rounded<T>(1 - s);
  const C part[3] = {rounded<T>(fabs(rounded<T>(six - 3)) - 1), rounded<T>(2 - fabs(rounded<T>(six - 2))),
                     rounded<T>(2 - fabs(rounded<T>(six - 4)))};
  for (int c = 0; c < 3; c++) {
    C at = part[c] < 0 ? (C)0 : part[c];
    at = at > 1 ? (C)1 : at;
    store(&y[c], multiplied(rounded<T>(rest + times<T>(s, at)), v));
  }
}

/* ---- hue: its place on the hexagon of colours, 0 to 6, is moved on ---- */

const int HUES = 6;

/* The channels by size at each sixth of the hexagon. */
struct sixth_t {
  int high, middle, low;
};
WEFT_FN sixth_t hexagon(int sixth) {
  switch (sixth) {
    case 0: return sixth_t{0, 1, 2};
    case 1: return sixth_t{1, 0, 2};
    case 2: return sixth_t{1, 2, 0};
    case 3: return sixth_t{2, 1, 0};
    case 4: return sixth_t{2, 0, 1};
    default: return sixth_t{0, 2, 1};
  }
}
WEFT_FN int sixth_of(float r, float g, float b) {
  if (r < g) {
    if (b < r) return 1;
    return b > g ? 3 : 2;
  }
  if (b < g) return 0;
  return b > r ? 4 : 5;
}
WEFT_FN float channel(const float *p, int c) { return c == 0 ? p[0] : c == 1 ? p[1] : p[2]; }

/* `hue` in [0, 6); a NaN stays one. */
WEFT_FN float wrapped(float hue) {
  if (fabsf(hue) >= 16 * HUES) hue = fmodf(hue, (float)HUES);
  while (hue < 0) hue += HUES;
  while (hue >= HUES) hue -= HUES;
  return hue;
}

WEFT_FN void move_hue(const float *from, float *y, float by) {
  const float x[3] = {from[0], from[1], from[2]}; /* y may be the same pixel */
  float hue = 0;
  int sixth = sixth_of(x[0], x[1], x[2]);
  const sixth_t old = hexagon(sixth);
  const float high = channel(x, old.high), low = channel(x, old.low);
  if (high != low) {
    const float ratio = (channel(x, old.middle) - low) / (high - low);
    hue = (float)sixth + (sixth % 2 == 0 ? ratio : 1 - ratio);
  }
  hue = wrapped(hue + multiplied(by, (float)HUES));
  sixth = hue >= 0 && hue < HUES ? (int)hue : HUES - 1;
  float ratio = hue - (float)sixth;
  if (sixth % 2 != 0) ratio = 1 - ratio;
  const sixth_t now = hexagon(sixth);
  y[now.high] = high;
  y[now.middle] = low + multiplied(ratio, high - low);
  y[now.low] = low;
}

WEFT_FN void scale_saturation(const float *x, float *y, float by) {
  const float r = x[0], g = x[1], b = x[2];
  const float high = larger(r, larger(g, b)), range = high - smaller(r, smaller(g, b));
  const float norm = 1 / (6 * range), saturation = high > 0 ? range / high : 0;
  float hue;
  if (r == high) {
    hue = norm * (g - b);
  } else if (g == high) {
    hue = (float)((double)multiplied(norm, b - r) + 2.0 / 6.0);
  } else {
    hue = (float)((double)multiplied(norm, r - g) + 4.0 / 6.0);
  }
  if (range <= 0) hue = 0;
  if (hue < 0) hue += 1;
  const float chroma = smaller(1.0f, larger(0.0f, saturation * by)) * high, base = high - chroma;
  const float six = multiplied(hue, (float)HUES);
  const int sixth = six > -1 && six < HUES ? (int)six : HUES;
  const float even = six <= 0 ? six + 2 : fmodf(six, 2.0f), middle = multiplied(chroma, 1 - fabsf(even - 1));
  for (int c = 0; c < 3; c++) y[c] = base;
  if (sixth == HUES) return;
  const sixth_t now = hexagon(sixth);
  y[now.high] = chroma + base;
  y[now.middle] = middle + base;
}

}  // namespace weft

using namespace weft;

#define SPACE(f, type)                                                                            \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, type *y, int64_t pixels)) {                 \
    for (int64_t i = first_index(); i < pixels; i += index_step()) f<type>(x + 3 * i, y + 3 * i); \
  }
WEFT_CUDA_FLOAT(SPACE, to_hsv)
WEFT_CUDA_FLOAT(SPACE, to_rgb)
#define ADJUST(name, fn)                                                                             \
  WEFT_CUDA_KERNEL(name, (const float *x, const float *by, float *y, int64_t pixels)) {              \
    const float amount = *by;                                                                        \
    for (int64_t i = first_index(); i < pixels; i += index_step()) fn(x + 3 * i, y + 3 * i, amount); \
  }
ADJUST(weft_adjust_hue, move_hue)
ADJUST(weft_adjust_saturation, scale_saturation)

/* ---- contrast ---- */

/* means[image * channels + c]: of each channel; a block has one at a time. */
WEFT_CUDA_BLOCK_KERNEL(weft_contrast_means,
                       (const float *x, float *means, int64_t num, int64_t positions, int64_t channels)) {
  WEFT_CUDA_SHARED(double, sums, WEFT_CUDA_BLOCK);
  const int t = (int)threadIdx.x;
  for (int64_t k = blockIdx.x; k < num; k += gridDim.x) {
    const float *from = x + k / channels * positions * channels + k % channels;
    double sum = 0;
    for (int64_t i = t; i < positions; i += WEFT_CUDA_BLOCK) sum += (double)from[i * channels];
    sums[t] = sum;
    __syncthreads();
    for (int half = WEFT_CUDA_BLOCK / 2; half > 0; half /= 2) {
      if (t < half) sums[t] += sums[t + half];
      __syncthreads();
    }
    if (t == 0) means[k] = (float)(sums[0] / (double)positions);
    __syncthreads(); /* before the next one uses the memory */
  }
}

/* The distance of each channel from its mean is scaled. low and high bound the results, or are NULL. */
WEFT_CUDA_KERNEL(weft_contrast, (const float *x, const float *means, const float *by, const float *low,
                                 const float *high, float *y, int64_t size, int64_t channels, int64_t n)) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const float mean = means[i / size * channels + i % channels];
    float v = mean + multiplied(x[i] - mean, *by);
    if (low != nullptr) v = larger(smaller(v, *high), *low);
    y[i] = v;
  }
}
