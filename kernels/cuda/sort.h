/* kernels/cuda/sort.h - numbers sorted in the device's memory. */
#ifndef WEFT_KERNELS_CUDA_SORT_H_
#define WEFT_KERNELS_CUDA_SORT_H_

#include "kernels/cuda/common.h"

/* The elements that `keys` and `order` of weft_cuda_sort() have room for: n rounded up to a power of two. */
int64_t weft_cuda_sort_room(int64_t n);
/* Enqueues the sort of n keys, uint64 in the device's memory. order[k], int64: which key comes k-th; equal
 * keys stay in their order. The rest of both arrays is written, too. */
WEFT_Failure *weft_cuda_sort(WEFT_KernelContext *c, void *keys, void *order, int64_t n);

#endif /* WEFT_KERNELS_CUDA_SORT_H_ */
