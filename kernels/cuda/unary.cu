/* kernels/cuda/unary.cu - functions of one operand: unary.def. */
#include "kernels/cuda/types.h"
#include "kernels/cuda/unary_functions.cuh"

namespace weft {

/* Results may overwrite the operand: each is written after what it is made of has been read. */
template <class F, class T, class U>
WEFT_FN void unary(const T *x, U *y, int64_t n) {
  const int N = 16 / sizeof(T);
  int64_t begin = 0;
  if (is_aligned(x) && is_aligned(y)) {
    const int64_t packs = n / N;
    for (int64_t i = first_index(); i < packs; i += index_step()) {
      const pack<T, N> a = ((const pack<T, N> *)x)[i];
      pack<U, N> b;
      WEFT_UNROLL
      for (int k = 0; k < N; k++) store(&b.at[k], F::template of<T>(load(a.at[k])));
      ((pack<U, N> *)y)[i] = b;
    }
    begin = packs * N;
  }
  for (int64_t i = begin + first_index(); i < n; i += index_step())
    store(&y[i], F::template of<T>(load(x[i])));
}

}  // namespace weft

using namespace weft;

#define RESULT_SAME(type) type
#define RESULT_TRUTH(type) boolean
#define INSTANCE(op, type, result)                                                                    \
  WEFT_CUDA_KERNEL(weft_unary_##op##_##type, (const type *x, RESULT_##result(type) * y, int64_t n)) { \
    unary<op>(x, y, n);                                                                               \
  }
#define INSTANCE_SAME(op, type) INSTANCE(op, type, SAME)
#define INSTANCE_TRUTH(op, type) INSTANCE(op, type, TRUTH)
#define WEFT_CUDA_UNARY(op, set, result) WEFT_CUDA_##set(INSTANCE_##result, op)
#include "kernels/cuda/unary.def"
#undef WEFT_CUDA_UNARY

/* ---- LeakyRelu and its gradient: values, scaled by alpha where the features are not above 0 ---- */

template <class T>
WEFT_FN void leaky(const T *value, const T *x, T *y, float alpha, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const comp_t<T> v = load(value[i]);
    store(&y[i], load(x[i]) > 0 ? v : v * (comp_t<T>)alpha);
  }
}
#define LEAKY(f, type)                                                                                       \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *value, const type *x, type *y, float alpha, int64_t n)) { \
    leaky(value, x, y, alpha, n);                                                                            \
  }
WEFT_CUDA_FLOAT(LEAKY, leaky)
