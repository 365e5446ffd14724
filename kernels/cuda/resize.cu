/* kernels/cuda/resize.cu - images of another size, and gradients.
 *
 * Positions are computed in single precision with each step rounded, as on the CPU
 * (kernels/cpu/image/resize.h): which pixels a result is made of depends on it. Gradients are gathered, but
 * for the bicubic one: each pixel adds up what the pixels of the result give that it is part of, in their
 * order.
 */
#include "kernels/cuda/atomics.cuh"
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

/* ---- bicubic: kernels/cpu/image/resize_bicubic.c ---- */

const int TAPS = 4, STEPS = 1024;

/* The pixels along one dimension that a result is made of. */
struct cubic_taps {
  int64_t at[TAPS];
  float weight[TAPS];
};

/* The weight of a pixel `step`/1024 away, and that of the one behind it. */
WEFT_FN float near_weight(double a, int64_t step) {
  const float x = (float)((double)step / STEPS);
  return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}
WEFT_FN float far_weight(double a, int64_t step) {
  const float x = (float)((double)step / STEPS) + 1;
  return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

WEFT_CALLED_FN cubic_taps taps_of(const weft_cuda_resize_t &r, int d, int64_t i) {
  const bool is_centred = r.half_pixels != 0;
  const double a = is_centred ? -0.5 : -0.75;
  const float at =
      is_centred ? multiplied((float)i + 0.5f, r.scale[d]) - 0.5f : multiplied((float)i, r.scale[d]);
  const int64_t below = (int64_t)floorf(at);
  const int64_t step = (int64_t)rintf(multiplied(at - (float)below, (float)STEPS));
  cubic_taps t = {
      {0},
      {far_weight(a, step), near_weight(a, step), near_weight(a, STEPS - step), far_weight(a, STEPS - step)}};
  for (int k = 0; k < TAPS; k++) {
    const int64_t wanted = below - 1 + k;
    t.at[k] = wanted < 0 ? 0 : wanted < r.in[d] ? wanted : r.in[d] - 1;
    if (is_centred && t.at[k] != wanted) t.weight[k] = 0;
  }
  const float sum = t.weight[0] + t.weight[1] + t.weight[2] + t.weight[3];
  if (is_centred && fabsf(sum) >= 1000 * 1.17549435e-38f) {
    const float by = 1 / sum;
    for (int k = 0; k < TAPS; k++) t.weight[k] *= by;
  }
  return t;
}

WEFT_FN float bicubic(const float *x, const weft_cuda_resize_t &r, int64_t i) {
  const pixel_place p = pixel_locate(i, r.out, r.channels);
  const cubic_taps v = taps_of(r, 0, p.at[0]), h = taps_of(r, 1, p.at[1]);
  float sum = 0;
  for (int across = 0; across < TAPS; across++) {
    float column = 0;
    for (int up = 0; up < TAPS; up++)
      column += x[pixel_at(p, r.in, r.channels, v.at[up], h.at[across])] * v.weight[up];
    sum += column * h.weight[across];
  }
  return sum;
}

/* Each of the 16 pixels gets its part of the gradient. */
template <class T>
WEFT_FN void bicubic_grad(const float *dy, T *dx, const weft_cuda_resize_t &r, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const pixel_place p = pixel_locate(i, r.out, r.channels);
    const cubic_taps v = taps_of(r, 0, p.at[0]), h = taps_of(r, 1, p.at[1]);
    for (int up = 0; up < TAPS; up++) {
      for (int across = 0; across < TAPS; across++) {
        add_atomically(&dx[pixel_at(p, r.in, r.channels, v.at[up], h.at[across])],
                       (T)dy[i] * v.weight[up] * h.weight[across]);
      }
    }
  }
}

/* ---- areas: kernels/cpu/image/resize_area.c ---- */

/* The pixels [begin, end) along one dimension that a result covers. */
struct covered_span {
  int64_t begin, end;
  float from, to; /* where it begins and ends */
};
WEFT_FN covered_span span_of(int64_t i, float scale) {
  covered_span s = {0, 0, multiplied((float)i, scale), multiplied((float)(i + 1), scale)};
  s.begin = (int64_t)floorf(s.from);
  s.end = (int64_t)ceilf(s.to);
  return s;
}
/* How much of pixel i it covers. */
WEFT_FN float covered(const covered_span &s, int64_t i, float scale) {
  const bool ends_inside = (float)(i + 1) > s.to;
  if ((float)i < s.from) return ends_inside ? scale : (float)(i + 1) - s.from;
  return ends_inside ? s.to - (float)i : 1;
}
WEFT_FN int64_t clamped(int64_t i, int64_t size) { return i < 0 ? 0 : i < size ? i : size - 1; }

WEFT_FN float area(const float *x, const weft_cuda_resize_t &r, int64_t i) {
  const pixel_place p = pixel_locate(i, r.out, r.channels);
  const covered_span v = span_of(p.at[0], r.scale[0]), h = span_of(p.at[1], r.scale[1]);
  const float first = covered(h, h.begin, r.scale[1]), last = covered(h, h.end - 1, r.scale[1]);
  float sum = 0;
  for (int64_t k = v.begin; k < v.end; k++) {
    const int64_t row = clamped(k, r.in[0]);
    /* the first and the last always count */
    float of_row = x[pixel_at(p, r.in, r.channels, row, clamped(h.begin, r.in[1]))] * first;
    for (int64_t c = h.begin + 1; c < h.end - 1; c++)
      of_row += x[pixel_at(p, r.in, r.channels, row, clamped(c, r.in[1]))];
    if (h.begin + 1 != h.end)
      of_row += x[pixel_at(p, r.in, r.channels, row, clamped(h.end - 1, r.in[1]))] * last;
    sum += of_row * covered(v, k, r.scale[0]);
  }
  return sum * (float)(1.0 / (double)(r.scale[0] * r.scale[1]));
}

}  // namespace weft

using namespace weft;

#define OF_FLOATS(f)                                                                               \
  WEFT_CUDA_KERNEL(weft_resize_##f, (const float *x, float *y, weft_cuda_resize_t r, int64_t n)) { \
    for (int64_t i = first_index(); i < n; i += index_step()) y[i] = f(x, r, i);                   \
  }
OF_FLOATS(area)
OF_FLOATS(bicubic)

#define BICUBIC_GRAD(f, type)                                                                         \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const float *dy, type *dx, weft_cuda_resize_t r, int64_t n)) { \
    bicubic_grad(dy, dx, r, n);                                                                       \
  }
WEFT_CUDA_F32_F64(BICUBIC_GRAD, bicubic_grad)

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
