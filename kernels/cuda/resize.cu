/* kernels/cuda/resize.cu - images of another size, and gradients.
 *
 * Positions are computed in single precision with each step rounded, as on the CPU
 * (kernels/cpu/image/resize.h): which pixels a result is made of depends on it. Gradients are gathered: each
 * pixel adds up what the pixels of the result give that it is part of, in their order.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/resize_args.h"
#include "kernels/cuda/types.h"

namespace weft {

struct pixel_place {
  int64_t n, at[2], c;
};
WEFT_FN pixel_place pixel_locate(int64_t i, const int64_t *size, int64_t channels) {
  pixel_place p;
  p.c = i % channels;
  i /= channels;
  p.at[1] = i % size[1];
  i /= size[1];
  p.at[0] = i % size[0];
  p.n = i / size[0];
  return p;
}
WEFT_FN int64_t pixel_at(const pixel_place &p, const int64_t *size, int64_t channels, int64_t row,
                         int64_t column) {
  return ((p.n * size[0] + row) * size[1] + column) * channels + p.c;
}

WEFT_FN int64_t bounded(float at, int64_t size) {
  const int64_t i = (int64_t)at;
  return i < 0 ? 0 : i < size ? i : size - 1;
}

/* Pixel i of dimension d of the result lies between two of the original: `part` of the way to the upper one.
 */
struct between_pixels {
  int64_t lower, upper;
  float part;
};
WEFT_FN between_pixels between_of(const weft_cuda_resize_t &r, int d, int64_t i) {
  const float at =
      r.half_pixels != 0 ? multiplied((float)i + 0.5f, r.scale[d]) - 0.5f : multiplied((float)i, r.scale[d]);
  const float below = floorf(at);
  return between_pixels{bounded(below, r.in[d]), bounded(ceilf(at), r.in[d]), at - below};
}

WEFT_FN int64_t nearest_of(const weft_cuda_resize_t &r, int d, int64_t i) {
  const float at = multiplied(r.half_pixels != 0 ? (float)i + 0.5f : (float)i, r.scale[d]);
  return bounded(r.align_corners != 0 ? roundf(at) : floorf(at), r.in[d]);
}

/* Pixels of the result among which are all that pixel `at` of the original is part of. */
struct pixel_range {
  int64_t begin, end;
};
WEFT_FN pixel_range pixels_near(const weft_cuda_resize_t &r, int d, int64_t at) {
  const double low = ((double)at - 1) / r.scale[d], high = ((double)at + 1.5) / r.scale[d];
  int64_t begin = at <= 1 ? 0 : (int64_t)(low - low * 1e-6) - 1;
  int64_t end = at >= r.in[d] - 2 ? r.out[d] : (int64_t)(high + high * 1e-6) + 2;
  if (begin < 0) begin = 0;
  if (end > r.out[d]) end = r.out[d];
  return pixel_range{begin, end};
}

WEFT_FN float mixed(float a, float b, float part) { return a + multiplied(b - a, part); }

template <class T>
WEFT_FN void bilinear(const T *x, float *y, const weft_cuda_resize_t &r, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const pixel_place p = pixel_locate(i, r.out, r.channels);
    const between_pixels v = between_of(r, 0, p.at[0]), h = between_of(r, 1, p.at[1]);
    const float tl = (float)load(x[pixel_at(p, r.in, r.channels, v.lower, h.lower)]),
                tr = (float)load(x[pixel_at(p, r.in, r.channels, v.lower, h.upper)]),
                bl = (float)load(x[pixel_at(p, r.in, r.channels, v.upper, h.lower)]),
                br = (float)load(x[pixel_at(p, r.in, r.channels, v.upper, h.upper)]);
    y[i] = mixed(mixed(tl, tr, h.part), mixed(bl, br, h.part), v.part);
  }
}

template <class T>
WEFT_FN void bilinear_grad(const float *dy, T *dx, const weft_cuda_resize_t &r, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const pixel_place p = pixel_locate(i, r.in, r.channels);
    const pixel_range rows = pixels_near(r, 0, p.at[0]), columns = pixels_near(r, 1, p.at[1]);
    comp_t<T> sum = 0;
    for (int64_t row = rows.begin; row < rows.end; row++) {
      const between_pixels v = between_of(r, 0, row);
      if (v.lower != p.at[0] && v.upper != p.at[0]) continue;
      for (int64_t column = columns.begin; column < columns.end; column++) {
        const between_pixels h = between_of(r, 1, column);
        if (h.lower != p.at[1] && h.upper != p.at[1]) continue;
        const float g = dy[pixel_at(p, r.out, r.channels, row, column)];
        const float up = g * (1 - v.part), down = g * v.part;
        if (v.lower == p.at[0] && h.lower == p.at[1]) sum += (comp_t<T>)(up * (1 - h.part));
        if (v.lower == p.at[0] && h.upper == p.at[1]) sum += (comp_t<T>)(up * h.part);
        if (v.upper == p.at[0] && h.lower == p.at[1]) sum += (comp_t<T>)(down * (1 - h.part));
        if (v.upper == p.at[0] && h.upper == p.at[1]) sum += (comp_t<T>)(down * h.part);
      }
    }
    store(&dx[i], sum);
  }
}

template <class T>
WEFT_FN void nearest(const T *x, T *y, const weft_cuda_resize_t &r, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const pixel_place p = pixel_locate(i, r.out, r.channels);
    y[i] = x[pixel_at(p, r.in, r.channels, nearest_of(r, 0, p.at[0]), nearest_of(r, 1, p.at[1]))];
  }
}

/* Each sum is rounded to the type. */
template <class T>
WEFT_FN void nearest_grad(const T *dy, T *dx, const weft_cuda_resize_t &r, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const pixel_place p = pixel_locate(i, r.in, r.channels);
    const pixel_range rows = pixels_near(r, 0, p.at[0]), columns = pixels_near(r, 1, p.at[1]);
    comp_t<T> sum = 0;
    for (int64_t row = rows.begin; row < rows.end; row++) {
      if (nearest_of(r, 0, row) != p.at[0]) continue;
      for (int64_t column = columns.begin; column < columns.end; column++) {
        if (nearest_of(r, 1, column) != p.at[1]) continue;
        sum = rounded<T>(wrap_add(sum, load(dy[pixel_at(p, r.out, r.channels, row, column)])));
      }
    }
    store(&dx[i], sum);
  }
}

}  // namespace weft

using namespace weft;

#define BILINEAR(f, type)                                                                           \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, float *y, weft_cuda_resize_t r, int64_t n)) { \
    bilinear(x, y, r, n);                                                                           \
  }
WEFT_CUDA_PIXELS(BILINEAR, bilinear)

#define BILINEAR_GRAD(f, type)                                                                        \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const float *dy, type *dx, weft_cuda_resize_t r, int64_t n)) { \
    bilinear_grad(dy, dx, r, n);                                                                      \
  }
WEFT_CUDA_FLOAT(BILINEAR_GRAD, bilinear_grad)

#define NEAREST(f, bytes)                                                                         \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes,                                                            \
                   (const sized_##bytes *x, sized_##bytes *y, weft_cuda_resize_t r, int64_t n)) { \
    nearest(x, y, r, n);                                                                          \
  }
WEFT_CUDA_SIZED(NEAREST, nearest)

#define NEAREST_GRAD(f, type)                                                                        \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *dy, type *dx, weft_cuda_resize_t r, int64_t n)) { \
    nearest_grad(dy, dx, r, n);                                                                      \
  }
WEFT_CUDA_PIXEL_GRADS(NEAREST_GRAD, nearest_grad)
