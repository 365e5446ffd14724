/* kernels/cuda/index.h - pieces that are put at, or folded into, places of a tensor. */
#ifndef WEFT_KERNELS_CUDA_INDEX_H_
#define WEFT_KERNELS_CUDA_INDEX_H_

#include "kernels/cuda/common.h"
#include "kernels/cuda/index_args.h"

enum { WEFT_CUDA_PUT = -1 }; /* beside WEFT_CUDA_FOLD_...: a value that meets others replaces them */

/* Enqueues the scatter of `updates` into y, of type `dtype`; kind: WEFT_CUDA_FOLD_... or WEFT_CUDA_PUT, which
 * s->how becomes. Complex numbers are added, subtracted or put. */
WEFT_Failure *weft_cuda_scatter(WEFT_KernelContext *c, int kind, int dtype, const void *updates, void *y,
                                weft_cuda_scatter_t *s);

#endif /* WEFT_KERNELS_CUDA_INDEX_H_ */
