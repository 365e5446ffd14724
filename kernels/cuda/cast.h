/* kernels/cuda/cast.h - elements of one type as elements of another. */
#ifndef WEFT_KERNELS_CUDA_CAST_H_
#define WEFT_KERNELS_CUDA_CAST_H_

#include "kernels/cuda/common.h"

/* Enqueues the conversion of n elements in the device's memory, of types that Cast has. */
WEFT_Failure *weft_cuda_convert(WEFT_KernelContext *c, int from_dtype, const void *from, int to_dtype,
                                void *to, int64_t n);

#endif /* WEFT_KERNELS_CUDA_CAST_H_ */
