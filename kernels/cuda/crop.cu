/* kernels/cuda/crop.cu - CropAndResize and its gradients, ImageProjectiveTransform.
 *
 * Positions are computed in single precision with each step rounded, as on the CPU (kernels/cpu/image/crop.c,
 * project.c): which pixels a result is made of depends on it.
 */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/image_args.h"
#include "kernels/cuda/types.h"

#define WEFT_FORMULA WEFT_FN
#include "kernels/formulas/pixel.h"

namespace weft {

WEFT_FN int64_t bounded(float at, int64_t size) {
  const int64_t i = (int64_t)at;
  return i < 0 ? 0 : i < size ? i : size - 1;
}

/* ---- crops ---- */

/* Where a row or column of a crop lies in its image. */
struct crop_spot {
  int64_t lower, upper, nearest;
  float part; /* of the way from the lower to the upper one */
  bool is_inside;
};

/* Pixel i of dimension d; `step`: pixels of the image from one to the next. */
WEFT_FN crop_spot spot_of(const weft_cuda_crop_t &j, int d, const float *box, int64_t i, float step) {
  const float low = box[d], high = box[d + 2], last = (float)(j.size[d] - 1);
  const float at = j.crop[d] > 1 ? multiplied(low, last) + multiplied((float)i, step)
                                 : (float)(0.5 * (double)(low + high) * (double)last);
  if (!(at >= 0 && at <= last)) return crop_spot{0, 0, 0, 0, false};
  const float below = floorf(at);
  return crop_spot{bounded(below, j.size[d]), bounded(ceilf(at), j.size[d]), bounded(roundf(at), j.size[d]),
                   at - below, true};
}
WEFT_FN crop_spot spot_along(const weft_cuda_crop_t &j, int d, const float *box, int64_t i) {
  const float step =
      j.crop[d] > 1 ? multiplied(box[d + 2] - box[d], (float)(j.size[d] - 1)) / (float)(j.crop[d] - 1) : 0;
  return spot_of(j, d, box, i, step);
}

struct crop_place {
  int64_t box, at[2], c;
};
WEFT_FN crop_place locate_in_crop(const weft_cuda_crop_t &j, int64_t i) {
  crop_place p;
  p.c = i % j.channels;
  i /= j.channels;
  p.at[1] = i % j.crop[1];
  i /= j.crop[1];
  p.at[0] = i % j.crop[0];
  p.box = i / j.crop[0];
  return p;
}
/* Element (row, column) of channel c of an image. */
WEFT_FN int64_t image_at(const weft_cuda_crop_t &j, int64_t image, int64_t row, int64_t column, int64_t c) {
  return ((image * j.size[0] + row) * j.size[1] + column) * j.channels + c;
}

/* Each term is added to a pixel that others add to, too. */
template <class C>
WEFT_FN void crop_grad(const float *dy, const float *boxes, const int32_t *owners, C *dx,
                       const weft_cuda_crop_t &j, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const crop_place p = locate_in_crop(j, i);
    const float *box = boxes + 4 * p.box;
    const crop_spot v = spot_along(j, 0, box, p.at[0]), h = spot_along(j, 1, box, p.at[1]);
    const int64_t image = owners[p.box];
    if (!v.is_inside || !h.is_inside) continue;
    if (j.is_nearest != 0) {
      add_atomically(&dx[image_at(j, image, v.nearest, h.nearest, p.c)], (C)dy[i]);
      continue;
    }
    const float up = (1 - v.part) * dy[i], down = v.part * dy[i];
    add_atomically(&dx[image_at(j, image, v.lower, h.lower, p.c)], (C)((1 - h.part) * up));
    add_atomically(&dx[image_at(j, image, v.lower, h.upper, p.c)], (C)(h.part * up));
    add_atomically(&dx[image_at(j, image, v.upper, h.lower, p.c)], (C)((1 - h.part) * down));
    add_atomically(&dx[image_at(j, image, v.upper, h.upper, p.c)], (C)(h.part * down));
  }
}

/* How far the place of row or column i moves with the lower and with the higher edge of a box. */
WEFT_FN void moves_of(const weft_cuda_crop_t &j, int d, int64_t i, double *low, double *high) {
  if (j.crop[d] > 1) {
    const float along = (float)i * ((float)(j.size[d] - 1) / (float)(j.crop[d] - 1));
    *low = (double)((float)(j.size[d] - 1) - along);
    *high = (double)along;
  } else {
    *low = *high = 0.5 * (double)(j.size[d] - 1);
  }
}

/* One element of a crop to the gradient of its box: how the image changes there, down and to the right, times
 * how much each edge of the box moves the place. */
WEFT_FN void add_to_edges(const float *x, const float *box, int64_t image, float dy,
                          const weft_cuda_crop_t &j, const crop_place &p, double *sums) {
  float ratio[2];
  for (int d = 0; d < 2; d++) ratio[d] = j.crop[d] > 1 ? (float)(j.size[d] - 1) / (float)(j.crop[d] - 1) : 0;
  const crop_spot v = spot_of(j, 0, box, p.at[0], multiplied(box[2] - box[0], ratio[0])),
                  h = spot_of(j, 1, box, p.at[1], multiplied(box[3] - box[1], ratio[1]));
  if (!v.is_inside || !h.is_inside) return;
  const float tl = x[image_at(j, image, v.lower, h.lower, p.c)],
              tr = x[image_at(j, image, v.lower, h.upper, p.c)],
              bl = x[image_at(j, image, v.upper, h.lower, p.c)],
              br = x[image_at(j, image, v.upper, h.upper, p.c)];
  const float down = ((1 - h.part) * (bl - tl) + h.part * (br - tr)) * dy,
              across = ((1 - v.part) * (tr - tl) + v.part * (br - bl)) * dy;
  double by[4];
  moves_of(j, 0, p.at[0], &by[0], &by[2]);
  moves_of(j, 1, p.at[1], &by[1], &by[3]);
  for (int k = 0; k < 4; k++) sums[k] += (double)(k % 2 == 0 ? down : across) * by[k];
}

/* ---- projections ---- */

/* Where a pixel's channels begin; -1: outside of the image. */
WEFT_FN int64_t pixel_at(const weft_cuda_projection_t &j, int64_t n, float x, float y) {
  const int64_t column = weft_pixel_index(x), row = weft_pixel_index(y);
  if (row < 0 || row >= j.in[0] || column < 0 || column >= j.in[1]) return -1;
  return ((n * j.in[0] + row) * j.in[1] + column) * j.channels;
}

template <class T>
WEFT_FN T projected(const T *in, const float *t, const weft_cuda_projection_t &j, int64_t n, int64_t row,
                    int64_t column, int64_t c) {
  const float fx = (float)column, fy = (float)row;
  const float k = multiplied(t[6], fx) + multiplied(t[7], fy) + 1.0f;
  T fill;
  store(&fill, (comp_t<T>)j.fill);
  if (k == 0) return fill; /* infinitely far away */
  const float x = weft_filled_place(j.mode, (multiplied(t[0], fx) + multiplied(t[1], fy) + t[2]) / k,
                                    j.in[1]),
              y = weft_filled_place(j.mode, (multiplied(t[3], fx) + multiplied(t[4], fy) + t[5]) / k,
                                    j.in[0]);
  if (j.is_bilinear == 0) {
    const int64_t at = pixel_at(j, n, roundf(x), roundf(y));
    return at < 0 ? fill : in[at + c];
  }
  const float left = floorf(x), top = floorf(y), right = left + 1, bottom = top + 1;
  const int64_t at[4] = {pixel_at(j, n, left, top), pixel_at(j, n, right, top), pixel_at(j, n, left, bottom),
                         pixel_at(j, n, right, bottom)};
  float v[4];
  for (int i = 0; i < 4; i++) v[i] = (float)load(at[i] < 0 ? fill : in[at[i] + c]);
  const float upper = multiplied(right - x, v[0]) + multiplied(x - left, v[1]),
              lower = multiplied(right - x, v[2]) + multiplied(x - left, v[3]);
  T result;
  store(&result, (comp_t<T>)(multiplied(bottom - y, upper) + multiplied(y - top, lower)));
  return result;
}

template <class T>
WEFT_FN void project(const T *x, const float *transforms, T *y, const weft_cuda_projection_t &j,
                     int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t c = i % j.channels, pixel = i / j.channels, line = pixel / j.out[1], n = line / j.out[0];
    y[i] = projected(x, transforms + n * j.transform_stride, j, n, line % j.out[0], pixel % j.out[1], c);
  }
}

}  // namespace weft

using namespace weft;

WEFT_CUDA_KERNEL(weft_crop, (const float *x, const float *boxes, const int32_t *owners, float *y,
                             weft_cuda_crop_t j, int64_t n)) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const crop_place p = locate_in_crop(j, i);
    const float *box = boxes + 4 * p.box;
    const crop_spot v = spot_along(j, 0, box, p.at[0]), h = spot_along(j, 1, box, p.at[1]);
    const int64_t image = owners[p.box];
    if (!v.is_inside || !h.is_inside) {
      y[i] = j.outside;
    } else if (j.is_nearest != 0) {
      y[i] = x[image_at(j, image, v.nearest, h.nearest, p.c)];
    } else {
      const float tl = x[image_at(j, image, v.lower, h.lower, p.c)],
                  tr = x[image_at(j, image, v.lower, h.upper, p.c)],
                  bl = x[image_at(j, image, v.upper, h.lower, p.c)],
                  br = x[image_at(j, image, v.upper, h.upper, p.c)];
      const float top = tl + multiplied(tr - tl, h.part), bottom = bl + multiplied(br - bl, h.part);
      y[i] = top + multiplied(bottom - top, v.part);
    }
  }
}

#define GRAD(f, type)                                                                                        \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const float *dy, const float *boxes, const int32_t *owners, type *dx, \
                                       weft_cuda_crop_t j, int64_t n)) {                                     \
    crop_grad(dy, boxes, owners, dx, j, n);                                                                  \
  }
WEFT_CUDA_F32_F64(GRAD, crop_grad)

/* A block has a box at a time. */
WEFT_CUDA_BLOCK_KERNEL(weft_crop_grad_boxes, (const float *dy, const float *x, const float *boxes,
                                              const int32_t *owners, float *out, weft_cuda_crop_t j)) {
  WEFT_CUDA_SHARED(double, shared, WEFT_CUDA_BLOCK * 4);
  const int t = (int)threadIdx.x;
  const int64_t size = j.crop[0] * j.crop[1] * j.channels;
  for (int64_t b = blockIdx.x; b < j.num_boxes; b += gridDim.x) {
    double sums[4] = {0, 0, 0, 0};
    for (int64_t i = t; i < size; i += WEFT_CUDA_BLOCK) {
      const crop_place p = locate_in_crop(j, b * size + i);
      add_to_edges(x, boxes + 4 * b, owners[b], dy[b * size + i], j, p, sums);
    }
    for (int k = 0; k < 4; k++) shared[4 * t + k] = sums[k];
    __syncthreads();
    for (int half = WEFT_CUDA_BLOCK / 2; half > 0; half /= 2) {
      for (int k = 0; k < 4 && t < half; k++) shared[4 * t + k] += shared[4 * (t + half) + k];
      __syncthreads();
    }
    if (t < 4) out[4 * b + t] = (float)shared[t];
    __syncthreads(); /* before the next box uses the memory */
  }
}

#define PROJECT(f, type)                                                                                     \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                                        \
                   (const type *x, const float *transforms, type *y, weft_cuda_projection_t j, int64_t n)) { \
    project(x, transforms, y, j, n);                                                                         \
  }
WEFT_CUDA_PROJECTED(PROJECT, project)
