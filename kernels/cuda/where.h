/* kernels/cuda/where.h - the elements of a tensor that are not zero: counted by the device, then listed. */
#ifndef WEFT_KERNELS_CUDA_WHERE_H_
#define WEFT_KERNELS_CUDA_WHERE_H_

#include "kernels/cuda/common.h"

/* A part of what a row with finish() has in memory of host_scratch(). */
typedef struct weft_cuda_where_told {
  int64_t count; /* how many elements are not zero; the device writes it */
  void *places;  /* in the device's memory: where each piece's elements begin in the list */
} weft_cuda_where_told_t;

/* In compute(): enqueues the count of the elements of x that are not zero. x: real, boolean or complex, of
 * one dimension or more. Failures: RESOURCE_EXHAUSTED. */
WEFT_Failure *weft_cuda_where_count(WEFT_KernelContext *c, const WEFT_TensorView *x,
                                    weft_cuda_where_told_t *told);
/* In finish(): enqueues the list of their coordinates in row-major order, int64 [told->count, x's rank], to
 * `to` in the device's memory. */
WEFT_Failure *weft_cuda_where_write(WEFT_KernelContext *c, const WEFT_TensorView *x,
                                    const weft_cuda_where_told_t *told, void *to);

#endif /* WEFT_KERNELS_CUDA_WHERE_H_ */
