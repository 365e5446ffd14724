/* kernels/cuda/plain.h - ops that others begin with: a product or a convolution, and what follows it on each
 * of its elements (fused.c). */
#ifndef WEFT_KERNELS_CUDA_PLAIN_H_
#define WEFT_KERNELS_CUDA_PLAIN_H_

#include <stdbool.h>

#include "kernels/cuda/args.h"
#include "weft/device.h"

/* The functions of a row, with a state and a param of their own. */
typedef struct weft_cuda_plain {
  const char *name; /* the op's */
  const void *param;
  WEFT_Failure *(*prepare)(const WEFT_KernelSetup *s, const void *param, void **out_state);
  /* Makes the outputs and enqueues the work; *out: the first of them. */
  WEFT_Failure *(*compute)(WEFT_KernelContext *c, const void *param, const void *state, WEFT_TensorView *out);
  void (*destroy)(void *state);
  /* NULL, or compute() with what follows, where the op can do that as well: a bias, which input bias_input is
   * (-1: none), then an activation. *out_done: whether it did. It does none where the bias does not fit. */
  WEFT_Failure *(*compute_finished)(WEFT_KernelContext *c, const void *param, const void *state,
                                    int bias_input, weft_cuda_activation_t activation, WEFT_TensorView *out,
                                    bool *out_done);
} weft_cuda_plain_t;

extern const weft_cuda_plain_t weft_cuda_plain_batch_norm, weft_cuda_plain_conv2d, weft_cuda_plain_conv3d,
    weft_cuda_plain_depthwise, weft_cuda_plain_matmul;

#endif /* WEFT_KERNELS_CUDA_PLAIN_H_ */
