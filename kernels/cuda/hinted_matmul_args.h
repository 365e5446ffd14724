/* kernels/cuda/hinted_matmul_args.h - a product whose zeros are skipped. */
#ifndef WEFT_KERNELS_CUDA_HINTED_MATMUL_ARGS_H_
#define WEFT_KERNELS_CUDA_HINTED_MATMUL_ARGS_H_

#include "kernels/cuda/args.h"

enum { WEFT_CUDA_HINTED_TILE = 16 }; /* rows and columns that a block computes: a thread for each element */

/* out [m, n] = op(a) op(b): element [i, j] of an operand lies at i * row + j * column. */
typedef struct weft_cuda_hinted {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;
  int32_t skips_a, skips_b; /* zeros, whatever they meet; at most one of them */
} weft_cuda_hinted_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_hinted_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_HINTED_MATMUL_ARGS_H_ */
