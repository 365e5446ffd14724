/* kernels/cuda/linalg.h - batches of matrices: the last two dimensions are a matrix, those before it the
 * batch. Failures are INVALID_ARGUMENT, in TensorFlow's words. */
#ifndef WEFT_KERNELS_CUDA_LINALG_H_
#define WEFT_KERNELS_CUDA_LINALG_H_

#include "kernels/cuda/common.h"
#include "kernels/cuda/linalg_args.h"

/* Numbers that linear algebra is computed in. */
#define WEFT_CUDA_SCALAR(m, f) m(f, f32) m(f, f64) m(f, c64) m(f, c128)

/* The first `num` inputs have one rank, 2 or more, and one batch. */
WEFT_Failure *weft_cuda_matrices_check(WEFT_KernelContext *c, int num);
/* The matrices of x, of rank 2 or more: [n, m]. */
weft_cuda_matrices_t weft_cuda_matrices_of(const WEFT_TensorView *x);
/* The matrices b [n, m] that a [.., n] is applied to, whose batches broadcast: the batch, of *out_rank
 * dimensions, and n and m behind it to dims [WEFT_CUDA_DIMS]. */
WEFT_Failure *weft_cuda_matrices_broadcast(const WEFT_TensorView *a, const WEFT_TensorView *b, int *out_rank,
                                           int64_t *dims);
/* Enqueues a copy of x's matrices to `to`, repeated for the batch `dims` of `rank` dimensions. */
WEFT_Failure *weft_cuda_matrices_repeat(WEFT_KernelContext *c, const WEFT_TensorView *x, int rank,
                                        const int64_t *dims, void *to);

#endif /* WEFT_KERNELS_CUDA_LINALG_H_ */
