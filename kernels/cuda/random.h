/* kernels/cuda/random.h - the generators that random numbers come from. */
#ifndef WEFT_KERNELS_CUDA_RANDOM_H_
#define WEFT_KERNELS_CUDA_RANDOM_H_

#include "kernels/cuda/common.h"

enum { WEFT_CUDA_BLOCKS_PER_ELEMENT = 256 }; /* that a stream gives, whatever is used: as in TensorFlow */

/* Where an op's random numbers come from. */
typedef enum weft_cuda_source {
  WEFT_CUDA_FROM_STREAM, /* of the node: it goes on from run to run */
  WEFT_CUDA_FROM_SEED,   /* a pair of seeds: one input */
  WEFT_CUDA_FROM_KEY     /* a key, a counter and an algorithm: three inputs */
} weft_cuda_source_t;

/* Philox4x32-10 with this key, from the counter (low, high) on. */
typedef struct weft_cuda_generator {
  weft_cuda_source_t source;
  uint64_t key, low, high;
} weft_cuda_generator_t;

/* The generator that inputs from *at on, in the host's memory, say; *at: the first input behind them. Of a
 * stream it is there only when numbers are taken. Failures: INVALID_ARGUMENT. */
WEFT_Failure *weft_cuda_generator_read(WEFT_KernelContext *c, weft_cuda_source_t source, int *at,
                                       weft_cuda_generator_t *out);
/* The next block of four words, computed by the host. */
void weft_cuda_generator_next(weft_cuda_generator_t *g, uint32_t out[4]);
/* Of a stream: takes the numbers of n elements out of it, once nothing can be wrong any more. Failures: as of
 * random_take() (weft/device.h). */
WEFT_Failure *weft_cuda_generator_take(WEFT_KernelContext *c, uint64_t n, weft_cuda_generator_t *g);

#endif /* WEFT_KERNELS_CUDA_RANDOM_H_ */
