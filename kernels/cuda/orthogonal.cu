/* kernels/cuda/orthogonal.cu - QR by reflections; eigenvalues and singular values by one-sided Jacobi
 * rotations.
 *
 * Matrices lie by columns. A reflection is two launches: one makes it, one applies it to the columns behind.
 * In a round of Jacobi's each block rotates a pair of columns until they are orthogonal; n - 1 rounds, a
 * sweep, have all pairs. Sweeps are enqueued up to a fixed number; once none of a matrix's pairs was rotated
 * in one, its blocks return at once.
 *
 * Source: Golub, Van Loan, "Matrix Computations", 5.1 (reflections), 8.6 (one-sided Jacobi); the order of
 * pairs is that of Brent and Luk (1985).
 */
#include "kernels/cuda/orthogonal_args.h"
#include "kernels/cuda/scalars.cuh"
#include "kernels/cuda/types.h"

namespace weft {

template <class R>
struct limits;
template <>
struct limits<float> {
  static __device__ float least() { return 1.17549435e-38f; }
  static __device__ float epsilon() { return 1.1920929e-7f; }
};
template <>
struct limits<double> {
  static __device__ double least() { return 2.2250738585072014e-308; }
  static __device__ double epsilon() { return 2.220446049250313e-16; }
};

/* The sum over the block's threads, for all of them. `shared` has an element for each. */
template <class T>
WEFT_FN T sum_of_block(T *shared, T mine) {
  const int t = (int)threadIdx.x;
  shared[t] = mine;
  __syncthreads();
  for (int half = (int)blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) shared[t] = shared[t] + shared[t + half];
    __syncthreads();
  }
  const T sum = shared[0];
  __syncthreads();
  return sum;
}

template <class R>
WEFT_FN R max_of_block(R *shared, R mine) {
  const int t = (int)threadIdx.x;
  shared[t] = mine;
  __syncthreads();
  for (int half = (int)blockDim.x / 2; half > 0; half /= 2) {
    if (t < half && !(shared[t] >= shared[t + half])) shared[t] = shared[t + half]; /* NaN wins */
    __syncthreads();
  }
  const R most = shared[0];
  __syncthreads();
  return most;
}

/* ---- QR ---- */

/* The reflection that leaves only the first element of column k's rest. */
template <class T>
WEFT_FN void reflect(T *x, T *taus, const weft_cuda_columns_t &s) {
  typedef real_t<T> R;
  WEFT_CUDA_SHARED(R, shared, WEFT_CUDA_BLOCK);
  for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
    T *v = x + (b * s.n + s.k) * s.m;
    R mine = 0;
    for (int64_t i = s.k + 1 + threadIdx.x; i < s.m; i += blockDim.x) mine += square_of(v[i]);
    const R tail = sum_of_block(shared, mine);
    const T first = v[s.k];
    const R im = imaginary_of(first);
    const bool is_short = tail <= limits<R>::least() && im * im <= limits<R>::least();
    R beta = real_of(first);
    if (!is_short) beta = beta >= 0 ? -sqrt(square_of(first) + tail) : sqrt(square_of(first) + tail);
    for (int64_t i = s.k + 1 + threadIdx.x; i < s.m; i += blockDim.x)
      v[i] = is_short ? number_of<T>(0) : v[i] / (first - number_of<T>(beta));
    __syncthreads();
    if (threadIdx.x == 0) {
      taus[b * s.n + s.k] =
          is_short ? number_of<T>(0) : conjugate(times(number_of<T>(beta) - first, 1 / beta));
      v[s.k] = number_of<T>(beta);
    }
    __syncthreads();
  }
}

/* y = (I - tau v v*) y, from element k on; v[k] is 1. All threads of the block. */
template <class T>
WEFT_FN void apply(T *shared, const T *v, T tau, T *y, int64_t k, int64_t m) {
  if (square_of(tau) == 0) return;
  T mine = threadIdx.x == 0 ? y[k] : number_of<T>(0);
  for (int64_t i = k + 1 + threadIdx.x; i < m; i += blockDim.x) mine = mine + conjugate(v[i]) * y[i];
  const T by = tau * sum_of_block(shared, mine);
  for (int64_t i = k + 1 + threadIdx.x; i < m; i += blockDim.x) y[i] = y[i] - v[i] * by;
  if (threadIdx.x == 0) y[k] = y[k] - by;
  __syncthreads();
}

template <class T>
WEFT_FN void reflect_others(T *x, const T *taus, const weft_cuda_columns_t &s) {
  WEFT_CUDA_SHARED(T, shared, WEFT_CUDA_BLOCK);
  const int64_t rest = s.n - s.k - 1;
  for (int64_t c = blockIdx.x; c < s.batch * rest; c += gridDim.x) {
    const int64_t b = c / rest, j = s.k + 1 + c % rest;
    apply(shared, x + (b * s.n + s.k) * s.m, taus[b * s.n + s.k], x + (b * s.n + j) * s.m, s.k, s.m);
  }
}

/* The first `inner` columns of Q. */
template <class T>
WEFT_FN void make_q(const T *x, const T *taus, T *q, const weft_cuda_columns_t &s) {
  WEFT_CUDA_SHARED(T, shared, WEFT_CUDA_BLOCK);
  const int64_t least = s.m < s.n ? s.m : s.n;
  for (int64_t c = blockIdx.x; c < s.batch * s.inner; c += gridDim.x) {
    const int64_t b = c / s.inner;
    T *y = q + c * s.m;
    for (int64_t i = threadIdx.x; i < s.m; i += blockDim.x) y[i] = number_of<T>(i == c % s.inner ? 1 : 0);
    __syncthreads();
    for (int64_t k = least - 1; k >= 0; k--)
      apply(shared, x + (b * s.n + k) * s.m, conjugate(taus[b * s.n + k]), y, k, s.m);
  }
}

/* R by rows: [inner, n]. */
template <class T>
WEFT_FN void make_r(const T *x, T *r, const weft_cuda_columns_t &s) {
  const int64_t count = s.batch * s.inner * s.n;
  for (int64_t at = first_index(); at < count; at += index_step()) {
    const int64_t b = at / (s.inner * s.n), i = at / s.n % s.inner, j = at % s.n;
    r[at] = j >= i ? x[(b * s.n + j) * s.m + i] : number_of<T>(0);
  }
}

/* Column j of Q, of which there are as many as of x, changes its sign where R's diagonal is below zero. */
template <class T>
WEFT_FN void turn_q(const T *x, T *q, const weft_cuda_columns_t &s) {
  const int64_t count = s.batch * s.n * s.m;
  for (int64_t at = first_index(); at < count; at += index_step()) {
    const int64_t b = at / (s.n * s.m), j = at / s.m % s.n, i = at % s.m;
    T *y = q + (b * s.inner + j) * s.m + i;
    if (real_of(x[(b * s.n + j) * s.m + j]) < 0) *y = number_of<T>(0) - *y;
  }
}

/* ---- Jacobi ---- */

/* What is known of a matrix. */
template <class R>
struct progress {
  R scale;            /* that it was divided by */
  int32_t is_rotated; /* a pair, in this sweep */
  int32_t is_done;
};

/* Divides the matrices by their largest element, so that no square overflows. */
template <class T>
WEFT_FN void scale_columns(T *x, progress<real_t<T>> *p, const weft_cuda_columns_t &s) {
  typedef real_t<T> R;
  WEFT_CUDA_SHARED(R, shared, WEFT_CUDA_BLOCK);
  for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
    T *a = x + b * s.n * s.m;
    R mine = 0;
    for (int64_t i = threadIdx.x; i < s.n * s.m; i += blockDim.x) {
      const R v = size_of(a[i]);
      if (!(mine >= v)) mine = v;
    }
    const R most = max_of_block(shared, mine), scale = most == 0 ? 1 : most;
    for (int64_t i = threadIdx.x; i < s.n * s.m; i += blockDim.x) a[i] = times(a[i], 1 / scale);
    if (threadIdx.x == 0) p[b] = progress<R>{scale, 1, 0};
  }
}

/* Of the lower triangles of matrices a, by rows: Hermitian ones, divided by the largest sum of a row and with
 * ones added to their diagonals, so that no eigenvalue is below zero. */
template <class T>
WEFT_FN void shift_columns(const T *matrices, T *x, progress<real_t<T>> *p, const weft_cuda_columns_t &s) {
  typedef real_t<T> R;
  WEFT_CUDA_SHARED(R, shared, WEFT_CUDA_BLOCK);
  for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
    const T *a = matrices + b * s.n * s.n;
    R mine = 0;
    for (int64_t j = threadIdx.x; j < s.n; j += blockDim.x) {
      R sum = 0;
      for (int64_t i = 0; i < s.n; i++) sum += size_of(i >= j ? a[i * s.n + j] : a[j * s.n + i]);
      if (!(mine >= sum)) mine = sum;
    }
    const R most = max_of_block(shared, mine), scale = most == 0 ? 1 : most;
    for (int64_t at = threadIdx.x; at < s.n * s.n; at += blockDim.x) {
      const int64_t j = at / s.n, i = at % s.n;
      T v = i >= j ? a[i * s.n + j] : conjugate(a[j * s.n + i]);
      if (i == j) v = number_of<T>(real_of(v));
      v = times(v, 1 / scale);
      x[b * s.n * s.n + at] = i == j ? v + number_of<T>(1) : v;
    }
    if (threadIdx.x == 0) p[b] = progress<R>{scale, 1, 0};
  }
}

template <class T>
WEFT_FN void identities(T *v, const weft_cuda_columns_t &s) {
  const int64_t count = s.batch * s.n * s.n;
  for (int64_t i = first_index(); i < count; i += index_step())
    v[i] = number_of<T>(i / s.n % s.n == i % s.n ? 1 : 0);
}

template <class R>
WEFT_FN void begin_sweep(progress<R> *p, const weft_cuda_columns_t &s) {
  for (int64_t b = first_index(); b < s.batch; b += index_step()) {
    if (p[b].is_rotated == 0) p[b].is_done = 1;
    p[b].is_rotated = 0;
  }
}

/* x, y = c x - s y, s x + c y, with y turned by `phase` first. */
template <class T>
WEFT_FN void rotate(T *x, T *y, int64_t n, real_t<T> c, real_t<T> s, T phase) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const T u = x[i], v = y[i] * phase;
    x[i] = times(u, c) - times(v, s);
    y[i] = times(u, s) + times(v, c);
  }
}

/* The squares of two columns, and their product. */
template <class T>
struct pair_sums {
  real_t<T> x, y;
  T both;
};
template <class T>
WEFT_FN pair_sums<T> operator+(pair_sums<T> a, pair_sums<T> b) {
  return pair_sums<T>{a.x + b.x, a.y + b.y, a.both + b.both};
}

/* Round k of a sweep over the columns x, and the same rotations of the columns v, of n elements (NULL: none).
 */
template <class T>
WEFT_FN void rotate_pairs(T *columns, T *vectors, progress<real_t<T>> *p, const weft_cuda_columns_t &s) {
  typedef real_t<T> R;
  WEFT_CUDA_SHARED(pair_sums<T>, shared, WEFT_CUDA_BLOCK);
  const int64_t players = s.n + s.n % 2, pairs = players / 2, last = players - 1;
  for (int64_t at = blockIdx.x; at < s.batch * pairs; at += gridDim.x) {
    const int64_t b = at / pairs, pair = at % pairs;
    const int64_t i = pair == 0 ? last : (s.k + pair) % last, j = (s.k + last - pair) % last;
    if (i >= s.n || j >= s.n || p[b].is_done != 0) continue;
    T *x = columns + (b * s.n + (i < j ? i : j)) * s.m, *y = columns + (b * s.n + (i < j ? j : i)) * s.m;
    pair_sums<T> mine = {0, 0, number_of<T>(0)};
    for (int64_t k = threadIdx.x; k < s.m; k += blockDim.x) {
      mine.x += square_of(x[k]);
      mine.y += square_of(y[k]);
      mine.both = mine.both + conjugate(x[k]) * y[k];
    }
    const pair_sums<T> sums = sum_of_block(shared, mine);
    const R size = size_of(sums.both), limit = limits<R>::epsilon() * (4 + sqrt((R)s.m));
    if (!(size > limit * sqrt(sums.x) * sqrt(sums.y)) || size < limits<R>::least()) continue;
    if (threadIdx.x == 0) p[b].is_rotated = 1;
    const R zeta = (sums.y - sums.x) / (2 * size);
    const R t = (zeta >= 0 ? (R)1 : (R)-1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    const R c = 1 / sqrt(1 + t * t);
    const T phase = conjugate(times(sums.both, 1 / size));
    rotate(x, y, s.m, c, c * t, phase);
    if (vectors != nullptr) {
      const int64_t first = i < j ? i : j, second = i < j ? j : i;
      rotate(vectors + (b * s.n + first) * s.n, vectors + (b * s.n + second) * s.n, s.n, c, c * t, phase);
    }
  }
}

/* The columns' lengths; with vectors v, the products of both: eigenvalues + 1. One block a column. */
template <class T>
WEFT_FN void values_of(const T *columns, const T *vectors, real_t<T> *values, const weft_cuda_columns_t &s) {
  typedef real_t<T> R;
  WEFT_CUDA_SHARED(R, shared, WEFT_CUDA_BLOCK);
  for (int64_t j = blockIdx.x; j < s.batch * s.n; j += gridDim.x) {
    const T *x = columns + j * s.m, *v = vectors == nullptr ? nullptr : vectors + j * s.n;
    R mine = 0;
    for (int64_t i = threadIdx.x; i < s.m; i += blockDim.x)
      mine += v == nullptr ? square_of(x[i]) : real_of(conjugate(v[i]) * x[i]);
    const R sum = sum_of_block(shared, mine);
    if (threadIdx.x == 0) values[j] = v == nullptr ? sqrt(sum) : sum - 1;
  }
}

/* NaN is larger than all others, so that there is an order. */
template <class R>
WEFT_FN bool is_less(R a, R b) {
  return a == a && (b != b || a < b);
}

/* places[r]: the column with the r-th value, the largest first, or the smallest; and its value. */
template <class T>
WEFT_FN void sort_values(const real_t<T> *values, const progress<real_t<T>> *p, int64_t *places, T *sorted,
                         int ascending, const weft_cuda_columns_t &s) {
  typedef real_t<T> R;
  for (int64_t at = first_index(); at < s.batch * s.n; at += index_step()) {
    const int64_t b = at / s.n, j = at % s.n;
    const R *of = values + b * s.n, mine = of[j];
    int64_t place = 0;
    for (int64_t i = 0; i < s.n; i++) {
      const bool is_less_than = is_less(of[i], mine), is_more = is_less(mine, of[i]);
      if ((ascending ? is_less_than : is_more) || (!is_less_than && !is_more && i < j)) place++;
    }
    places[b * s.n + place] = j;
    sorted[b * s.n + place] = number_of<T>(mine * p[b].scale);
  }
}

/* Columns of `length` elements in the order of places. */
template <class T>
WEFT_FN void order_columns(const T *from, const int64_t *places, T *to, int64_t length,
                           const weft_cuda_columns_t &s) {
  const int64_t count = s.batch * s.n * length;
  for (int64_t at = first_index(); at < count; at += index_step()) {
    const int64_t b = at / (s.n * length), j = at / length % s.n, i = at % length;
    to[at] = from[(b * s.n + places[b * s.n + j]) * length + i];
  }
}

template <class T>
WEFT_FN void conjugate_all(const T *x, T *y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = conjugate(x[i]);
}

/* ---- least squares: of the columns W = A V / scale, which are orthogonal ---- */

/* What each column's share of a solution is multiplied by, at *by: that of (A* A + l2) X = A* B or, if
 * `least`, of the solution of least norm, to which columns that are nothing but rounding give nothing. *bad:
 * the normal equations have no solution that is more than rounding. */
template <class T>
WEFT_FN void weigh_columns(const real_t<T> *lengths, const progress<real_t<T>> *p, real_t<T> *by, double l2,
                           int32_t least, int32_t *bad, const weft_cuda_columns_t &s) {
  typedef real_t<T> R;
  for (int64_t at = first_index(); at < s.batch * s.n; at += index_step()) {
    const R *of = lengths + at / s.n * s.n, scale = p[at / s.n].scale, mine = lengths[at],
            relative = (R)l2 / scale / scale, limit = limits<R>::epsilon() * (R)(4 + s.n);
    R most = 0;
    for (int64_t k = 0; k < s.n; k++) {
      if (!(most >= of[k])) most = of[k];
    }
    const R square = mine * mine + relative;
    if (least != 0) {
      by[at] = mine <= limit * most ? 0 : 1 / (mine * mine * scale);
    } else {
      by[at] = 1 / (square * scale);
      if (!(square > limit * (most * most + relative))) *bad = 1;
    }
  }
}

/* parts [n, m] of right sides b [rows, m]: each column's product with them, by its weight. */
template <class T>
WEFT_FN void project(const T *columns, const T *b, const real_t<T> *by, T *parts, int64_t rows, int64_t m,
                     const weft_cuda_columns_t &s) {
  const int64_t count = s.batch * s.n * m;
  for (int64_t at = first_index(); at < count; at += index_step()) {
    const int64_t column = at / m, c = at % m;
    const T *x = columns + column * rows, *y = b + column / s.n * rows * m + c;
    T sum = number_of<T>(0);
    for (int64_t i = 0; i < rows; i++) sum = sum + conjugate(x[i]) * y[i * m];
    parts[at] = by[column] == 0 ? number_of<T>(0) : times(sum, by[column]);
  }
}

/* x [rows, m]: the sum of columns by their parts. */
template <class T>
WEFT_FN void combine(const T *columns, const T *parts, T *x, int64_t rows, int64_t m,
                     const weft_cuda_columns_t &s) {
  const int64_t count = s.batch * rows * m;
  for (int64_t at = first_index(); at < count; at += index_step()) {
    const int64_t b = at / (rows * m), i = at / m % rows, c = at % m;
    T sum = number_of<T>(0);
    for (int64_t k = 0; k < s.n; k++)
      sum = sum + columns[(b * s.n + k) * rows + i] * parts[(b * s.n + k) * m + c];
    x[at] = sum;
  }
}

}  // namespace weft

using namespace weft;

#define ONE(kind, name, type, parameters, call) \
  kind(weft_or_##name##_##type, parameters) { call; }
#define ORTHOGONAL(f, type)                                                                              \
  ONE(WEFT_CUDA_BLOCK_KERNEL, reflect, type, (type * x, type * taus, weft_cuda_columns_t s),             \
      reflect(x, taus, s))                                                                               \
  ONE(WEFT_CUDA_BLOCK_KERNEL, reflect_others, type, (type * x, const type *taus, weft_cuda_columns_t s), \
      reflect_others(x, taus, s))                                                                        \
  ONE(WEFT_CUDA_BLOCK_KERNEL, make_q, type,                                                              \
      (const type *x, const type *taus, type *q, weft_cuda_columns_t s), make_q(x, taus, q, s))          \
  ONE(WEFT_CUDA_KERNEL, make_r, type, (const type *x, type *r, weft_cuda_columns_t s), make_r(x, r, s))  \
  ONE(WEFT_CUDA_KERNEL, turn_q, type, (const type *x, type *q, weft_cuda_columns_t s), turn_q(x, q, s))  \
  ONE(WEFT_CUDA_BLOCK_KERNEL, scale, type, (type * x, void *p, weft_cuda_columns_t s),                   \
      scale_columns(x, (progress<real_t<type>> *)p, s))                                                  \
  ONE(WEFT_CUDA_BLOCK_KERNEL, shift, type, (const type *a, type *x, void *p, weft_cuda_columns_t s),     \
      shift_columns(a, x, (progress<real_t<type>> *)p, s))                                               \
  ONE(WEFT_CUDA_KERNEL, identities, type, (type * v, weft_cuda_columns_t s), identities(v, s))           \
  ONE(WEFT_CUDA_KERNEL, begin_sweep, type, (void *p, weft_cuda_columns_t s),                             \
      begin_sweep((progress<real_t<type>> *)p, s))                                                       \
  ONE(WEFT_CUDA_BLOCK_KERNEL, rotate, type, (type * x, type * v, void *p, weft_cuda_columns_t s),        \
      rotate_pairs(x, v, (progress<real_t<type>> *)p, s))                                                \
  ONE(WEFT_CUDA_BLOCK_KERNEL, values, type,                                                              \
      (const type *x, const type *v, void *values, weft_cuda_columns_t s),                               \
      values_of(x, v, (real_t<type> *)values, s))                                                        \
  ONE(WEFT_CUDA_KERNEL, sort_values, type,                                                               \
      (const void *values, const void *p, int64_t *places, type *sorted, int32_t ascending,              \
       weft_cuda_columns_t s),                                                                           \
      sort_values((const real_t<type> *)values, (const progress<real_t<type>> *)p, places, sorted,       \
                  ascending, s))                                                                         \
  ONE(WEFT_CUDA_KERNEL, order, type,                                                                     \
      (const type *from, const int64_t *places, type *to, int64_t length, weft_cuda_columns_t s),        \
      order_columns(from, places, to, length, s))                                                        \
  ONE(WEFT_CUDA_KERNEL, conjugate, type, (const type *x, type *y, int64_t n), conjugate_all(x, y, n))    \
  ONE(WEFT_CUDA_KERNEL, weigh, type,                                                                     \
      (const void *lengths, const void *p, void *by, double l2, int32_t least, int32_t *bad,             \
       weft_cuda_columns_t s),                                                                           \
      weigh_columns<type>((const real_t<type> *)lengths, (const progress<real_t<type>> *)p,              \
                          (real_t<type> *)by, l2, least, bad, s))                                        \
  ONE(WEFT_CUDA_KERNEL, project, type,                                                                   \
      (const type *columns, const type *b, const void *by, type *parts, int64_t rows, int64_t m,         \
       weft_cuda_columns_t s),                                                                           \
      project(columns, b, (const real_t<type> *)by, parts, rows, m, s))                                  \
  ONE(WEFT_CUDA_KERNEL, combine, type,                                                                   \
      (const type *columns, const type *parts, type *x, int64_t rows, int64_t m, weft_cuda_columns_t s), \
      combine(columns, parts, x, rows, m, s))
WEFT_CUDA_F32_F64(ORTHOGONAL, or)
WEFT_CUDA_COMPLEX(ORTHOGONAL, or)
