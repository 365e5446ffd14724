/* kernels/cuda/resize_args.h - images of one size and of another. */
#ifndef WEFT_KERNELS_CUDA_RESIZE_ARGS_H_
#define WEFT_KERNELS_CUDA_RESIZE_ARGS_H_

#include "kernels/cuda/args.h"

/* Images [batch, height, width, channels]: `in` is the original, also where its gradient is computed. */
typedef struct weft_cuda_resize {
  int64_t batch, channels;
  int64_t in[2], out[2]; /* height, width */
  float scale[2];        /* pixels of the original for each one of the result */
  int32_t half_pixels, align_corners;
} weft_cuda_resize_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_resize_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_RESIZE_ARGS_H_ */
