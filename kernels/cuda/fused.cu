/* kernels/cuda/fused.cu - what follows a convolution or a product on each of its elements, in place: a bias
 * or a normalisation, then a sum, then an activation. The formulas are those of kernels/cpu/nn/fused.c. */
#include "kernels/cuda/types.h"
#include "kernels/cuda/unary_functions.cuh"

namespace weft {

template <class T>
WEFT_FN comp_t<T> activated(int32_t activation, comp_t<T> v, comp_t<T> alpha) {
  typedef comp_t<T> C;
  switch (activation) {
    case WEFT_CUDA_RELU: return v < 0 ? (C)0 : v;
    case WEFT_CUDA_RELU6: return v < 0 ? (C)0 : v > (C)6 ? (C)6 : v;
    case WEFT_CUDA_ELU: return Elu::of<T>(v);
    case WEFT_CUDA_LEAKY_RELU: return v < 0 ? v * alpha : v;
    case WEFT_CUDA_TANH: return Tanh::of<T>(v);
    case WEFT_CUDA_SIGMOID: return Sigmoid::of<T>(v);
    case WEFT_CUDA_GELU_APPROXIMATE:
      return (C)0.5 * v * (1 + Tanh::of<T>((C)0.79788456080286535588 * (v + (C)0.044715 * v * v * v)));
    case WEFT_CUDA_GELU_EXACT: return (C)0.5 * v * (1 + Erf::of<T>(v * (C)0.70710678118654752440));
    default: return v;
  }
}

template <class T>
WEFT_FN comp_t<T> of_channel(const void *vector, int64_t c) {
  return load(((const T *)vector)[c]);
}

/* What becomes of v, an element of channel c at place i. */
template <class T>
WEFT_FN comp_t<T> finished(const weft_cuda_fused_t &j, comp_t<T> v, int64_t i, int64_t c) {
  typedef comp_t<T> C;
  if (j.bias != nullptr) v = v + of_channel<T>(j.bias, c);
  if (j.scale != nullptr) {
    const C factor = of_channel<T>(j.scale, c) / (C)sqrt(of_channel<T>(j.variance, c) + (C)j.epsilon);
    v = (v - of_channel<T>(j.mean, c)) * factor + of_channel<T>(j.offset, c);
  }
  if (j.addend != nullptr) v += load(((const T *)j.addend)[i]);
  return activated<T>(j.activation, v, (C)j.alpha);
}

WEFT_FN int64_t fused_channel(const weft_cuda_fused_t &j, int64_t i) {
  return j.inner == 1 ? i % j.channels : i / j.inner % j.channels;
}

/* Neighbours that 16 bytes hold are of one channel, or of channels in a row; else elements one by one. */
template <class T>
WEFT_FN void finish(const weft_cuda_fused_t &j) {
  const int N = 16 / sizeof(T), step = j.inner == 1;
  T *y = (T *)j.y;
  if ((step ? j.channels : j.inner) % N != 0 || !is_aligned(y)) {
    for (int64_t i = first_index(); i < j.n; i += index_step())
      store(&y[i], finished<T>(j, load(y[i]), i, fused_channel(j, i)));
    return;
  }
  for (int64_t p = first_index(); p < j.n / N; p += index_step()) { /* n is a multiple of N */
    const int64_t first = p * N, c = fused_channel(j, first);
    pack<T, N> v = ((const pack<T, N> *)y)[p];
    WEFT_UNROLL
    for (int k = 0; k < N; k++) store(&v.at[k], finished<T>(j, load(v.at[k]), first + k, c + k * step));
    ((pack<T, N> *)y)[p] = v;
  }
}

}  // namespace weft

using namespace weft;

#define INSTANCE(name, type) \
  WEFT_CUDA_KERNEL(weft_##name##_##type, (weft_cuda_fused_t j)) { finish<type>(j); }
WEFT_CUDA_FLOAT(INSTANCE, fused)
