/* kernels/cuda/window.cuh - elements of images by their places, and the windows that cover them. */
#ifndef WEFT_KERNELS_CUDA_WINDOW_CUH_
#define WEFT_KERNELS_CUDA_WINDOW_CUH_

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/window_args.h"

namespace weft {

struct image_place {
  int64_t n, c, h, w;
};

/* Where element i lies of images [n, h, w, c], or [n, c, h, w]. */
WEFT_FN image_place image_locate(int64_t i, int64_t channels, int64_t height, int64_t width,
                                 bool channels_first) {
  image_place p;
  if (channels_first) {
    p.w = i % width;
    i /= width;
    p.h = i % height;
    i /= height;
    p.c = i % channels;
    p.n = i / channels;
  } else {
    p.c = i % channels;
    i /= channels;
    p.w = i % width;
    i /= width;
    p.h = i % height;
    p.n = i / height;
  }
  return p;
}

/* An image's channel: element (h, w) lies at h * row + w * column. */
struct image_plane {
  int64_t at, row, column;
};
WEFT_FN image_plane plane_of(int64_t n, int64_t c, int64_t channels, int64_t height, int64_t width,
                             bool channels_first) {
  return channels_first
             ? image_plane{(n * channels + c) * height * width, width, 1}
             : image_plane{n * height * width * channels + c, width * channels, channels};
}

/* The cells [begin, end) of dimension d under window `o`. Without dilation. */
struct image_span {
  int64_t begin, end;
};
WEFT_FN image_span span_under(const weft_cuda_images_t &m, int d, int64_t o) {
  const int64_t from = o * m.stride[d] - m.before[d], to = from + m.k[d];
  return image_span{from < 0 ? 0 : from, to < m.in[d] ? to : m.in[d]};
}

/* The windows [begin, end) of dimension d that cover cell i. Without dilation. */
WEFT_FN image_span windows_over(const weft_cuda_images_t &m, int d, int64_t i) {
  const int64_t at = i + m.before[d], last = at / m.stride[d] + 1, room = at - m.k[d];
  const int64_t first = room < 0 ? 0 : room / m.stride[d] + 1;
  return image_span{first, last < m.out[d] ? last : m.out[d]};
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_WINDOW_CUH_ */
