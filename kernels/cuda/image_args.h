/* kernels/cuda/image_args.h - what kernels know of crops and of projections of images. */
#ifndef WEFT_KERNELS_CUDA_IMAGE_ARGS_H_
#define WEFT_KERNELS_CUDA_IMAGE_ARGS_H_

#include "kernels/cuda/args.h"

/* Boxes y1, x1, y2, x2 of images [images, size..., channels], each brought to the size `crop`. */
typedef struct weft_cuda_crop {
  int64_t images, channels, num_boxes;
  int64_t size[2], crop[2]; /* height, width */
  int32_t is_nearest;
  float outside; /* what lies outside of the image */
} weft_cuda_crop_t;

typedef struct weft_cuda_projection {
  int64_t channels, in[2], out[2]; /* height, width */
  int64_t transform_stride;        /* 0: one transform for all images */
  int32_t is_bilinear, mode;       /* WEFT_FILL_... */
  float fill;
} weft_cuda_projection_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_crop_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_projection_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_IMAGE_ARGS_H_ */
