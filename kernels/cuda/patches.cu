/* kernels/cuda/patches.cu - windows that slide over images: what each one sees (ExtractImagePatches,
 * ExtractVolumePatches), and Dilation2D, a pool with a number added to each cell before the maximum is taken,
 * with its gradients. Images have the channels last. */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/window_args.h"

namespace weft {

/* ---- patches: [n, d, h, w, cells of the window, c]; cells outside of an image are 0 ---- */

template <class T>
WEFT_FN void patches(const T *x, T *y, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    int64_t rest = i / m.channels, at[3], cell[3];
    const int64_t c = i % m.channels;
    for (int d = 2; d >= 0; d--) {
      cell[d] = rest % m.k[d];
      rest /= m.k[d];
    }
    bool is_inside = true;
    for (int d = 2; d >= 0; d--) {
      at[d] = rest % m.out[d] * m.stride[d] - m.before[d] + cell[d] * m.dilation[d];
      rest /= m.out[d];
      is_inside = is_inside && at[d] >= 0 && at[d] < m.in[d];
    }
    const int64_t from = (((rest * m.in[0] + at[0]) * m.in[1] + at[1]) * m.in[2] + at[2]) * m.channels + c;
    y[i] = is_inside ? x[from] : T{};
  }
}

/* ---- dilation; sums are rounded to the type before they are compared ---- */

struct dilation_place {
  int64_t n, h, w, c;
};
WEFT_FN dilation_place window_of(const weft_cuda_images_t &m, int64_t i) {
  dilation_place p;
  p.c = i % m.channels;
  i /= m.channels;
  p.w = i % m.out[2];
  i /= m.out[2];
  p.h = i % m.out[1];
  p.n = i / m.out[1];
  return p;
}

/* The maximum of a window, and the cell of the filter that gave it: -1, -1 where none did. */
template <class C>
struct dilation_best {
  C value;
  int64_t row, column;
};
template <class T>
WEFT_FN dilation_best<comp_t<T>> best_of(const T *x, const T *filter, const weft_cuda_images_t &m,
                                         const dilation_place &p) {
  const int64_t top = p.h * m.stride[1] - m.before[1], left = p.w * m.stride[2] - m.before[2];
  dilation_best<comp_t<T>> best = {lowest_of<T>(), -1, -1};
  for (int64_t i = 0; i < m.k[1]; i++) {
    const int64_t row = top + i * m.dilation[1];
    if (row < 0 || row >= m.in[1]) continue;
    for (int64_t k = 0; k < m.k[2]; k++) {
      const int64_t column = left + k * m.dilation[2];
      if (column < 0 || column >= m.in[2]) continue;
      const int64_t pixel = (p.n * m.in[1] + row) * m.in[2] + column;
      const comp_t<T> sum =
          rounded<T>(load(x[pixel * m.channels + p.c]) + load(filter[(i * m.k[2] + k) * m.channels + p.c]));
      if (sum > best.value) best = dilation_best<comp_t<T>>{sum, i, k};
    }
  }
  return best;
}

template <class T>
WEFT_FN void dilation(const T *x, const T *filter, T *y, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step())
    store(&y[i], best_of(x, filter, m, window_of(m, i)).value);
}

/* Each window's gradient is added to the pixel, or to the cell of the filter, that its maximum came from: the
 * first one where none gave it. */
template <class T>
WEFT_FN void dilation_grad(const T *x, const T *filter, const T *dy, comp_t<T> *sums, int of_filter,
                           const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const dilation_place p = window_of(m, i);
    const dilation_best<comp_t<T>> best = best_of(x, filter, m, p);
    const comp_t<T> g = load(dy[i]);
    if (of_filter != 0) {
      const int64_t cell = best.row < 0 ? 0 : best.row * m.k[2] + best.column;
      add_atomically(&sums[cell * m.channels + p.c], g);
      continue;
    }
    const int64_t top = p.h * m.stride[1] - m.before[1], left = p.w * m.stride[2] - m.before[2];
    const int64_t row = best.row < 0 ? (top < 0 ? 0 : top) : top + best.row * m.dilation[1],
                  column = best.row < 0 ? (left < 0 ? 0 : left) : left + best.column * m.dilation[2];
    if (row >= m.in[1] || column >= m.in[2]) continue;
    add_atomically(&sums[((p.n * m.in[1] + row) * m.in[2] + column) * m.channels + p.c], g);
  }
}

}  // namespace weft

using namespace weft;

#define PATCHES(f, bytes)                                                                         \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes,                                                            \
                   (const sized_##bytes *x, sized_##bytes *y, weft_cuda_images_t m, int64_t n)) { \
    patches(x, y, m, n);                                                                          \
  }
WEFT_CUDA_SIZED(PATCHES, patches)

#define DILATION(f, type)                                                                           \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                               \
                   (const type *x, const type *filter, type *y, weft_cuda_images_t m, int64_t n)) { \
    dilation(x, filter, y, m, n);                                                                   \
  }
WEFT_CUDA_FLOAT(DILATION, dilation)
#define DILATION_GRAD(f, type)                                                             \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                      \
                   (const type *x, const type *filter, const type *dy, comp_t<type> *sums, \
                    int32_t of_filter, weft_cuda_images_t m, int64_t n)) {                 \
    dilation_grad(x, filter, dy, sums, of_filter, m, n);                                   \
  }
WEFT_CUDA_FLOAT(DILATION_GRAD, dilation_grad)
