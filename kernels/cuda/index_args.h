/* kernels/cuda/index_args.h - where a scatter writes. */
#ifndef WEFT_KERNELS_CUDA_INDEX_ARGS_H_
#define WEFT_KERNELS_CUDA_INDEX_ARGS_H_

#include "kernels/cuda/args.h"

/* What values that meet in one place become. */
enum {
  WEFT_CUDA_FOLD_ADD,
  WEFT_CUDA_FOLD_SUB,
  WEFT_CUDA_FOLD_MUL,
  WEFT_CUDA_FOLD_DIV,
  WEFT_CUDA_FOLD_MIN,
  WEFT_CUDA_FOLD_MAX
};

/* Piece i of `num` is folded into, or put at, the place that `depth` indices name in dims; a piece has
 * `inner` elements. A place that is none is left out. */
typedef struct weft_cuda_scatter {
  const void *indices;
  int64_t num, inner;
  int64_t dims[WEFT_CUDA_DIMS];
  int32_t depth, index_bytes;
  int32_t how;       /* WEFT_CUDA_FOLD_... */
  int32_t is_scalar; /* one value is all of the pieces */
} weft_cuda_scatter_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_scatter_t &s, F f) {
  f(s.indices);
}
#endif

#endif /* WEFT_KERNELS_CUDA_INDEX_ARGS_H_ */
