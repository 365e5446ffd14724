/* kernels/cuda/fractional.cu - FractionalMaxPool, FractionalAvgPool and their gradients.
 *
 * Gradients are gathered: each cell adds up, in the order of the windows, what those give that have it. The
 * order is the CPU's (kernels/cpu/nn/fractional.c), so that sums are equal.
 */
#include "kernels/cuda/fractional_args.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

#define WEFT_FORMULA WEFT_FN
#include "kernels/formulas/fraction.h"

namespace weft {

/* Cells [first[d], last[d]] of rows and columns. */
struct fraction_window {
  int64_t first[2], last[2];
};
WEFT_FN fraction_window window_of(const weft_cuda_fractions_t &j, int64_t row, int64_t column) {
  fraction_window w;
  weft_fraction_cells(j.starts[0], j.in[0], j.is_overlapping, row, &w.first[0], &w.last[0]);
  weft_fraction_cells(j.starts[1], j.in[1], j.is_overlapping, column, &w.first[1], &w.last[1]);
  return w;
}

/* Element i of the result: its image, its channel and its window. */
struct fraction_place {
  int64_t image, channel, row, column;
};
WEFT_FN fraction_place place_of(int64_t i, const int64_t *size, int64_t channels) {
  fraction_place p;
  p.channel = i % channels;
  i /= channels;
  p.column = i % size[1];
  i /= size[1];
  p.row = i % size[0];
  p.image = i / size[0];
  return p;
}

template <class T>
WEFT_FN void max_pool(const T *x, T *y, const weft_cuda_fractions_t &j, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const fraction_place p = place_of(i, j.out, j.channels);
    const fraction_window w = window_of(j, p.row, p.column);
    T most = lowest_of<T>();
    for (int64_t h = w.first[0]; h <= w.last[0]; h++) {
      for (int64_t v = w.first[1]; v <= w.last[1]; v++) {
        const T cell = x[((p.image * j.in[0] + h) * j.in[1] + v) * j.channels + p.channel];
        if (most < cell) most = cell;
      }
    }
    y[i] = most;
  }
}

template <class T>
WEFT_FN void avg_pool(const T *x, T *y, const weft_cuda_fractions_t &j, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const fraction_place p = place_of(i, j.out, j.channels);
    const fraction_window w = window_of(j, p.row, p.column);
    T sum = 0;
    for (int64_t h = w.first[0]; h <= w.last[0]; h++) {
      for (int64_t v = w.first[1]; v <= w.last[1]; v++)
        sum = wrap_add(sum, x[((p.image * j.in[0] + h) * j.in[1] + v) * j.channels + p.channel]);
    }
    y[i] = sum / (T)((w.last[0] - w.first[0] + 1) * (w.last[1] - w.first[1] + 1));
  }
}

/* ---- gradients ---- */

/* Of one dimension: the windows that have each cell are among those from firsts up to ends. */
WEFT_FN void reach(const int64_t *starts, int64_t in, int64_t out, int is_overlapping,
                   unsigned long long *firsts, unsigned long long *ends) {
  for (int64_t i = first_index(); i < out; i += index_step()) {
    int64_t first, last;
    weft_fraction_cells(starts, in, is_overlapping, i, &first, &last);
    for (int64_t cell = first; cell <= last; cell++) {
      atomicMin(&firsts[cell], (unsigned long long)i);
      atomicMax(&ends[cell], (unsigned long long)i + 1);
    }
  }
}

/* where[i]: the first cell of window i that has its maximum, as the image's row * width + column. A NaN in
 * the first cell is the maximum. *bad: y is not these maxima. */
template <class T>
WEFT_FN void maxima(const T *x, const T *y, int64_t *where, int32_t *bad, const weft_cuda_fractions_t &j,
                    int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const fraction_place p = place_of(i, j.out, j.channels);
    const fraction_window w = window_of(j, p.row, p.column);
    T most = lowest_of<T>();
    int64_t at = -1;
    for (int64_t h = w.first[0]; h <= w.last[0]; h++) {
      for (int64_t v = w.first[1]; v <= w.last[1]; v++) {
        const T cell = x[((p.image * j.in[0] + h) * j.in[1] + v) * j.channels + p.channel];
        if (!(most < cell) && at >= 0) continue;
        most = cell;
        at = h * j.in[1] + v;
      }
    }
    where[i] = at;
    if (at < 0 || most != y[i]) *bad = 1;
  }
}

template <class T>
WEFT_FN void max_grad(const T *dy, const int64_t *where, T *dx, const weft_cuda_fractions_t &j, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const fraction_place p = place_of(i, j.in, j.channels);
    const int64_t cell = p.row * j.in[1] + p.column;
    T sum = 0;
    for (int64_t row = j.firsts[0][p.row]; row < j.ends[0][p.row]; row++) {
      for (int64_t column = j.firsts[1][p.column]; column < j.ends[1][p.column]; column++) {
        const int64_t at = ((p.image * j.out[0] + row) * j.out[1] + column) * j.channels + p.channel;
        if (where[at] == cell) sum = wrap_add(sum, dy[at]);
      }
    }
    dx[i] = sum;
  }
}

/* Each gradient in equal parts to the cells of its window. dx may have more images and channels than dy. */
template <class T>
WEFT_FN void avg_grad(const T *dy, T *dx, int64_t channels, const weft_cuda_fractions_t &j, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const fraction_place p = place_of(i, j.in, channels);
    double sum = 0;
    const bool is_in = p.image < j.images && p.channel < j.channels;
    for (int64_t row = j.firsts[0][p.row]; is_in && row < j.ends[0][p.row]; row++) {
      for (int64_t column = j.firsts[1][p.column]; column < j.ends[1][p.column]; column++) {
        const fraction_window w = window_of(j, row, column);
        if (p.row < w.first[0] || p.row > w.last[0] || p.column < w.first[1] || p.column > w.last[1])
          continue;
        sum += (double)dy[((p.image * j.out[0] + row) * j.out[1] + column) * j.channels + p.channel] /
               (double)((w.last[0] - w.first[0] + 1) * (w.last[1] - w.first[1] + 1));
      }
    }
    dx[i] = (T)sum;
  }
}

}  // namespace weft

using namespace weft;

WEFT_CUDA_KERNEL(weft_fraction_reach, (const int64_t *starts, int64_t in, int64_t out, int32_t is_overlapping,
                                       unsigned long long *firsts, unsigned long long *ends)) {
  reach(starts, in, out, is_overlapping, firsts, ends);
}

#define POOL(f, type)                                                              \
  WEFT_CUDA_KERNEL(weft_fraction_##f##_##type,                                     \
                   (const type *x, type *y, weft_cuda_fractions_t j, int64_t n)) { \
    f(x, y, j, n);                                                                 \
  }
WEFT_CUDA_F32_F64_INDEX(POOL, max_pool)
WEFT_CUDA_F32_F64_INDEX(POOL, avg_pool)

#define MAXIMA(f, type)                                                                            \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, const type *y, int64_t *where, int32_t *bad, \
                                       weft_cuda_fractions_t j, int64_t n)) {                      \
    maxima(x, y, where, bad, j, n);                                                                \
  }
WEFT_CUDA_F32_F64_INDEX(MAXIMA, fraction_where)

#define MAX_GRAD(f, type)                                                                                  \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                                      \
                   (const type *dy, const int64_t *where, type *dx, weft_cuda_fractions_t j, int64_t n)) { \
    max_grad(dy, where, dx, j, n);                                                                         \
  }
WEFT_CUDA_F32_F64_INDEX(MAX_GRAD, fraction_max_grad)

#define AVG_GRAD(f, type)                                                                              \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                                  \
                   (const type *dy, type *dx, int64_t channels, weft_cuda_fractions_t j, int64_t n)) { \
    avg_grad(dy, dx, channels, j, n);                                                                  \
  }
WEFT_CUDA_F32_F64_INDEX(AVG_GRAD, fraction_avg_grad)
