/* kernels/cuda/kernels.h - the tables of kernels, one a family, each ended by a row without an op. */
#ifndef WEFT_KERNELS_CUDA_KERNELS_H_
#define WEFT_KERNELS_CUDA_KERNELS_H_

#include "weft/device.h"

#define WEFT_CUDA_ROWS(family) extern const WEFT_DeviceKernel weft_cuda_##family##_kernels[];
#define WEFT_CUDA_FATBIN(family)
#include "kernels/cuda/families.def"
#undef WEFT_CUDA_ROWS
#undef WEFT_CUDA_FATBIN

#endif /* WEFT_KERNELS_CUDA_KERNELS_H_ */
