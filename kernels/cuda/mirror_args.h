/* kernels/cuda/mirror_args.h - a tensor and the one that is padded with its mirror images. */
#ifndef WEFT_KERNELS_CUDA_MIRROR_ARGS_H_
#define WEFT_KERNELS_CUDA_MIRROR_ARGS_H_

#include "kernels/cuda/args.h"

/* Both are dense. Dimension d begins before[d] elements behind the padded one's. */
typedef struct weft_cuda_mirror {
  int64_t n; /* elements of the result */
  int32_t rank;
  int32_t offset; /* 1: the border itself is not repeated, 0: it is */
  int64_t inner[WEFT_CUDA_DIMS], outer[WEFT_CUDA_DIMS], before[WEFT_CUDA_DIMS];
} weft_cuda_mirror_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_mirror_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_MIRROR_ARGS_H_ */
