/* kernels/cuda/norm_global.cu - the first form of batch normalisation, whose statistics are inputs, and its
 * gradient. Formulas as kernels/cpu/nn/batch_norm_global_one.tmpl.h. */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/types.h"

namespace weft {

template <class T>
WEFT_FN comp_t<T> inverse_of(comp_t<T> variance, float epsilon) {
  return 1 / (comp_t<T>)sqrt((double)(variance + rounded<T>((comp_t<T>)epsilon)));
}

/* x: [rows, channels]; gamma NULL: none. */
template <class T>
WEFT_FN void apply(const T *x, const T *mean, const T *variance, const T *beta, const T *gamma, T *y,
                   int64_t n, int64_t channels, float epsilon) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t c = i % channels;
    comp_t<T> factor = inverse_of<T>(load(variance[c]), epsilon);
    if (gamma != nullptr) factor *= load(gamma[c]);
    store(&y[i], (load(x[i]) - load(mean[c])) * factor + load(beta[c]));
  }
}

/* A block a channel. to_gamma is 0 where gamma is NULL. */
template <class T>
WEFT_FN void gradients(const T *x, const T *dy, const T *mean, const T *variance, const T *gamma, T *to_x,
                       T *to_mean, T *to_variance, T *to_beta, T *to_gamma, int64_t rows, int64_t channels,
                       float epsilon) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(double, shared, WEFT_CUDA_BLOCK);
  for (int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
    const C center = load(mean[c]), spread = load(variance[c]) + rounded<T>((C)epsilon),
            inverse = inverse_of<T>(load(variance[c]), epsilon),
            scale = inverse * (gamma != nullptr ? load(gamma[c]) : (C)1);
    double sum = 0, by_distance = 0;
    for (int64_t r = threadIdx.x; r < rows; r += blockDim.x) {
      const int64_t i = r * channels + c;
      const C g = load(dy[i]);
      sum += (double)g;
      by_distance += (double)(g * (load(x[i]) - center));
      store(&to_x[i], g * scale);
    }
    sum = together<total_of>(shared, sum, (int)blockDim.x);
    by_distance = together<total_of>(shared, by_distance, (int)blockDim.x);
    if (threadIdx.x != 0) continue;
    store(&to_mean[c], -(C)sum * scale);
    store(&to_variance[c], (C)by_distance * (scale * (C)-0.5 / spread));
    store(&to_beta[c], (C)sum);
    store(&to_gamma[c], gamma != nullptr ? (C)by_distance * inverse : (C)0);
  }
}

}  // namespace weft

using namespace weft;

#define NORM(f, type)                                                                                      \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                                      \
                   (const type *x, const type *mean, const type *variance, const type *beta,               \
                    const type *gamma, type *y, int64_t n, int64_t channels, float epsilon)) {             \
    apply(x, mean, variance, beta, gamma, y, n, channels, epsilon);                                        \
  }                                                                                                        \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_grad_##type,                                                           \
                         (const type *x, const type *dy, const type *mean, const type *variance,           \
                          const type *gamma, type *to_x, type *to_mean, type *to_variance, type *to_beta,  \
                          type *to_gamma, int64_t rows, int64_t channels, float epsilon)) {                \
    gradients(x, dy, mean, variance, gamma, to_x, to_mean, to_variance, to_beta, to_gamma, rows, channels, \
              epsilon);                                                                                    \
  }
WEFT_CUDA_F32_F64_F16(NORM, norm_global)
