/* kernels/cuda/move.h - copies between tensors of different layouts. */
#ifndef WEFT_KERNELS_CUDA_MOVE_H_
#define WEFT_KERNELS_CUDA_MOVE_H_

#include "kernels/cuda/common.h"

/* Copies the walk's elements: its first tensor begins at element from_at of `from`, its second at element
 * to_at of `to`. Dense copies, transposes and rows of whole vectors are seen. The walk is used up. */
WEFT_Failure *weft_cuda_move(WEFT_KernelContext *c, int dtype, const void *from, int64_t from_at, void *to,
                             int64_t to_at, weft_cuda_walk_t *w);
/* Writes n elements, each a copy of the one at `value` in the device's memory. */
WEFT_Failure *weft_cuda_repeat(WEFT_KernelContext *c, int dtype, const void *value, void *to, int64_t n);

#endif /* WEFT_KERNELS_CUDA_MOVE_H_ */
