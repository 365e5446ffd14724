/* kernels/cuda/matrix_args.h - bands of diagonals in batches of matrices. */
#ifndef WEFT_KERNELS_CUDA_MATRIX_ARGS_H_
#define WEFT_KERNELS_CUDA_MATRIX_ARGS_H_

#include "kernels/cuda/args.h"

/* Diagonal d (d > 0 above the main one) of matrices [rows, columns] lies in row upper - d of a tensor
 * [diagonals, longest]: at the left, or at the right, as is said for those above and below the main one. */
typedef struct weft_cuda_band {
  int64_t rows, columns, lower, upper, longest;
  int32_t left_above, left_below;
} weft_cuda_band_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_band_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_MATRIX_ARGS_H_ */
