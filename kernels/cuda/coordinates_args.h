/* kernels/cuda/coordinates_args.h - the coordinates of a sparse tensor's elements, in one shape or two. */
#ifndef WEFT_KERNELS_CUDA_COORDINATES_ARGS_H_
#define WEFT_KERNELS_CUDA_COORDINATES_ARGS_H_

#include "kernels/cuda/args.h"

/* n rows of from_rank coordinates, int64; to_rank of them in the other shape. */
typedef struct weft_cuda_coordinates {
  int64_t n;
  int32_t from_rank, to_rank;
  int64_t from[WEFT_CUDA_DIMS], to[WEFT_CUDA_DIMS];
} weft_cuda_coordinates_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_coordinates_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_COORDINATES_ARGS_H_ */
