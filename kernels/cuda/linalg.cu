/* kernels/cuda/linalg.cu - the steps of Cholesky and LU decompositions and of triangular equations, and what
 * is made of their results.
 *
 * Cholesky is computed as L D L* and scaled at the end, so that a step is one launch: no thread changes what
 * another one of the same step reads. Solutions are divided by the diagonal at the end for the same reason.
 */
#include "kernels/cuda/linalg_args.h"
#include "kernels/cuda/scalars.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* ---- Cholesky ---- */

/* The lower triangle; zeros above. */
template <class T>
WEFT_FN void lower_of(const T *a, T *w, const weft_cuda_matrices_t &s) {
  const int64_t count = s.batch * s.n * s.n;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t row = i / s.n % s.n, column = i % s.n;
    w[i] = column <= row ? a[i] : number_of<T>(0);
  }
}

/* Column k of L D L* is there: takes it out of the columns behind it. */
template <class T>
WEFT_FN void cholesky_step(T *w, const weft_cuda_matrices_t &s) {
  const int64_t rest = s.n - s.k - 1, count = s.batch * rest * rest;
  for (int64_t x = first_index(); x < count; x += index_step()) {
    const int64_t b = x / (rest * rest), i = s.k + 1 + x / rest % rest, j = s.k + 1 + x % rest;
    if (j > i) continue;
    T *a = w + b * s.n * s.n;
    const real_t<T> d = real_of(a[s.k * s.n + s.k]);
    a[i * s.n + j] = a[i * s.n + j] - times(a[i * s.n + s.k] * conjugate(a[j * s.n + s.k]), 1 / d);
  }
}

template <class T>
WEFT_FN void cholesky_check(const T *w, int32_t *bad, const weft_cuda_matrices_t &s) {
  for (int64_t i = first_index(); i < s.batch * s.n; i += index_step()) {
    if (real_of(w[i / s.n * s.n * s.n + i % s.n * (s.n + 1)]) <= 0) bad[i / s.n] = 1;
  }
}

/* A matrix that is not positive definite gives NaN; of complex numbers 0, as TensorFlow's. */
template <class T>
WEFT_FN void cholesky_finish(const T *w, const int32_t *bad, T *l, const weft_cuda_matrices_t &s) {
  const int64_t count = s.batch * s.n * s.n;
  for (int64_t x = first_index(); x < count; x += index_step()) {
    const int64_t b = x / (s.n * s.n), i = x / s.n % s.n, j = x % s.n;
    if (j > i) {
      l[x] = number_of<T>(0);
    } else if (bad[b] != 0) {
      l[x] = number_of<T>(scalar<T>::is_complex ? (real_t<T>)0 : (real_t<T>)NAN);
    } else {
      const real_t<T> d = sqrt(real_of(w[b * s.n * s.n + j * (s.n + 1)]));
      l[x] = i == j ? number_of<T>(d) : times(w[x], 1 / d);
    }
  }
}

/* ---- the gradient of Cholesky: S = L*^-1 phi(L* G) L^-1, of which S + S* is twice the result ---- */

/* phi(L* tril(G)): the lower triangle, and half of the diagonal. */
template <class T>
WEFT_FN void gram_phi(const T *l, const T *g, T *y, const weft_cuda_matrices_t &s) {
  const int64_t count = s.batch * s.n * s.n;
  for (int64_t x = first_index(); x < count; x += index_step()) {
    const int64_t at = x / (s.n * s.n) * s.n * s.n, i = x / s.n % s.n, j = x % s.n;
    T sum = number_of<T>(0);
    for (int64_t k = i; k < s.n && j <= i; k++) /* L*[i, k] is 0 for k < i, G[k, j] for k < j */
      sum = sum + conjugate(l[at + k * s.n + i]) * g[at + k * s.n + j];
    y[x] = i == j ? times(sum, (real_t<T>)0.5) : sum;
  }
}

template <class T>
WEFT_FN void adjoint_of(const T *x, T *y, const weft_cuda_matrices_t &s) {
  const int64_t count = s.batch * s.n * s.m;
  for (int64_t i = first_index(); i < count; i += index_step()) { /* y is [m, n] */
    const int64_t at = i / (s.n * s.m) * s.n * s.m, row = i / s.n % s.m, column = i % s.n;
    y[i] = conjugate(x[at + column * s.m + row]);
  }
}

template <class T>
WEFT_FN void symmetric_of(const T *x, T *y, const weft_cuda_matrices_t &s) {
  const int64_t count = s.batch * s.n * s.n;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t at = i / (s.n * s.n) * s.n * s.n, row = i / s.n % s.n, column = i % s.n;
    y[i] = times(x[i] + conjugate(x[at + column * s.n + row]), (real_t<T>)0.5);
  }
}

/* ---- LU with partial pivoting ---- */

template <class T>
struct pivot {
  real_t<T> size;
  int64_t row;
};

/* The largest element of column k; of equal ones the first. Rows are swapped as a whole. One block a matrix.
 */
template <class T>
WEFT_FN void lu_pivot(T *w, int64_t *rows, int32_t *signs, const weft_cuda_matrices_t &s) {
  WEFT_CUDA_SHARED(pivot<T>, best, WEFT_CUDA_BLOCK);
  const int t = (int)threadIdx.x;
  for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
    T *a = w + b * s.n * s.n;
    pivot<T> mine = {-1, s.k};
    for (int64_t i = s.k + t; i < s.n; i += blockDim.x) {
      const real_t<T> v = size_of(a[i * s.n + s.k]);
      if (v > mine.size) mine = pivot<T>{v, i};
    }
    best[t] = mine;
    __syncthreads();
    for (int half = (int)blockDim.x / 2; half > 0; half /= 2) {
      if (t < half) {
        const pivot<T> other = best[t + half];
        if (other.size > best[t].size || (other.size == best[t].size && other.row < best[t].row))
          best[t] = other;
      }
      __syncthreads();
    }
    /* The first one stays where it is, if nothing is larger: also if it is no number. */
    const real_t<T> first = size_of(a[s.k * (s.n + 1)]);
    const int64_t row = first != first || best[0].size <= first ? s.k : best[0].row;
    const real_t<T> most = row == s.k ? first : best[0].size;
    __syncthreads();
    if (row != s.k) {
      for (int64_t j = t; j < s.n; j += blockDim.x) {
        const T v = a[s.k * s.n + j];
        a[s.k * s.n + j] = a[row * s.n + j];
        a[row * s.n + j] = v;
      }
      if (t == 0) {
        const int64_t r = rows[b * s.n + s.k];
        rows[b * s.n + s.k] = rows[b * s.n + row];
        rows[b * s.n + row] = r;
        signs[b] = -signs[b];
      }
    }
    __syncthreads();
    const T d = a[s.k * (s.n + 1)];
    for (int64_t i = s.k + 1 + t; i < s.n && most != 0; i += blockDim.x)
      a[i * s.n + s.k] = a[i * s.n + s.k] / d;
    __syncthreads();
  }
}

template <class T>
WEFT_FN void lu_step(T *w, const weft_cuda_matrices_t &s) {
  const int64_t rest = s.n - s.k - 1, count = s.batch * rest * rest;
  for (int64_t x = first_index(); x < count; x += index_step()) {
    const int64_t i = s.k + 1 + x / rest % rest, j = s.k + 1 + x % rest;
    T *a = w + x / (rest * rest) * s.n * s.n;
    a[i * s.n + j] = a[i * s.n + j] - a[i * s.n + s.k] * a[s.k * s.n + j];
  }
}

/* bad: a matrix without an inverse. */
template <class T>
WEFT_FN void lu_check(const T *w, int32_t *bad, const weft_cuda_matrices_t &s) {
  for (int64_t i = first_index(); i < s.batch * s.n; i += index_step()) {
    const real_t<T> v = size_of(w[i / s.n * s.n * s.n + i % s.n * (s.n + 1)]);
    if (v == 0 || (i % s.n == 0 && v != v)) *bad = 1;
  }
}

/* The right sides in the order of the rows; b NULL: those of the identity. */
template <class T>
WEFT_FN void permute(const int64_t *rows, const T *b, T *x, const weft_cuda_matrices_t &s) {
  const int64_t count = s.batch * s.n * s.m;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t batch = i / (s.n * s.m), column = i % s.m, row = rows[batch * s.n + i / s.m % s.n];
    x[i] = b == nullptr ? number_of<T>(row == column ? 1 : 0) : b[(batch * s.n + row) * s.m + column];
  }
}

template <class T>
WEFT_FN T sign_of(T v) {
  const real_t<T> size = size_of(v);
  if (size == 0) return number_of<T>(0);
  return scalar<T>::is_complex ? v / number_of<T>(size)
                               : number_of<T>(real_of(v) > 0   ? 1
                                              : real_of(v) < 0 ? -1
                                                               : real_of(v));
}

/* A thread a matrix. log_abs NULL: the determinant itself. */
template <class T>
WEFT_FN void determinants(const T *w, const int32_t *signs, T *sign, T *log_abs,
                          const weft_cuda_matrices_t &s) {
  for (int64_t b = first_index(); b < s.batch; b += index_step()) {
    T product = number_of<T>((real_t<T>)signs[b]);
    real_t<T> sum = 0;
    for (int64_t i = 0; i < s.n; i++) {
      const T v = w[b * s.n * s.n + i * (s.n + 1)];
      sum += log(size_of(v));
      product = product * sign_of(v);
    }
    sign[b] = log_abs != nullptr ? product : times(product, exp(sum));
    if (log_abs != nullptr) log_abs[b] = number_of<T>(sum);
  }
}

/* ---- triangular equations ---- */

template <class T>
WEFT_FN T coefficient(const T *a, const weft_cuda_matrices_t &s, int64_t i, int64_t j) {
  return s.is_adjoint ? conjugate(a[j * s.n + i]) : a[i * s.n + j];
}

/* Row k of the solution is there, but for its division: takes it out of the rows behind it. */
template <class T>
WEFT_FN void triangular_step(const T *matrices, T *x, const weft_cuda_matrices_t &s) {
  const int64_t rest = s.forward ? s.n - s.k - 1 : s.k, first = s.forward ? s.k + 1 : 0,
                count = s.batch * rest * s.m;
  for (int64_t y = first_index(); y < count; y += index_step()) {
    const int64_t b = y / (rest * s.m), i = first + y / s.m % rest, c = y % s.m;
    const T *a = matrices + b * s.n * s.n;
    T *of = x + b * s.n * s.m, v = of[s.k * s.m + c];
    if (!s.is_unit) v = v / coefficient(a, s, s.k, s.k);
    of[i * s.m + c] = of[i * s.m + c] - coefficient(a, s, i, s.k) * v;
  }
}

template <class T>
WEFT_FN void triangular_divide(const T *matrices, T *x, const weft_cuda_matrices_t &s) {
  const int64_t count = s.batch * s.n * s.m;
  for (int64_t y = first_index(); y < count; y += index_step()) {
    const int64_t b = y / (s.n * s.m), i = y / s.m % s.n;
    x[y] = x[y] / coefficient(matrices + b * s.n * s.n, s, i, i);
  }
}

}  // namespace weft

using namespace weft;

/* Rows in their order, and the sign of that. */
WEFT_CUDA_KERNEL(weft_lu_begin, (int64_t * rows, int32_t *signs, weft_cuda_matrices_t s)) {
  for (int64_t i = first_index(); i < s.batch * s.n; i += index_step()) {
    rows[i] = i % s.n;
    if (i % s.n == 0) signs[i / s.n] = 1;
  }
}

#define ONE(name, type, parameters, call) \
  WEFT_CUDA_KERNEL(weft_la_##name##_##type, parameters) { call; }
#define LINALG(f, type)                                                                                      \
  ONE(lower, type, (const type *a, type *w, weft_cuda_matrices_t s), lower_of(a, w, s))                      \
  ONE(cholesky, type, (type * w, weft_cuda_matrices_t s), cholesky_step(w, s))                               \
  ONE(cholesky_check, type, (const type *w, int32_t *bad, weft_cuda_matrices_t s),                           \
      cholesky_check(w, bad, s))                                                                             \
  ONE(cholesky_finish, type, (const type *w, const int32_t *bad, type *l, weft_cuda_matrices_t s),           \
      cholesky_finish(w, bad, l, s))                                                                         \
  ONE(gram_phi, type, (const type *l, const type *g, type *y, weft_cuda_matrices_t s), gram_phi(l, g, y, s)) \
  ONE(adjoint, type, (const type *x, type *y, weft_cuda_matrices_t s), adjoint_of(x, y, s))                  \
  ONE(symmetric, type, (const type *x, type *y, weft_cuda_matrices_t s), symmetric_of(x, y, s))              \
  ONE(lu, type, (type * w, weft_cuda_matrices_t s), lu_step(w, s))                                           \
  ONE(lu_check, type, (const type *w, int32_t *bad, weft_cuda_matrices_t s), lu_check(w, bad, s))            \
  ONE(permute, type, (const int64_t *rows, const type *b, type *x, weft_cuda_matrices_t s),                  \
      permute(rows, b, x, s))                                                                                \
  ONE(determinants, type,                                                                                    \
      (const type *w, const int32_t *signs, type *sign, type *log_abs, weft_cuda_matrices_t s),              \
      determinants(w, signs, sign, log_abs, s))                                                              \
  ONE(triangular, type, (const type *a, type *x, weft_cuda_matrices_t s), triangular_step(a, x, s))          \
  ONE(triangular_divide, type, (const type *a, type *x, weft_cuda_matrices_t s), triangular_divide(a, x, s)) \
  WEFT_CUDA_BLOCK_KERNEL(weft_la_lu_pivot_##type,                                                            \
                         (type * w, int64_t * rows, int32_t * signs, weft_cuda_matrices_t s)) {              \
    lu_pivot(w, rows, signs, s);                                                                             \
  }
WEFT_CUDA_F32_F64(LINALG, la)
WEFT_CUDA_COMPLEX(LINALG, la)
