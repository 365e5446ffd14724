/* kernels/cuda/truncated.cu - samples of normal distributions with any bounds.
 *
 * Source: Robert, "Simulation of truncated normal variables" (1995): by the bounds one rejects from the
 * normal distribution, from the uniform one, or from an exponential one, as TensorFlow and
 * kernels/cpu/random/random_truncated.c do. There a thread's piece of the samples goes on in the numbers of
 * its first sample; here each sample has numbers of its own, those of a piece that begins with it. half is
 * computed in float.
 */
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/truncated_args.h"
#include "kernels/cuda/types.h"
#include "kernels/cuda/walk.cuh"

namespace weft {

enum { TRUNCATED_TRIES = 1000 };

template <class C>
struct truncated_bounds {
  C low, high; /* normalised */
};

/* A group of uniform numbers. */
WEFT_FN void uniform(const uint32_t (&x)[4], float (&to)[4]) {
  for (int i = 0; i < 4; i++) to[i] = uniform_float(x[i]);
}
WEFT_FN void uniform(const uint32_t (&x)[4], double (&to)[2]) {
  for (int i = 0; i < 2; i++) to[i] = uniform_double(x[2 * i], x[2 * i + 1]);
}
template <class C>
struct truncated_group {
  static const int size = sizeof(C) == 8 ? 2 : 4;
};

/* The samplers: 0, or what has failed. */
template <class C>
WEFT_FN int by_normal(const truncated_bounds<C> &b, philox_at &g, C *out) {
  const int n = truncated_group<C>::size;
  for (int tries = 0;;) {
    uint32_t words[4];
    C x[n];
    next_block(g, words);
    normal(words, x);
    for (int i = 0; i < n; i++) {
      *out = x[i];
      if (x[i] >= b.low && x[i] <= b.high) return 0;
      if (++tries > TRUNCATED_TRIES) return WEFT_CUDA_TRUNCATED_NORMAL;
    }
  }
}

template <class C>
WEFT_FN int by_uniform(const truncated_bounds<C> &b, C width, philox_at &g, C *out) {
  const int n = truncated_group<C>::size;
  const C plus = b.low < 0 ? 0 : b.low * b.low;
  for (int tries = 0;;) {
    uint32_t words[4];
    C x[n], u[n];
    next_block(g, words);
    uniform(words, x);
    next_block(g, words);
    uniform(words, u);
    for (int i = 0; i < n; i++) {
      *out = multiplied(x[i], width) + b.low;
      if ((double)u[i] <= exp((double)((plus - multiplied(*out, *out)) / 2))) return 0;
      if (++tries >= TRUNCATED_TRIES) return WEFT_CUDA_TRUNCATED_UNIFORM;
    }
  }
}

template <class C>
WEFT_FN int by_exponential(const truncated_bounds<C> &b, philox_at &g, C *out) {
  const int n = truncated_group<C>::size;
  const C alpha = (b.low + (C)sqrt((double)(multiplied(b.low, b.low) + 4))) / 2;
  for (int tries = 0;;) {
    uint32_t words[4];
    C u[n];
    next_block(g, words);
    uniform(words, u);
    for (int i = 0; i < n; i += 2) {
      *out = (C)(-log((double)u[i])) / alpha + b.low;
      const C x = b.low < alpha ? alpha - *out : b.low - alpha;
      if ((double)u[i + 1] <= exp((double)(-multiplied(x, x) / 2)) && *out < b.high) return 0;
      if (++tries >= TRUNCATED_TRIES) return WEFT_CUDA_TRUNCATED_EXPONENTIAL;
    }
  }
}

/* Parameters: mean, deviation, minimum, maximum. */
template <class C>
WEFT_CALLED_FN int truncated(const C (&of)[4], philox_at &g, C *out) {
  C mean = of[0], deviation = of[1], min = of[2], max = of[3];
  if (!(deviation > 0 && min < max && (isfinite(min) || isfinite(max))))
    return WEFT_CUDA_TRUNCATED_PARAMETERS;
  if ((isinf(min) && min < 0) || max < mean) { /* mirrored, so that a single bound is the lower one */
    const C lower = min;
    min = max;
    max = lower;
    deviation = -deviation;
  }
  const truncated_bounds<C> b = {(min - mean) / deviation, (max - mean) / deviation};
  const C inside = (C)1.3;
  int failed = 0;
  if ((b.low < -inside && b.high >= 0) || (b.high > inside && b.low <= 0)) {
    failed = by_normal(b, g, out);
  } else {
    const C root = (C)sqrt((double)(multiplied(b.low, b.low) + 4)), width = b.high - b.low,
            power = (C)0.5 + multiplied(b.low, b.low - root) / 4,
            cutoff = 2 * (C)exp((double)power) / (b.low + root);
    failed = width < cutoff ? by_uniform(b, width, g, out) : by_exponential(b, g, out);
  }
  *out = multiplied(*out, deviation) + mean;
  return failed;
}

/* y [samples, sets]: sample s of set p is number p * samples + s. `w` has the elements of y, and where each
 * parameter of it lies. */
template <class T>
WEFT_FN void truncateds(const weft_cuda_truncated_t &p, T *y, int64_t sets, int32_t *failed, philox_at start,
                        const weft_cuda_walk_t &w) {
  typedef comp_t<T> C;
  const uint64_t group = truncated_group<C>::size;
  for (int64_t i = first_index(); i < w.n; i += index_step()) {
    int64_t at[4];
    const uint64_t number = (uint64_t)(i % sets * (w.n / sets) + i / sets);
    C parameters[4], v = 0;
    locate<4>(w, i, at);
    for (int k = 0; k < 4; k++) parameters[k] = load(((const T *)p.at[k])[at[k]]);
    philox_at g = start;
    skip(g, (number * 2 * TRUNCATED_TRIES + group - 1) / group);
    const int code = truncated<C>(parameters, g, &v);
    if (code != 0) atomicMax(failed, code);
    store(&y[i], v);
  }
}

}  // namespace weft

#define TRUNCATED(f, type)                                                                                 \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                                      \
                   (weft_cuda_truncated_t p, weft::type * y, int64_t sets, int32_t * failed, uint64_t key, \
                    uint64_t low, uint64_t high, weft_cuda_walk_t w)) {                                    \
    weft::truncateds<weft::type>(p, y, sets, failed, weft::generator(key, low, high), w);                  \
  }
WEFT_CUDA_F32_F64_F16(TRUNCATED, truncated)
