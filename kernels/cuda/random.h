/* kernels/cuda/random.h - the generators that random numbers come from. */
#ifndef WEFT_KERNELS_CUDA_RANDOM_H_
#define WEFT_KERNELS_CUDA_RANDOM_H_

#include "kernels/cuda/common.h"

enum { WEFT_CUDA_BLOCKS_PER_ELEMENT = 256 }; /* that a stream gives, whatever is used: as in TensorFlow */

/* Philox4x32-10 with this key, from the counter (low, high) on. */
typedef struct weft_cuda_generator {
  uint64_t key, low, high;
} weft_cuda_generator_t;

/* The generator of a pair of seeds, which input i in the host's memory is. Failures: INVALID_ARGUMENT. */
WEFT_Failure *weft_cuda_generator_from_seed(WEFT_KernelContext *c, int i, weft_cuda_generator_t *out);
/* That of a key and a counter, which inputs i and i + 1 in the host's memory are; input i + 2 is the
 * algorithm. Failures: INVALID_ARGUMENT. */
WEFT_Failure *weft_cuda_generator_from_key(WEFT_KernelContext *c, int i, weft_cuda_generator_t *out);
/* Takes the numbers of n elements out of the node's stream. Failures: as of random_take() (weft/device.h). */
WEFT_Failure *weft_cuda_generator_take(WEFT_KernelContext *c, uint64_t n, weft_cuda_generator_t *out);

#endif /* WEFT_KERNELS_CUDA_RANDOM_H_ */
