/* kernels/cuda/quantize_args.h - tensors of [outer, channels, inner] whose channels have a range each. */
#ifndef WEFT_KERNELS_CUDA_QUANTIZE_ARGS_H_
#define WEFT_KERNELS_CUDA_QUANTIZE_ARGS_H_

#include "kernels/cuda/args.h"

/* How a tensor falls into channels, of `items` elements each. Block y takes the items from y times part on,
 * part of them; a block has `width` channels, a power of two, and its other threads share them. */
typedef struct weft_cuda_channels {
  int64_t channels, inner, items, part;
  int32_t width;
} weft_cuda_channels_t;

/* The integers that a channel's range is fitted to. */
typedef struct weft_cuda_simulation {
  int64_t channels, inner, lowest, highest;
  int32_t is_range_given, rounds_up;
} weft_cuda_simulation_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_channels_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_simulation_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_QUANTIZE_ARGS_H_ */
