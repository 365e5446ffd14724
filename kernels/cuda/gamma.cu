/* kernels/cuda/gamma.cu - samples of gamma distributions: those of kernels/cpu/random/random_gamma.c.
 *
 * Source: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), section 6 for alpha
 * below 1. A group of numbers is used from its last to its first, as in TensorFlow.
 */
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* Normal and uniform numbers of one generator, each in groups of their own. */
struct gamma_numbers {
  philox_at generator;
  double normals[2], uniforms[2];
  int normals_left, uniforms_left;
};

WEFT_FN double next_normal(gamma_numbers &s) {
  if (s.normals_left == 0) {
    uint32_t x[4];
    next_block(s.generator, x);
    normal(x, s.normals);
    s.normals_left = 2;
  }
  return s.normals[--s.normals_left];
}

WEFT_FN double next_uniform(gamma_numbers &s) {
  if (s.uniforms_left == 0) {
    uint32_t x[4];
    next_block(s.generator, x);
    for (int i = 0; i < 2; i++) s.uniforms[i] = uniform_double(x[2 * i], x[2 * i + 1]);
    s.uniforms_left = 2;
  }
  return s.uniforms[--s.uniforms_left];
}

WEFT_CALLED_FN double by_rejection(double alpha, gamma_numbers &s) {
  const bool is_small = alpha < 1; /* then one more, and a factor in the end */
  const double d = alpha + (is_small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
  if (!(d >= 0)) return (double)NAN; /* no such distribution */
  for (;;) {
    const double x = next_normal(s);
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = next_uniform(s);
    if (u < 1 - 0.0331 * (x * x) * (x * x) || log(u) < 0.5 * x * x + d * (1 - v + log(v)))
      return is_small ? d * v * pow(next_uniform(s), 1 / alpha) : d * v;
  }
}

/* y [samples, sets]: sample s of set p is number p * samples + s. */
template <class T>
WEFT_FN void gammas(const T *alphas, T *y, int64_t samples, int64_t sets, const philox_at &start) {
  for (int64_t number = first_index(); number < samples * sets; number += index_step()) {
    const int64_t set = number / samples, sample = number - set * samples;
    const double alpha = load(alphas[set]);
    gamma_numbers s = {start, {0, 0}, {0, 0}, 0, 0};
    skip(s.generator, (uint64_t)number * 256);
    const double v = alpha == 1 ? -log1p(-next_uniform(s)) : by_rejection(alpha, s);
    store(&y[sample * sets + set], (comp_t<T>)v);
  }
}

}  // namespace weft

#define GAMMA(f, type)                                                                             \
  WEFT_CUDA_KERNEL(weft_gamma_##type, (const weft::type *alphas, weft::type *y, int64_t samples,   \
                                       int64_t sets, uint64_t key, uint64_t low, uint64_t high)) { \
    weft::gammas(alphas, y, samples, sets, weft::generator(key, low, high));                       \
  }
WEFT_CUDA_F32_F64_F16(GAMMA, )
