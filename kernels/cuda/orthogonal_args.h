/* kernels/cuda/orthogonal_args.h - batches of matrices by columns: QR, and Jacobi's rotations. */
#ifndef WEFT_KERNELS_CUDA_ORTHOGONAL_ARGS_H_
#define WEFT_KERNELS_CUDA_ORTHOGONAL_ARGS_H_

#include "kernels/cuda/args.h"

/* Matrices of n columns of m elements each, column by column, `batch` of them one behind the other. */
typedef struct weft_cuda_columns {
  int64_t batch, m, n;
  int64_t k;     /* the step: a reflection's column, or the round of a sweep */
  int64_t inner; /* columns of Q */
} weft_cuda_columns_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_columns_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_ORTHOGONAL_ARGS_H_ */
