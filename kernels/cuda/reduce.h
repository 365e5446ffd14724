/* kernels/cuda/reduce.h - sums, for other rows. */
#ifndef WEFT_KERNELS_CUDA_REDUCE_H_
#define WEFT_KERNELS_CUDA_REDUCE_H_

#include "kernels/cuda/common.h"

/* y, dense, becomes the sums of x, dense in `dims`, over the dimensions that is_reduced says. Types: those of
 * Sum. No dimension is 0. */
WEFT_Failure *weft_cuda_sum(WEFT_KernelContext *c, int dtype, const void *x, int rank, const int64_t *dims,
                            const bool *is_reduced, void *y);

#endif /* WEFT_KERNELS_CUDA_REDUCE_H_ */
