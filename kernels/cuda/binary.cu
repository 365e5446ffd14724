/* kernels/cuda/binary.cu - functions of two operands: binary.def. */
#include "kernels/cuda/binary_functions.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/walk.cuh"

namespace weft {

/* Results may overwrite an operand that is read at the same index: each is written after what it is made of
 * has been read. */
template <class F, class T, class U>
WEFT_FN void binary(const T *x, const T *y, U *z, const weft_cuda_walk_t &w) {
  const int N = 16 / sizeof(T);
  if (w.is_flat && is_aligned(x) && is_aligned(y) && is_aligned(z)) {
    const int64_t packs = w.n / N;
    for (int64_t i = first_index(); i < packs; i += index_step()) {
      const pack<T, N> a = ((const pack<T, N> *)x)[i], b = ((const pack<T, N> *)y)[i];
      pack<U, N> r;
      WEFT_UNROLL
      for (int k = 0; k < N; k++) store(&r.at[k], F::template of<T>(load(a.at[k]), load(b.at[k])));
      ((pack<U, N> *)z)[i] = r;
    }
    for (int64_t i = packs * N + first_index(); i < w.n; i += index_step())
      store(&z[i], F::template of<T>(load(x[i]), load(y[i])));
    return;
  }
  for (int64_t i = first_index(); i < w.n; i += index_step()) {
    int64_t at[2];
    locate(w, i, at);
    store(&z[i], F::template of<T>(load(x[at[0]]), load(y[at[1]])));
  }
}

}  // namespace weft

using namespace weft;

#define RESULT_SAME(type) type
#define RESULT_TRUTH(type) boolean
#define INSTANCE(op, type, result)                                                                  \
  WEFT_CUDA_KERNEL(weft_binary_##op##_##type,                                                       \
                   (const type *x, const type *y, RESULT_##result(type) * z, weft_cuda_walk_t w)) { \
    binary<op>(x, y, z, w);                                                                         \
  }
#define INSTANCE_SAME(op, type) INSTANCE(op, type, SAME)
#define INSTANCE_TRUTH(op, type) INSTANCE(op, type, TRUTH)
#define WEFT_CUDA_BINARY(op, set, result, shapes) WEFT_CUDA_##set(INSTANCE_##result, op)
#include "kernels/cuda/binary.def"
#undef WEFT_CUDA_BINARY
