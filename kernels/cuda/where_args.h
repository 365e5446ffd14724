/* kernels/cuda/where_args.h - the elements that are not zero, in pieces. */
#ifndef WEFT_KERNELS_CUDA_WHERE_ARGS_H_
#define WEFT_KERNELS_CUDA_WHERE_ARGS_H_

#include "kernels/cuda/args.h"

/* n elements, each block's piece of which is WEFT_CUDA_PIECE long; their dimensions. */
typedef struct weft_cuda_where {
  int64_t n, num_pieces;
  int32_t rank;
  int64_t dims[WEFT_CUDA_DIMS];
} weft_cuda_where_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_where_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_WHERE_ARGS_H_ */
