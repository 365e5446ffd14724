/* kernels/cuda/sparse.cu - SparseTensorDenseMatMul. */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/sparse_args.h"
#include "kernels/cuda/types.h"

namespace weft {

template <class C>
WEFT_FN void add_product(C *to, C a, C b, int, int) {
  add_atomically(to, a * b);
}
template <class R>
WEFT_FN void add_product(complex<R> *to, complex<R> a, complex<R> b, int conjugates_a, int conjugates_b) {
  const complex<R> p = (conjugates_a != 0 ? conj_of(a) : a) * (conjugates_b != 0 ? conj_of(b) : b);
  add_atomically(&to->re, p.re);
  add_atomically(&to->im, p.im);
}

template <class R>
WEFT_FN void set_nan(R *to) {
  *to = (R)NAN;
}
template <class R>
WEFT_FN void set_nan(complex<R> *to) {
  to->re = to->im = (R)NAN;
}

/* Element (m, k) of a times row k of b, or its column, to row m of the product. An element outside of the
 * matrix in k makes NaN of its row, as on TensorFlow's GPU; one outside in m does nothing. */
template <class T>
WEFT_FN void multiply(const void *indices, const T *values, const T *b, comp_t<T> *sums,
                      const weft_cuda_sparse_product_t &p, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t element = i / p.n, column = i - element * p.n, at = 2 * element;
    int64_t m = p.index_bytes == 4 ? ((const int32_t *)indices)[at] : ((const int64_t *)indices)[at];
    int64_t k = p.index_bytes == 4 ? ((const int32_t *)indices)[at + 1] : ((const int64_t *)indices)[at + 1];
    if (p.adjoint_a != 0) {
      const int64_t other = m;
      m = k;
      k = other;
    }
    if (m < 0 || m >= p.m) continue;
    comp_t<T> *to = &sums[m * p.n + column];
    if (k < 0 || k >= p.k) {
      set_nan(to);
      continue;
    }
    const T factor = b[p.adjoint_b != 0 ? column * p.k + k : k * p.n + column];
    add_product(to, load(values[element]), load(factor), p.adjoint_a, p.adjoint_b);
  }
}

}  // namespace weft

using namespace weft;

#define MULTIPLY(f, type)                                                                              \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const void *indices, const type *values, const type *b,         \
                                       comp_t<type> *sums, weft_cuda_sparse_product_t p, int64_t n)) { \
    multiply(indices, values, b, sums, p, n);                                                          \
  }
WEFT_CUDA_FLOAT(MULTIPLY, sparse_multiply)
WEFT_CUDA_COMPLEX(MULTIPLY, sparse_multiply)
