/* kernels/cuda/sparse.cu - products with a sparse matrix, and what is done with the values of sparse tensors.
 */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/rows.cuh"
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

/* ---- values of sparse tensors ---- */

/* 0 where an element comes from nowhere. */
template <class T>
WEFT_FN void pick(const T *x, const int64_t *from, T *y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = from[i] >= 0 ? x[from[i]] : T{};
}

/* Each element and that of a dense tensor at its place. note: set where an element is divided by 0, or NULL.
 */
template <class T>
WEFT_FN void cwise(const T *x, const T *dense, const int64_t *places, T *y, int64_t n, int how,
                   int32_t *note) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const comp_t<T> by = load(dense[places[i]]);
    if (note != nullptr && by == 0) *note = 1;
    store(&y[i], folded(how, load(x[i]), by));
  }
}

template <class T>
WEFT_FN bool is_kept(T v, double least, int64_t least_int) {
  if constexpr (number<T>::is_float) {
    return least <= fabs((double)v);
  } else {
    return least_int <= (v >= 0 ? v : wrap_sub((T)0, v));
  }
}
template <class R>
WEFT_FN bool is_kept(complex<R> v, double least, int64_t) {
  return least <= (double)(R)hypot((double)v.re, (double)v.im);
}
template <class T>
WEFT_FN T sum_of(T a, T b) {
  return wrap_add(a, b);
}
template <class R>
WEFT_FN complex<R> sum_of(complex<R> a, complex<R> b) {
  return a + b;
}

/* The sums of pairs of elements; -1: one that is not there. kept: that of two is not below the threshold. */
template <class T>
WEFT_FN void add_pairs(const T *a, const T *b, const int64_t *pairs, T *y, uint8_t *kept, int64_t n,
                       double least, int64_t least_int) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t of_a = pairs[2 * i], of_b = pairs[2 * i + 1];
    const bool is_sum = of_a >= 0 && of_b >= 0;
    y[i] = is_sum ? sum_of(a[of_a], b[of_b]) : of_a >= 0 ? a[of_a] : b[of_b];
    kept[i] = !is_sum || is_kept(y[i], least, least_int);
  }
}

/* The softmax of each group: the elements order[starts[g]] to order[starts[g + 1]], which are neighbours in
 * y. */
template <class T>
WEFT_FN void softmax(const T *x, T *y, const int64_t *starts, const int64_t *order, int64_t num,
                     int sharers) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(C, shared, WEFT_CUDA_BLOCK);
  const int groups_of_block = WEFT_CUDA_BLOCK / sharers, sharer = (int)threadIdx.x % sharers;
  for (int64_t first = (int64_t)blockIdx.x * groups_of_block; first < num;
       first += (int64_t)gridDim.x * groups_of_block) {
    const int64_t group = first + threadIdx.x / sharers;
    const bool is_group = group < num;
    const int64_t begin = is_group ? starts[group] : 0, n = is_group ? starts[group + 1] - begin : 0;
    const softmax_row<C> r = find_softmax_row(
        shared, [=](int64_t i) { return load(x[order[begin + i]]); }, n, is_group, sharers);
    for (int64_t i = sharer; i < n; i += sharers)
      store(&y[begin + i], Softmax::of(load(x[order[begin + i]]), r));
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

#define PICK(f, size)                                                                          \
  WEFT_CUDA_KERNEL(weft_##f##_##size,                                                          \
                   (const sized_##size *x, const int64_t *from, sized_##size *y, int64_t n)) { \
    pick(x, from, y, n);                                                                       \
  }
WEFT_CUDA_SIZED(PICK, sparse_pick)

#define CWISE(f, type)                                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, const type *dense, const int64_t *places, type *y, \
                                       int64_t n, int32_t how, int32_t *note)) {                         \
    cwise(x, dense, places, y, n, how, note);                                                            \
  }
WEFT_CUDA_REAL(CWISE, sparse_cwise)

#define SUM(f, type)                                                                                 \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *a, const type *b, const int64_t *pairs, type *y,  \
                                       uint8_t *kept, int64_t n, double least, int64_t least_int)) { \
    add_pairs(a, b, pairs, y, kept, n, least, least_int);                                            \
  }
WEFT_CUDA_F32_F64_I64(SUM, sparse_sum)
WEFT_CUDA_COMPLEX(SUM, sparse_sum)

#define SOFTMAX(f, type)                                                                            \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type, (const type *x, type *y, const int64_t *starts,         \
                                             const int64_t *order, int64_t num, int32_t sharers)) { \
    softmax(x, y, starts, order, num, sharers);                                                     \
  }
WEFT_CUDA_F32_F64_F16(SOFTMAX, sparse_softmax)
