/* kernels/cuda/sparse_args.h - products of a sparse matrix with a dense one. */
#ifndef WEFT_KERNELS_CUDA_SPARSE_ARGS_H_
#define WEFT_KERNELS_CUDA_SPARSE_ARGS_H_

#include "kernels/cuda/args.h"

/* out [m, n] = a [m, k] · b [k, n]; an adjoint a has its indices, an adjoint b its dimensions the other way
 * round. */
typedef struct weft_cuda_sparse_product {
  int64_t m, k, n;
  int32_t adjoint_a, adjoint_b, index_bytes;
} weft_cuda_sparse_product_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_sparse_product_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_SPARSE_ARGS_H_ */
