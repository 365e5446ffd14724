/* kernels/cuda/binary.h - products of elements, for other rows. */
#ifndef WEFT_KERNELS_CUDA_BINARY_H_
#define WEFT_KERNELS_CUDA_BINARY_H_

#include "kernels/cuda/common.h"

/* z, dense in the walk's dimensions, becomes x times y, its first two tensors. Types: those of Mul. The walk
 * is used up. */
WEFT_Failure *weft_cuda_multiply_elements(WEFT_KernelContext *c, int dtype, const void *x, const void *y,
                                          void *z, weft_cuda_walk_t *w);

#endif /* WEFT_KERNELS_CUDA_BINARY_H_ */
