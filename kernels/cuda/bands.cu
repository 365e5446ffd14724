/* kernels/cuda/bands.cu - equations of matrices with few diagonals: TridiagonalSolve, BandedTriangularSolve,
 * TridiagonalMatMul.
 *
 * A row of a solution needs the one before it. So a thread has a matrix, or a right side of one, from its
 * first row to its last one: there is work for a device where there are many of them.
 *
 * A tridiagonal matrix is eliminated once. What the right sides need of that is kept: of row i the diagonal
 * and the two above it, the factor that row i + 1 got, and whether the two were exchanged. Formulas as
 * kernels/cpu/linalg/tridiagonal.tmpl.h, after LAPACK's gtsv, and lagtf and lagts where pivots are perturbed.
 */
#include "kernels/cuda/bands_args.h"
#include "kernels/cuda/scalars.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* ---- elimination ---- */

enum { KEEPS, EXCHANGES, IS_APART }; /* rows i and i + 1 */

template <class T>
WEFT_FN bool is_nothing(T v) {
  return size_of(v) == 0;
}

/* The diagonals of a matrix; of the superdiagonal the last element is not read, of the subdiagonal the first.
 */
template <class T>
struct tridiagonal {
  const T *super, *diagonal, *sub;
};
template <class T>
WEFT_FN tridiagonal<T> tridiagonal_of(const T *diagonals, int64_t matrix, int64_t n) {
  const T *at = diagonals + matrix * 3 * n;
  return tridiagonal<T>{at, at + n, at + 2 * n};
}

/* What becomes of rows i and i + 1. `scale`: the sum of the sizes of row i as it was given. */
template <class T>
WEFT_FN int way_of(const tridiagonal<T> &a, int64_t i, const T *u, int pivoting, real_t<T> *scale,
                   int64_t n) {
  const real_t<T> below = size_of(a.sub[i + 1]);
  if (pivoting == WEFT_CUDA_NOT_PIVOTED) return KEEPS;
  if (pivoting == WEFT_CUDA_PIVOTED) return size_of(u[0]) >= below ? KEEPS : EXCHANGES;
  const real_t<T> next =
      below + size_of(a.diagonal[i + 1]) + (i < n - 2 ? size_of(a.super[i + 1]) : (real_t<T>)0);
  const real_t<T> mine = is_nothing(u[0]) ? (real_t<T>)0 : size_of(u[0]) / *scale, other = below / next;
  const int way = below == 0 ? IS_APART : other <= mine ? KEEPS : EXCHANGES;
  if (way != EXCHANGES) *scale = next;
  return way;
}

/* The factor of row i + 1. u: of row i; `next`: of row i + 1. */
template <class T>
WEFT_FN T eliminate(const tridiagonal<T> &a, int64_t i, int way, T *u, T *next, int64_t n) {
  const T none = number_of<T>(0), sub = a.sub[i + 1], diagonal = a.diagonal[i + 1],
          super = i == n - 2 ? none : a.super[i + 1];
  u[2] = none;
  if (way == EXCHANGES) {
    const T f = u[0] / sub;
    next[0] = u[1] - f * diagonal;
    next[1] = none - f * super;
    u[0] = sub;
    u[1] = diagonal;
    u[2] = super;
    return f;
  }
  const T f = way == IS_APART ? none : sub / u[0];
  next[0] = way == IS_APART ? diagonal : diagonal - f * u[1];
  next[1] = super;
  return f;
}

/* A thread a matrix. largest: of the sizes of u, for perturbed pivots; bad: the matrix has no inverse. */
template <class T>
WEFT_FN void tridiagonal_factors(const T *diagonals, T *us, T *factors, int32_t *ways, real_t<T> *largest,
                                 int32_t *bad, const weft_cuda_bands_t &s) {
  for (int64_t b = first_index(); b < s.batch; b += index_step()) {
    const tridiagonal<T> a = tridiagonal_of(diagonals, b, s.n);
    T *u = us + b * s.n * 3;
    u[0] = a.diagonal[0];
    u[1] = s.n > 1 ? a.super[0] : number_of<T>(0);
    u[2] = number_of<T>(0);
    real_t<T> most = size_of(u[0]) > size_of(u[1]) ? size_of(u[0]) : size_of(u[1]),
              scale = size_of(u[0]) + size_of(u[1]);
    bool is_bad = false;
    for (int64_t i = 0; i + 1 < s.n; i++, u += 3) {
      const int way = way_of(a, i, u, s.pivoting, &scale, s.n);
      is_bad = is_bad || (way == KEEPS && is_nothing(u[0]));
      ways[b * s.n + i] = way;
      factors[b * s.n + i] = eliminate(a, i, way, u, u + 3, s.n);
      u[5] = number_of<T>(0);
      for (int k = 0; k < 3 && i < s.n - 2; k++) most = size_of(u[k]) > most ? size_of(u[k]) : most;
    }
    largest[b] = size_of(u[0]) > most ? size_of(u[0]) : most;
    bad[b] = s.pivoting != WEFT_CUDA_PERTURBED && (is_bad || is_nothing(u[0]));
  }
}

/* A thread a right side: what elimination makes of it. */
template <class T>
WEFT_FN void tridiagonal_forward(const T *factors, const int32_t *ways, const T *right, T *solution,
                                 const weft_cuda_bands_t &s) {
  for (int64_t i = first_index(); i < s.batch * s.m; i += index_step()) {
    const int64_t matrix = i / s.m, first = matrix * s.n, column = i - matrix * s.m;
    const T *b = right + first * s.m + column;
    T *x = solution + first * s.m + column, mine = b[0];
    for (int64_t row = 0; row + 1 < s.n; row++) {
      const T next = b[(row + 1) * s.m], f = factors[first + row];
      const int way = ways[first + row];
      x[row * s.m] = way == EXCHANGES ? next : mine;
      mine = way == EXCHANGES ? mine - f * next : way == IS_APART ? next : next - f * mine;
    }
    x[(s.n - 1) * s.m] = mine;
  }
}

/* Row `row` of a solution without what the rows below it give. */
template <class T>
WEFT_FN T without_below(const T *u, const T *x, int64_t row, const weft_cuda_bands_t &s) {
  T v = x[row * s.m];
  if (row < s.n - 1) v = v - u[3 * row + 1] * x[(row + 1) * s.m];
  if (row < s.n - 2) v = v - u[3 * row + 2] * x[(row + 2) * s.m];
  return v;
}

/* A thread a right side. A matrix without an inverse gives NaN; of complex numbers 0, as TensorFlow's. */
template <class T>
WEFT_FN void tridiagonal_backward(const T *us, const int32_t *bad, T *solution, const weft_cuda_bands_t &s) {
  for (int64_t i = first_index(); i < s.batch * s.m; i += index_step()) {
    const int64_t matrix = i / s.m;
    const T *u = us + matrix * s.n * 3;
    T *x = solution + matrix * s.n * s.m + (i - matrix * s.m);
    for (int64_t row = s.n - 1; row >= 0; row--) {
      x[row * s.m] = bad[matrix] != 0 ? number_of<T>(scalar<T>::is_complex ? (real_t<T>)0 : (real_t<T>)NAN)
                                      : without_below(u, x, row, s) / u[3 * row];
    }
  }
}

/* ---- perturbed pivots ---- */

template <class R>
struct limits;
template <>
struct limits<float> {
  WEFT_FN float least() { return float_of(0x00800000u); } /* FLT_MIN */
  WEFT_FN float epsilon() { return float_of(0x34000000u); }
};
template <>
struct limits<double> {
  WEFT_FN double least() { return double_of(0x0010000000000000u); }
  WEFT_FN double epsilon() { return double_of(0x3cb0000000000000u); }
};

/* A pivot so small that the row divided by it overflows is made larger, or both are scaled. */
template <class T>
WEFT_FN T perturbed(T pivot, real_t<T> by, T *row, int64_t m) {
  typedef real_t<T> R;
  const R safe = limits<R>::least(), big = 1 / safe;
  R size = size_of(pivot), most = 0;
  if (size >= 1) return pivot;
  by = by > safe ? by : safe;
  by = (R)copysign(by, real_of(pivot));
  for (int64_t j = 0; j < m; j++) most = size_of(row[j]) > most ? size_of(row[j]) : most;
  for (bool stops = false; size < 1 && !stops; size = size_of(pivot)) {
    const bool is_tiny = size < safe;
    if (is_tiny ? size == 0 || most * safe > size : most > size * big) {
      pivot = pivot + number_of<T>(by);
      by *= 2;
    } else {
      for (int64_t j = 0; is_tiny && j < m; j++) row[j] = times(row[j], big);
      if (is_tiny) pivot = times(pivot, big);
      stops = true;
    }
  }
  return pivot;
}

/* A thread a matrix: a pivot depends on all right sides. */
template <class T>
WEFT_FN void tridiagonal_perturbed(const T *us, const real_t<T> *largest, T *solution,
                                   const weft_cuda_bands_t &s) {
  for (int64_t b = first_index(); b < s.batch; b += index_step()) {
    const T *u = us + b * s.n * 3;
    T *x = solution + b * s.n * s.m;
    for (int64_t row = s.n - 1; row >= 0; row--) {
      T *of = x + row * s.m;
      for (int64_t j = 0; j < s.m; j++) of[j] = without_below(u, x + j, row, s);
      const T pivot = perturbed(u[3 * row], limits<real_t<T>>::epsilon() * largest[b], of, s.m);
      for (int64_t j = 0; j < s.m; j++) of[j] = of[j] * (number_of<T>(1) / pivot);
    }
  }
}

/* ---- products ---- */

template <class T>
WEFT_FN void tridiagonal_product(const T *super, const T *diagonal, const T *sub, const T *b, T *y,
                                 const weft_cuda_bands_t &s) {
  const int64_t count = s.batch * s.n * s.m;
  for (int64_t x = first_index(); x < count; x += index_step()) {
    const int64_t at = x / s.m, row = at % s.n; /* at: among the rows of all matrices */
    T sum = b[x] * diagonal[at];
    if (row > 0) sum = sum + b[x - s.m] * sub[at];
    if (row < s.n - 1) sum = sum + b[x + s.m] * super[at];
    y[x] = sum;
  }
}

/* ---- triangular matrices ---- */

/* Row r of a lower matrix has element (r, r - d) at a[d, r]; of an upper one (r, r + d) at a[bands - 1 - d,
 * r]. */
template <class T>
WEFT_FN T band_element(const T *a, int64_t band, int64_t i, int64_t j, const weft_cuda_bands_t &s) {
  return s.is_adjoint != 0 ? conjugate(a[band * s.n + j]) : a[band * s.n + i];
}

/* A thread a right side. */
template <class T>
WEFT_FN void banded_triangular(const T *matrices, T *solution, const weft_cuda_bands_t &s) {
  const bool forward = s.is_lower != s.is_adjoint;
  for (int64_t k = first_index(); k < s.batch * s.m; k += index_step()) {
    const int64_t matrix = k / s.m;
    const T *a = matrices + matrix * s.bands * s.n;
    T *x = solution + matrix * s.n * s.m + (k - matrix * s.m);
    for (int64_t step = 0; step < s.n; step++) {
      const int64_t i = forward ? step : s.n - 1 - step;
      T v = x[i * s.m];
      for (int64_t d = 1; d < s.bands && d <= step; d++) {
        const int64_t j = forward ? i - d : i + d;
        v = v - band_element(a, s.is_lower != 0 ? d : s.bands - 1 - d, i, j, s) * x[j * s.m];
      }
      x[i * s.m] = v / band_element(a, s.is_lower != 0 ? (int64_t)0 : s.bands - 1, i, i, s);
    }
  }
}

/* bad: the diagonal of the first matrix, which alone TensorFlow looks at, has a 0 or begins with NaN. */
template <class T>
WEFT_FN void banded_check(const T *matrices, int32_t *bad, const weft_cuda_bands_t &s) {
  const T *diagonal = matrices + (s.is_lower != 0 ? (int64_t)0 : s.bands - 1) * s.n;
  for (int64_t i = first_index(); i < s.n; i += index_step()) {
    const real_t<T> v = size_of(diagonal[i]);
    if (v == 0 || (i == 0 && v != v)) *bad = 1;
  }
}

}  // namespace weft

using namespace weft;

#define ONE(name, type, parameters, call) \
  WEFT_CUDA_KERNEL(weft_##name##_##type, parameters) { call; }
#define BANDS(f, type)                                                                                    \
  ONE(tridiagonal_factors, type,                                                                          \
      (const type *diagonals, type *u, type *factors, int32_t *ways, real_t<type> *largest, int32_t *bad, \
       weft_cuda_bands_t s),                                                                              \
      tridiagonal_factors(diagonals, u, factors, ways, largest, bad, s))                                  \
  ONE(tridiagonal_forward, type,                                                                          \
      (const type *factors, const int32_t *ways, const type *b, type *x, weft_cuda_bands_t s),            \
      tridiagonal_forward(factors, ways, b, x, s))                                                        \
  ONE(tridiagonal_backward, type, (const type *u, const int32_t *bad, type *x, weft_cuda_bands_t s),      \
      tridiagonal_backward(u, bad, x, s))                                                                 \
  ONE(tridiagonal_perturbed, type,                                                                        \
      (const type *u, const real_t<type> *largest, type *x, weft_cuda_bands_t s),                         \
      tridiagonal_perturbed(u, largest, x, s))                                                            \
  ONE(tridiagonal_product, type,                                                                          \
      (const type *super, const type *diagonal, const type *sub, const type *b, type *y,                  \
       weft_cuda_bands_t s),                                                                              \
      tridiagonal_product(super, diagonal, sub, b, y, s))                                                 \
  ONE(banded_triangular, type, (const type *a, type *x, weft_cuda_bands_t s), banded_triangular(a, x, s)) \
  ONE(banded_check, type, (const type *a, int32_t *bad, weft_cuda_bands_t s), banded_check(a, bad, s))
WEFT_CUDA_F32_F64(BANDS, bands)
WEFT_CUDA_COMPLEX(BANDS, bands)
