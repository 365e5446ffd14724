/* kernels/cuda/sort_args.h - how many elements a block of the sort has. */
#ifndef WEFT_KERNELS_CUDA_SORT_ARGS_H_
#define WEFT_KERNELS_CUDA_SORT_ARGS_H_

#include "kernels/cuda/args.h"

enum { WEFT_CUDA_SORTED = 2 * WEFT_CUDA_BLOCK };

#endif /* WEFT_KERNELS_CUDA_SORT_ARGS_H_ */
