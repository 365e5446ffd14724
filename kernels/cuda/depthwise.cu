/* kernels/cuda/depthwise.cu - depthwise convolution and its gradients: output channel c * multiplier + m is
 * made of input channel c. The filter is [height, width, channels, multiplier]. */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/window.cuh"

namespace weft {

template <class T>
WEFT_FN void depthwise(const T *x, const T *filter, T *y, const weft_cuda_images_t &m, int64_t count) {
  const int64_t depth = m.channels * m.multiplier;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, depth, m.out[1], m.out[2], m.channels_first);
    const image_plane p = plane_of(o.n, o.c / m.multiplier, m.channels, m.in[1], m.in[2], m.channels_first);
    const int64_t h0 = o.h * m.stride[1] - m.before[1], w0 = o.w * m.stride[2] - m.before[2];
    comp_t<T> sum = 0;
    for (int64_t a = 0; a < m.k[1]; a++) {
      const int64_t h = h0 + a * m.dilation[1];
      if (h < 0 || h >= m.in[1]) continue;
      for (int64_t b = 0; b < m.k[2]; b++) {
        const int64_t w = w0 + b * m.dilation[2];
        if (w < 0 || w >= m.in[2]) continue;
        sum += load(x[p.at + h * p.row + w * p.column]) * load(filter[(a * m.k[2] + b) * depth + o.c]);
      }
    }
    store(&y[i], sum);
  }
}

/* The output index of which cell `at` of the input is cell `k` of the window; -1: there is none. */
WEFT_FN int64_t output_over(const weft_cuda_images_t &m, int d, int64_t at, int64_t k) {
  const int64_t from = at + m.before[d] - k * m.dilation[d];
  if (from < 0 || from % m.stride[d] != 0) return -1;
  const int64_t o = from / m.stride[d];
  return o < m.out[d] ? o : -1;
}

template <class T>
WEFT_FN void depthwise_input(const T *dy, const T *filter, T *dx, const weft_cuda_images_t &m,
                             int64_t count) {
  const int64_t depth = m.channels * m.multiplier;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const image_place o = image_locate(i, m.channels, m.in[1], m.in[2], m.channels_first);
    comp_t<T> sum = 0;
    for (int64_t a = 0; a < m.k[1]; a++) {
      const int64_t h = output_over(m, 1, o.h, a);
      if (h < 0) continue;
      for (int64_t b = 0; b < m.k[2]; b++) {
        const int64_t w = output_over(m, 2, o.w, b);
        if (w < 0) continue;
        for (int64_t k = 0; k < m.multiplier; k++) {
          const int64_t c = o.c * m.multiplier + k;
          const image_plane p = plane_of(o.n, c, depth, m.out[1], m.out[2], m.channels_first);
          sum += load(dy[p.at + h * p.row + w * p.column]) * load(filter[(a * m.k[2] + b) * depth + c]);
        }
      }
    }
    store(&dx[i], sum);
  }
}

/* A block has `width` neighbouring channels of the output in a cell of the filter; its other threads share
 * the pixels. Grid: channels, cells. */
template <class T>
WEFT_FN void depthwise_filter(const T *x, const T *dy, T *df, const weft_cuda_images_t &m, int width) {
  WEFT_CUDA_SHARED(comp_t<T>, all, WEFT_CUDA_BLOCK);
  const int64_t depth = m.channels * m.multiplier, pixels = m.batch * m.out[1] * m.out[2];
  const int64_t c = (int64_t)blockIdx.x * width + (int)threadIdx.x % width;
  const int sharer = (int)threadIdx.x / width, sharers = WEFT_CUDA_BLOCK / width;
  for (int64_t cell = blockIdx.y; cell < m.k[1] * m.k[2]; cell += gridDim.y) {
    const int64_t a = cell / m.k[2] * m.dilation[1] - m.before[1],
                  b = cell % m.k[2] * m.dilation[2] - m.before[2];
    comp_t<T> sum = 0;
    for (int64_t i = sharer; c < depth && i < pixels; i += sharers) {
      const int64_t ow = i % m.out[2], oh = i / m.out[2] % m.out[1], n = i / m.out[2] / m.out[1];
      const int64_t h = oh * m.stride[1] + a, w = ow * m.stride[2] + b;
      if (h < 0 || h >= m.in[1] || w < 0 || w >= m.in[2]) continue;
      const image_plane from = plane_of(n, c / m.multiplier, m.channels, m.in[1], m.in[2], m.channels_first);
      const image_plane to = plane_of(n, c, depth, m.out[1], m.out[2], m.channels_first);
      sum +=
          load(x[from.at + h * from.row + w * from.column]) * load(dy[to.at + oh * to.row + ow * to.column]);
    }
    all[threadIdx.x] = sum;
    __syncthreads();
    for (int step = sharers / 2; step > 0; step /= 2) {
      if (sharer < step) all[threadIdx.x] += all[threadIdx.x + step * width];
      __syncthreads();
    }
    if (sharer == 0 && c < depth) store(&df[cell * depth + c], all[threadIdx.x]);
    __syncthreads();
  }
}

}  // namespace weft

using namespace weft;

#define DEPTHWISE(f, type)                                                                                 \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                                      \
                   (const type *x, const type *filter, type *y, weft_cuda_images_t m, int64_t n)) {        \
    depthwise(x, filter, y, m, n);                                                                         \
  }                                                                                                        \
  WEFT_CUDA_KERNEL(weft_##f##_input_##type,                                                                \
                   (const type *dy, const type *filter, type *dx, weft_cuda_images_t m, int64_t n)) {      \
    depthwise_input(dy, filter, dx, m, n);                                                                 \
  }                                                                                                        \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_filter_##type,                                                         \
                         (const type *x, const type *dy, type *df, weft_cuda_images_t m, int32_t width)) { \
    depthwise_filter(x, dy, df, m, width);                                                                 \
  }
WEFT_CUDA_FLOAT(DEPTHWISE, depthwise)
