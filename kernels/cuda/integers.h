/* kernels/cuda/integers.h - stdint.h, which NVRTC does not have. */
#ifndef WEFT_KERNELS_CUDA_INTEGERS_H_
#define WEFT_KERNELS_CUDA_INTEGERS_H_

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
#else
#include <stdint.h>
#endif

#endif /* WEFT_KERNELS_CUDA_INTEGERS_H_ */
