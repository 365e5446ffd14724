/* kernels/cuda/pool.cu - maxima and means over windows of images and volumes, and their gradients. What
 * counts as a maximum is what does on the CPU (kernels/cpu/nn/pool_one.tmpl.h): neither padding nor NaN wins.
 *
 * Gradients are gathered: each cell adds up what the windows over it give, in their order, so that results do
 * not change from run to run. Where an op has the maxima as an input, which may be anywhere, they are added
 * by atomic operations.
 */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/window.cuh"

namespace weft {

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

/* The first maximum under a window of `x`: its place, and its value; row -1: there is none. */
template <class T>
struct image_maximum {
  int64_t row, column;
  comp_t<T> value;
};
template <class T>
WEFT_FN image_maximum<T> first_maximum(const T *x, const image_plane &p, const image_span &h,
                                       const image_span &w) {
  image_maximum<T> best = {-1, 0, 0};
  for (int64_t r = h.begin; r < h.end; r++) {
    for (int64_t c = w.begin; c < w.end; c++) {
      const comp_t<T> v = load(x[p.at + r * p.row + c * p.column]);
      if (best.row < 0 || v > best.value) best = image_maximum<T>{r, c, v};
    }
  }
  return best;
}

/* where[i]: the cell h * width + w of the first maximum under window i; -1: there is none. */
template <class T>
WEFT_FN void max_pool_where(const T *x, int32_t *where, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.out[1], m.out[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.in[1], m.in[2], m.channels_first);
    const image_maximum<T> best = first_maximum(x, p, span_under(m, 1, o.h), span_under(m, 2, o.w));
    where[i] = best.row < 0 ? -1 : (int32_t)(best.row * m.in[2] + best.column);
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

/* The maximum under window i, and the number of its element in its image or, with `of_batch`, in all of them.
 */
template <class T>
WEFT_FN void max_pool_number(const T *x, T *y, void *number, int number_bytes, bool of_batch,
                             const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.out[1], m.out[2], false);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.in[1], m.in[2], false);
    const image_maximum<T> best = first_maximum(x, p, span_under(m, 1, o.h), span_under(m, 2, o.w));
    int64_t at = best.row < 0 ? -1 : best.row * p.row + best.column * p.column + o.c;
    if (of_batch) at += o.n * m.in[1] * m.in[2] * m.channels;
    store(&y[i], best.value);
    if (number_bytes == 4) {
      ((int32_t *)number)[i] = (int32_t)at;
    } else {
      ((int64_t *)number)[i] = at;
    }
  }
}

/* dx, which holds zeros: dy of window i is added to the element with its number. A number that is none is
 * left out, as in TensorFlow's kernel of a GPU; the CPU's refuses it. */
template <class T>
WEFT_FN void number_grad_pool(const T *dy, const void *number, int number_bytes, T *dx, int64_t image_in,
                              int64_t image_out, int64_t size, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t at = index_at(number, number_bytes, i) + i / image_out * image_in;
    if (at >= 0 && at < size) add_atomically(&dx[at], load(dy[i]));
  }
}

/* y[i]: what `grad` holds where the first maximum under window i is; 0 where that is below each number. */
template <class T>
WEFT_FN void second_pool(const T *x, const T *grad, T *y, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.out[1], m.out[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c, m.channels, m.in[1], m.in[2], m.channels_first);
    const image_maximum<T> best = first_maximum(x, p, span_under(m, 1, o.h), span_under(m, 2, o.w));
    const bool is_there = best.row >= 0 && best.value >= lowest_of<T>();
    store(&y[i], is_there ? load(grad[p.at + best.row * p.row + best.column * p.column]) : (comp_t<T>)0);
  }
}

/* ---- volumes [n, d, h, w, c]: as on the CPU (kernels/cpu/nn/pool3d.c) not the pools of images with one
 * dimension more ---- */

/* Element i of volumes of `size`: its channel and batch, and the place. */
struct volume_place {
  int64_t n, c, at[WEFT_CUDA_SPACE];
};
WEFT_FN volume_place volume_locate(int64_t i, int64_t channels, const int64_t *size) {
  volume_place p;
  p.c = i % channels;
  i /= channels;
  for (int d = WEFT_CUDA_SPACE - 1; d >= 0; d--) {
    p.at[d] = i % size[d];
    i /= size[d];
  }
  p.n = i;
  return p;
}
WEFT_FN int64_t volume_at(const volume_place &p, int64_t channels, const int64_t *size, int64_t d, int64_t h,
                          int64_t w) {
  return (((p.n * size[0] + d) * size[1] + h) * size[2] + w) * channels + p.c;
}

/* Calls f(the element's number) for each cell under window `o`, in their order, until it returns false. */
template <class F>
WEFT_FN void each_under(const weft_cuda_images_t &m, const volume_place &o, F f) {
  const image_span d = span_under(m, 0, o.at[0]), h = span_under(m, 1, o.at[1]),
                   w = span_under(m, 2, o.at[2]);
  for (int64_t i = d.begin; i < d.end; i++) {
    for (int64_t j = h.begin; j < h.end; j++) {
      for (int64_t k = w.begin; k < w.end; k++) {
        if (!f(volume_at(o, m.channels, m.in, i, j, k))) return;
      }
    }
  }
}
WEFT_FN bool is_cut(const weft_cuda_images_t &m, int d, int64_t o) {
  const int64_t from = o * m.stride[d] - m.before[d];
  return from < 0 || from + m.k[d] > m.in[d];
}

template <class T>
WEFT_FN void max_volume(const T *x, T *y, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const volume_place o = volume_locate(i, m.channels, m.out);
    const bool cut = is_cut(m, 0, o.at[0]) || is_cut(m, 1, o.at[1]) || is_cut(m, 2, o.at[2]);
    comp_t<T> best = cut ? lowest_of<T>() : (comp_t<T>)-INFINITY;
    each_under(m, o, [&](int64_t at) {
      const comp_t<T> v = load(x[at]);
      best = v < best ? best : v;
      return true;
    });
    store(&y[i], best);
  }
}

/* Cells that hold the lowest number are left out. */
template <class T>
WEFT_FN void avg_volume(const T *x, T *y, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    comp_t<T> sum = 0, n = 0;
    each_under(m, volume_locate(i, m.channels, m.out), [&](int64_t at) {
      const comp_t<T> v = load(x[at]);
      if (v == lowest_of<T>()) return true;
      sum = rounded<T>(sum + v);
      n += 1;
      return true;
    });
    store(&y[i], sum / rounded<T>(n));
  }
}

/* The cells of dimension d that the gradient at window `o` goes to. */
WEFT_FN image_span span_reached(const weft_cuda_images_t &m, int d, int64_t o) {
  int64_t from = o * m.stride[d] - m.before[d], size = m.k[d];
  if (from < 0) {
    size += from;
    from = 0;
  }
  if (from + m.k[d] > m.in[d]) size = m.in[d] - from < m.k[d] ? m.in[d] - from : m.k[d];
  return image_span{from, from + (size < 0 ? 0 : size)};
}
/* Windows of dimension d among which are those that reach cell i. */
WEFT_FN image_span windows_near(const weft_cuda_images_t &m, int d, int64_t i) {
  image_span s = windows_over(m, d, i);
  if (m.k[d] > m.in[d]) s.begin = 0;
  return s;
}

/* Calls f(number of the window's element, number of the cells that it reaches) for each window that reaches
 * the cell, in their order. */
template <class F>
WEFT_FN void each_reaching(const weft_cuda_images_t &m, const volume_place &cell, F f) {
  image_span near[WEFT_CUDA_SPACE];
  for (int d = 0; d < WEFT_CUDA_SPACE; d++) near[d] = windows_near(m, d, cell.at[d]);
  for (int64_t i = near[0].begin; i < near[0].end; i++) {
    const image_span d = span_reached(m, 0, i);
    if (cell.at[0] < d.begin || cell.at[0] >= d.end) continue;
    for (int64_t j = near[1].begin; j < near[1].end; j++) {
      const image_span h = span_reached(m, 1, j);
      if (cell.at[1] < h.begin || cell.at[1] >= h.end) continue;
      for (int64_t k = near[2].begin; k < near[2].end; k++) {
        const image_span w = span_reached(m, 2, k);
        if (cell.at[2] < w.begin || cell.at[2] >= w.end) continue;
        f(volume_at(cell, m.channels, m.out, i, j, k),
          (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin));
      }
    }
  }
}

/* A cell that differs from the maximum by less than 1e-5 gets all of dy. */
template <class T>
WEFT_FN void max_grad_volume(const T *x, const T *y, const T *dy, T *dx, const weft_cuda_images_t &m,
                             int64_t count) {
  const comp_t<T> near = rounded<T>((comp_t<T>)1e-5);
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const comp_t<T> v = load(x[i]);
    comp_t<T> sum = 0;
    each_reaching(m, volume_locate(i, m.channels, m.in), [&](int64_t at, int64_t) {
      const comp_t<T> off = rounded<T>(v - load(y[at]));
      if (off < near && -off < near) sum = rounded<T>(sum + load(dy[at]));
    });
    store(&dx[i], sum);
  }
}

template <class T>
WEFT_FN void avg_grad_volume(const T *dy, T *dx, const weft_cuda_images_t &m, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    comp_t<T> sum = 0;
    each_reaching(m, volume_locate(i, m.channels, m.in), [&](int64_t at, int64_t cells) {
      const comp_t<T> share = rounded<T>((comp_t<T>)(1.0f / (float)cells));
      sum = rounded<T>(sum + rounded<T>(load(dy[at]) * share));
    });
    store(&dx[i], sum);
  }
}

/* out[i]: what `grad` holds where the first cell under window i is that equals the maximum; or 0. */
template <class T>
WEFT_FN void second_volume(const T *x, const T *y, const T *grad, T *out, const weft_cuda_images_t &m,
                           int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const comp_t<T> maximum = load(y[i]);
    comp_t<T> found = 0;
    each_under(m, volume_locate(i, m.channels, m.out), [&](int64_t at) {
      if (load(x[at]) != maximum) return true;
      found = load(grad[at]);
      return false;
    });
    store(&out[i], found);
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
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_max_number_##f##_##type, (const type *x, type *y, void *number, int32_t bytes,  \
                                                  int32_t of_batch, weft_cuda_images_t m, int64_t n)) { \
    max_pool_number(x, y, number, bytes, of_batch != 0, m, n);                                          \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_number_grad_##f##_##type,                                                       \
                   (const type *dy, const void *number, int32_t bytes, type *dx, int64_t image_in,      \
                    int64_t image_out, int64_t size, int64_t n)) {                                      \
    number_grad_pool(dy, number, bytes, dx, image_in, image_out, size, n);                              \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_second_##f##_##type,                                                            \
                   (const type *x, const type *grad, type *y, weft_cuda_images_t m, int64_t n)) {       \
    second_pool(x, grad, y, m, n);                                                                      \
  }
WEFT_CUDA_FLOAT(POOL, pool)

#define VOLUME(f, type)                                                                                  \
  WEFT_CUDA_KERNEL(weft_max_##f##_##type, (const type *x, type *y, weft_cuda_images_t m, int64_t n)) {   \
    max_volume(x, y, m, n);                                                                              \
  }                                                                                                      \
  WEFT_CUDA_KERNEL(weft_avg_##f##_##type, (const type *x, type *y, weft_cuda_images_t m, int64_t n)) {   \
    avg_volume(x, y, m, n);                                                                              \
  }                                                                                                      \
  WEFT_CUDA_KERNEL(weft_max_grad_##f##_##type, (const type *x, const type *y, const type *dy, type *dx,  \
                                                weft_cuda_images_t m, int64_t n)) {                      \
    max_grad_volume(x, y, dy, dx, m, n);                                                                 \
  }                                                                                                      \
  WEFT_CUDA_KERNEL(weft_avg_grad_##f##_##type,                                                           \
                   (const type *dy, type *dx, weft_cuda_images_t m, int64_t n)) {                        \
    avg_grad_volume(dy, dx, m, n);                                                                       \
  }                                                                                                      \
  WEFT_CUDA_KERNEL(weft_second_##f##_##type, (const type *x, const type *y, const type *grad, type *out, \
                                              weft_cuda_images_t m, int64_t n)) {                        \
    second_volume(x, y, grad, out, m, n);                                                                \
  }
WEFT_CUDA_F32_BF16(VOLUME, volume)
