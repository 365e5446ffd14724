/* kernels/cuda/pool.cu - maxima and means over windows of images, and their gradients. What counts as a
 * maximum is what does on the CPU (kernels/cpu/nn/pool_one.tmpl.h): neither padding nor NaN wins.
 *
 * Gradients are gathered: each cell adds up what the windows over it give, in their order, so that results do
 * not change from run to run.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/window.cuh"

namespace weft {

template <class T>
WEFT_FN comp_t<T> lowest_of();
template <>
__device__ __forceinline__ float lowest_of<f16>() {
  return -65504.0f;
}
template <>
__device__ __forceinline__ float lowest_of<bf16>() {
  return float_of(0xff7f0000u);
}
template <>
__device__ __forceinline__ float lowest_of<f32>() {
  return float_of(0xff7fffffu);
}
template <>
__device__ __forceinline__ double lowest_of<f64>() {
  return double_of(0xffefffffffffffffu);
}

template <class T>
WEFT_FN void max_pool(const T *x, T *y, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.out[1], m.out[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.in[1], m.in[2], m.channels_first);
    const image_span h = span_under(m, 1, o.h), w = span_under(m, 2, o.w);
    comp_t<T> best = lowest_of<T>();
    for (int64_t r = h.begin; r < h.end; r++) {
      for (int64_t c = w.begin; c < w.end; c++) {
        const comp_t<T> v = load(x[p.at + r * p.row + c * p.column]);
        if (best < v) best = v;
      }
    }
    store(&y[i], best);
  }
}

/* where[i]: the cell h * width + w of the first maximum under window i; -1: there is none. */
template <class T>
WEFT_FN void max_pool_where(const T *x, int32_t *where, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.out[1], m.out[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.in[1], m.in[2], m.channels_first);
    const image_span h = span_under(m, 1, o.h), w = span_under(m, 2, o.w);
    comp_t<T> best = 0;
    int32_t at = -1;
    for (int64_t r = h.begin; r < h.end; r++) {
      for (int64_t c = w.begin; c < w.end; c++) {
        const comp_t<T> v = load(x[p.at + r * p.row + c * p.column]);
        if (at >= 0 && !(v > best)) continue;
        best = v;
        at = (int32_t)(r * m.in[2] + c);
      }
    }
    where[i] = at;
  }
}

template <class T>
WEFT_FN void max_pool_grad(const int32_t *where, const T *dy, T *dx, const weft_cuda_images_t &m,
                           int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.in[1], m.in[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.out[1], m.out[2], m.channels_first);
    const image_span h = windows_over(m, 1, o.h), w = windows_over(m, 2, o.w);
    const int32_t cell = (int32_t)(o.h * m.in[2] + o.w);
    comp_t<T> sum = 0;
    for (int64_t r = h.begin; r < h.end; r++) {
      for (int64_t c = w.begin; c < w.end; c++) {
        const int64_t at = p.at + r * p.row + c * p.column;
        if (where[at] == cell) sum += load(dy[at]);
      }
    }
    store(&dx[i], sum);
  }
}

/* The divisor counts real cells only. */
template <class T>
WEFT_FN void avg_pool(const T *x, T *y, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.out[1], m.out[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.in[1], m.in[2], m.channels_first);
    const image_span h = span_under(m, 1, o.h), w = span_under(m, 2, o.w);
    comp_t<T> sum = 0;
    for (int64_t r = h.begin; r < h.end; r++) {
      for (int64_t c = w.begin; c < w.end; c++) sum += load(x[p.at + r * p.row + c * p.column]);
    }
    store(&y[i], sum / (comp_t<T>)((h.end - h.begin) * (w.end - w.begin)));
  }
}

template <class T>
WEFT_FN void avg_pool_grad(const T *dy, T *dx, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.in[1], m.in[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.out[1], m.out[2], m.channels_first);
    const image_span h = windows_over(m, 1, o.h), w = windows_over(m, 2, o.w);
    comp_t<T> sum = 0;
    for (int64_t r = h.begin; r < h.end; r++) {
      const image_span rows = span_under(m, 1, r);
      for (int64_t c = w.begin; c < w.end; c++) {
        const image_span columns = span_under(m, 2, c);
        sum += load(dy[p.at + r * p.row + c * p.column]) /
               (comp_t<T>)((rows.end - rows.begin) * (columns.end - columns.begin));
      }
    }
    store(&dx[i], sum);
  }
}

}  // namespace weft

using namespace weft;

#define POOL(f, type)                                                                                   \
  WEFT_CUDA_KERNEL(weft_max_##f##_##type, (const type *x, type *y, weft_cuda_images_t m, int64_t n)) {  \
    max_pool(x, y, m, n);                                                                               \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_where_##f##_##type,                                                             \
                   (const type *x, int32_t *where, weft_cuda_images_t m, int64_t n)) {                  \
    max_pool_where(x, where, m, n);                                                                     \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_max_grad_##f##_##type,                                                          \
                   (const int32_t *where, const type *dy, type *dx, weft_cuda_images_t m, int64_t n)) { \
    max_pool_grad(where, dy, dx, m, n);                                                                 \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_avg_##f##_##type, (const type *x, type *y, weft_cuda_images_t m, int64_t n)) {  \
    avg_pool(x, y, m, n);                                                                               \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_avg_grad_##f##_##type,                                                          \
                   (const type *dy, type *dx, weft_cuda_images_t m, int64_t n)) {                       \
    avg_pool_grad(dy, dx, m, n);                                                                        \
  }
WEFT_CUDA_FLOAT(POOL, pool)
