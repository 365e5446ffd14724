/* kernels/cuda/matrix.cu - bands and diagonals of matrices; cross products. */
#include "kernels/cuda/matrix_args.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* The result may be the operand. lower, upper: diagonals that are kept below and above the main one;
 * negative: all. */
template <class T>
WEFT_FN void band_part(const T *x, T *y, int64_t n, int64_t rows, int64_t columns, int64_t lower,
                       int64_t upper) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t line = i / columns, column = i - line * columns, row = line % rows;
    T v = {};
    if ((lower < 0 || row - column <= lower) && (upper < 0 || column - row <= upper)) v = x[i];
    y[i] = v;
  }
}

WEFT_FN int64_t length_of(const weft_cuda_band_t &b, int64_t d) {
  const int64_t rows = d < 0 ? b.rows + d : b.rows, columns = d > 0 ? b.columns - d : b.columns;
  return rows < columns ? rows : columns;
}

/* Where diagonal d begins in its row. */
WEFT_FN int64_t offset_of(const weft_cuda_band_t &b, int64_t d) {
  const bool is_left = (d >= 0 && b.left_above != 0) || (d <= 0 && b.left_below != 0);
  return is_left ? 0 : b.longest - length_of(b, d);
}

/* x: matrices; y: [matrices, diagonals, longest], n elements. padding: NULL, zeros. */
template <class T>
WEFT_FN void take_band(const T *x, const T *padding, T *y, int64_t n, const weft_cuda_band_t &b) {
  T none = {};
  if (padding != nullptr) none = *padding;
  const int64_t diagonals = b.upper - b.lower + 1;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t line = i / b.longest, matrix = line / diagonals, d = b.upper - (line - matrix * diagonals);
    const int64_t k = i - line * b.longest - offset_of(b, d);
    const int64_t row = k + (d < 0 ? -d : 0), column = k + (d > 0 ? d : 0);
    T v = none;
    if (k >= 0 && k < length_of(b, d)) v = x[(matrix * b.rows + row) * b.columns + column];
    y[i] = v;
  }
}

/* The other way round; y has n elements. What no diagonal has comes from `other`, of y's shape, which may be
 * y; without it, it is the padding. */
template <class T>
WEFT_FN void put_band(const T *x, const T *other, const T *padding, T *y, int64_t n,
                      const weft_cuda_band_t &b) {
  T none = {};
  if (padding != nullptr) none = *padding;
  const int64_t diagonals = b.upper - b.lower + 1;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t line = i / b.columns, column = i - line * b.columns, matrix = line / b.rows,
                  row = line - matrix * b.rows, d = column - row;
    T v = none;
    if (d >= b.lower && d <= b.upper) {
      const int64_t k = (d < 0 ? column : row) + offset_of(b, d);
      v = x[(matrix * diagonals + b.upper - d) * b.longest + k];
    } else if (other != nullptr) {
      v = other[i];
    }
    y[i] = v;
  }
}

/* Every product is rounded to T, as on the CPU. */
template <class T>
WEFT_FN comp_t<T> product(T a, T b) {
  return rounded<T>(wrap_mul(load(a), load(b)));
}
template <class T>
WEFT_FN void cross(const T *a, const T *b, T *y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const T *u = a + 3 * i, *v = b + 3 * i;
    const T u0 = u[0], u1 = u[1], u2 = u[2], v0 = v[0], v1 = v[1], v2 = v[2]; /* y may be a or b */
    store(&y[3 * i], wrap_sub(product(u1, v2), product(u2, v1)));
    store(&y[3 * i + 1], wrap_sub(product(u2, v0), product(u0, v2)));
    store(&y[3 * i + 2], wrap_sub(product(u0, v1), product(u1, v0)));
  }
}

}  // namespace weft

using namespace weft;

#define BAND_PART(f, bytes)                                                                                \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const sized_##bytes *x, sized_##bytes *y, int64_t n, int64_t rows, \
                                        int64_t columns, int64_t lower, int64_t upper)) {                  \
    band_part(x, y, n, rows, columns, lower, upper);                                                       \
  }
WEFT_CUDA_SIZED(BAND_PART, band_part)

#define TAKE_BAND(f, bytes)                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const sized_##bytes *x, const sized_##bytes *padding, \
                                        sized_##bytes *y, int64_t n, weft_cuda_band_t b)) {   \
    take_band(x, padding, y, n, b);                                                           \
  }
WEFT_CUDA_SIZED(TAKE_BAND, take_band)

#define PUT_BAND(f, bytes)                                                                            \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes,                                                                \
                   (const sized_##bytes *x, const sized_##bytes *other, const sized_##bytes *padding, \
                    sized_##bytes *y, int64_t n, weft_cuda_band_t b)) {                               \
    put_band(x, other, padding, y, n, b);                                                             \
  }
WEFT_CUDA_SIZED(PUT_BAND, put_band)

#define CROSS(f, type)                                                                      \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *a, const type *b, type *y, int64_t n)) { \
    cross(a, b, y, n);                                                                      \
  }
WEFT_CUDA_REAL(CROSS, cross_product)
