/* kernels/cuda/window_args.h - what kernels know of windows that slide over images, of batch norms and of
 * response norms. */
#ifndef WEFT_KERNELS_CUDA_WINDOW_ARGS_H_
#define WEFT_KERNELS_CUDA_WINDOW_ARGS_H_

#include "kernels/cuda/args.h"

enum { WEFT_CUDA_SPACE = 3 }; /* depth, height, width; an image has a depth of 1 */

/* Images [batch, space..., channels], or [batch, channels, space...], and the windows over them. Index i of a
 * dimension's output begins at i * stride - before. */
typedef struct weft_cuda_images {
  int64_t batch, channels, multiplier; /* multiplier: output channels for each input channel */
  int64_t in[WEFT_CUDA_SPACE], out[WEFT_CUDA_SPACE], k[WEFT_CUDA_SPACE];
  int64_t stride[WEFT_CUDA_SPACE], dilation[WEFT_CUDA_SPACE], before[WEFT_CUDA_SPACE];
  int32_t channels_first;
} weft_cuda_images_t;

/* A tensor of [outer, channels, inner], of which each channel has n = outer * inner items. Block y takes the
 * items from y times part on, part of them; a block has `width` channels, and its other threads share them.
 */
typedef struct weft_cuda_norm {
  int64_t outer, channels, inner, n, part;
  int32_t width, num_parts, is_training;
  float epsilon, factor; /* factor: how much of the moving averages is the batch's */
} weft_cuda_norm_t;

/* A response normalisation over neighbours among `depth` channels, which come last. */
typedef struct weft_cuda_lrn {
  int64_t depth, radius;
  float bias, alpha, beta;
} weft_cuda_lrn_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_lrn_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_images_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_norm_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_WINDOW_ARGS_H_ */
