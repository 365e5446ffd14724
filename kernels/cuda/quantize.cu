/* kernels/cuda/quantize.cu - floats rounded to what a quantised type could hold: FakeQuantWithMinMax...,
 * QuantizeAndDequantize and their gradients, by the formulas of the CPU's kernels
 * (kernels/cpu/quantize/fake_quant.c, simulate_one.tmpl.h).
 *
 * Products are rounded before anything is added to them: a step that is one apart is another result.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/quantize_args.h"
#include "kernels/cuda/types.h"

namespace weft {

/* ---- FakeQuant: steps of a range that is moved so that zero is among them ---- */

struct quant_steps {
  float low, high, size, per_unit, zero; /* zero: the number of the step that is 0 */
  int32_t is_none;
};

/* Integers from `first` to `last`. */
WEFT_FN quant_steps steps_of(float min, float max, float first, float last) {
  quant_steps s = {0, 0, 0, 0, 0, 1};
  if (min == 0 && max == 0) return s;
  s.is_none = 0;
  s.size = (max - min) / (last - first);
  s.per_unit = (last - first) / (max - min);
  float zero = first - min / s.size;
  zero = zero < first ? first : zero > last ? last : roundf(zero);
  if (!(zero >= first)) zero = 0; /* NaN */
  s.low = multiplied(first - zero, s.size);
  s.high = multiplied(last - zero, s.size);
  s.zero = floorf(multiplied(-s.low, s.per_unit) + 0.5f);
  return s;
}

/* `divides`: by the size of a step, where others multiply by the inverse. */
WEFT_FN float quantized(const quant_steps &s, float x, int divides) {
  x = s.high < x ? s.high : x;
  x = (x < s.low ? s.low : x) - s.low;
  x = divides != 0 ? x / s.size : multiplied(x, s.per_unit);
  return s.is_none != 0 ? 0.0f : multiplied(floorf(x - s.zero + 0.5f), s.size);
}

/* ---- two numbers of each channel: sums of what lies outside of the range, or the range itself ---- */

struct quant_pair {
  double low, high;
};

/* What x lies below its range gives to the gradient of min, what lies above to that of max. */
struct outside {
  const float *x, *dy;
  const quant_steps *steps;
  WEFT_FN quant_pair start() { return quant_pair{0, 0}; }
  WEFT_FN quant_pair join(quant_pair a, quant_pair b) { return quant_pair{a.low + b.low, a.high + b.high}; }
  __device__ quant_pair value(int64_t i, int64_t channel) const {
    const quant_steps s = steps[channel];
    if (s.is_none != 0) return start();
    return quant_pair{(double)(dy[i] * (x[i] < s.low ? 1.0f : 0.0f)),
                      (double)(dy[i] * (x[i] > s.high ? 1.0f : 0.0f))};
  }
};
/* The least and the largest; NaN is left out. */
template <class T>
struct range_of {
  const T *x;
  WEFT_FN quant_pair start() { return quant_pair{(double)highest_of<T>(), (double)lowest_of<T>()}; }
  WEFT_FN quant_pair join(quant_pair a, quant_pair b) {
    return quant_pair{b.low < a.low ? b.low : a.low, b.high > a.high ? b.high : a.high};
  }
  __device__ quant_pair value(int64_t i, int64_t) const {
    return join(start(), quant_pair{(double)x[i], (double)x[i]});
  }
};

/* parts[block y][channel] */
template <class F>
WEFT_FN void join_channels(const F &f, quant_pair *parts, const weft_cuda_channels_t &c) {
  WEFT_CUDA_SHARED(quant_pair, shared, WEFT_CUDA_BLOCK);
  const int t = (int)threadIdx.x, mine = t % c.width, sharer = t / c.width,
            sharers = WEFT_CUDA_BLOCK / c.width;
  const int64_t begin = (int64_t)blockIdx.y * c.part;
  const int64_t end = begin + c.part < c.items ? begin + c.part : c.items;
  for (int64_t first = (int64_t)blockIdx.x * c.width; first < c.channels;
       first += (int64_t)gridDim.x * c.width) {
    const int64_t channel = first + mine;
    quant_pair sum = F::start();
    if (channel < c.channels) {
      for (int64_t i = begin + sharer; i < end; i += sharers) {
        const int64_t outer = i / c.inner;
        sum =
            F::join(sum, f.value((outer * c.channels + channel) * c.inner + (i - outer * c.inner), channel));
      }
    }
    shared[t] = sum;
    __syncthreads();
    for (int half = sharers / 2; half > 0; half /= 2) {
      if (sharer < half) shared[t] = F::join(shared[t], shared[t + half * c.width]);
      __syncthreads();
    }
    if (sharer == 0 && channel < c.channels) parts[(int64_t)blockIdx.y * c.channels + channel] = shared[t];
    __syncthreads(); /* before the next channels use the memory */
  }
}

template <class F, class T>
WEFT_FN void join_parts(const quant_pair *parts, int64_t num_parts, T *low, T *high, int64_t channels) {
  for (int64_t k = first_index(); k < channels; k += index_step()) {
    quant_pair all = F::start();
    for (int64_t p = 0; p < num_parts; p++) all = F::join(all, parts[p * channels + k]);
    low[k] = (T)all.low;
    high[k] = (T)all.high;
  }
}

/* ---- QuantizeAndDequantize: zero stays where it is, and the grid is made wider ---- */

/* The scale at which the range fits in the integers; the side that does not decide is moved to where the
 * integers end. */
template <class T>
struct fitted_range {
  T min, max, scale, inverse;
};
template <class T>
WEFT_FN fitted_range<T> fitted(T min, T max, const weft_cuda_simulation_t &s) {
  const T lowest = (T)s.lowest, highest = (T)s.highest;
  const T by_min = lowest * min > 0 ? lowest / min : highest_of<T>();
  const T by_max = highest * max > 0 ? highest / max : highest_of<T>();
  fitted_range<T> r = {min, max, by_max, max / highest};
  if (by_min < by_max) {
    r.scale = by_min;
    r.inverse = min / lowest;
    r.max = multiplied(highest, r.inverse);
  } else {
    r.min = multiplied(lowest, r.inverse);
  }
  return r;
}

template <class T>
WEFT_FN void simulate(const T *x, const T *min, const T *max, T *y, const weft_cuda_simulation_t &s,
                      int64_t n) {
  const bool has_one = s.channels == 1;
  fitted_range<T> r = {0, 0, 0, 0};
  if (has_one) r = fitted(min[0], max[0], s);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t channel = i / s.inner % s.channels;
    if (!has_one) r = fitted(min[channel], max[channel], s);
    T v = x[i];
    if (s.is_range_given != 0) {
      v = r.max < v ? r.max : v;
      v = v < r.min ? r.min : v;
    }
    v = multiplied(v, r.scale);
    y[i] = multiplied(s.rounds_up != 0 ? floor(v + (T)0.5) : rint(v), r.inverse);
  }
}

}  // namespace weft

using namespace weft;

/* Of one range, low to high, where min is NULL. */
WEFT_CUDA_KERNEL(weft_quant_steps, (const float *min, const float *max, float low, float high, void *steps,
                                    float first, float last, int64_t n)) {
  for (int64_t k = first_index(); k < n; k += index_step()) {
    const bool is_one = min == nullptr;
    ((quant_steps *)steps)[k] = steps_of(is_one ? low : min[k], is_one ? high : max[k], first, last);
  }
}
WEFT_CUDA_KERNEL(weft_fake_quant, (const float *x, const void *steps, float *y, int64_t channels,
                                   int32_t divides, int64_t n)) {
  for (int64_t i = first_index(); i < n; i += index_step())
    y[i] = quantized(((const quant_steps *)steps)[i % channels], x[i], divides);
}
WEFT_CUDA_KERNEL(weft_fake_quant_grad, (const float *x, const float *dy, const void *steps, float *dx,
                                        int64_t channels, int64_t n)) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const quant_steps s = ((const quant_steps *)steps)[i % channels];
    const bool passes = s.is_none != 0 || (x[i] >= s.low && x[i] <= s.high);
    dx[i] = dy[i] * (passes ? 1.0f : 0.0f);
  }
}
WEFT_CUDA_BLOCK_KERNEL(weft_quant_outside, (const float *x, const float *dy, const void *steps, void *parts,
                                            weft_cuda_channels_t c)) {
  join_channels(outside{x, dy, (const quant_steps *)steps}, (quant_pair *)parts, c);
}
WEFT_CUDA_KERNEL(weft_quant_outside_join,
                 (const void *parts, int64_t num_parts, float *low, float *high, int64_t channels)) {
  join_parts<outside>((const quant_pair *)parts, num_parts, low, high, channels);
}

#define RANGE(f, type)                                                                                \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type, (const type *x, void *parts, weft_cuda_channels_t c)) {   \
    join_channels(range_of<type>{x}, (quant_pair *)parts, c);                                         \
  }                                                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_join_##type,                                                            \
                   (const void *parts, int64_t num_parts, type *low, type *high, int64_t channels)) { \
    join_parts<range_of<type>>((const quant_pair *)parts, num_parts, low, high, channels);            \
  }
WEFT_CUDA_F32_F64(RANGE, quant_range)
#define SIMULATE(f, type)                                                                                    \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, const type *min, const type *max, type *y,             \
                                       weft_cuda_simulation_t s, int64_t n)) {                               \
    simulate(x, min, max, y, s, n);                                                                          \
  }                                                                                                          \
  WEFT_CUDA_KERNEL(weft_##f##_grad_##type, (const type *x, const type *dy, const type *min, const type *max, \
                                            type *dx, int64_t channels, int64_t inner, int64_t n)) {         \
    for (int64_t i = first_index(); i < n; i += index_step()) {                                              \
      const int64_t k = i / inner % channels;                                                                \
      dx[i] = dy[i] * (type)(x[i] >= min[k] && x[i] <= max[k]);                                              \
    }                                                                                                        \
  }
WEFT_CUDA_F32_F64(SIMULATE, simulate)
