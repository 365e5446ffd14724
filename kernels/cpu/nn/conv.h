/* kernels/cpu/nn/conv.h - a convolution as a step of other kernels. */
#ifndef WEFT_KERNELS_CPU_NN_CONV_H_
#define WEFT_KERNELS_CPU_NN_CONV_H_

#include "kernels/cpu/loops/epilogue.h"
#include "kernels/cpu/nn/window.h"

/* Sets output 0 to the convolution of images or volumes x, in the layout of the attributes, with filter f.
 * Errors: INVALID_ARGUMENT in TensorFlow's words; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_convolve(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a,
                                             const weft_tensor_t *x, weft_tensor_t *f);

/* What Conv2D and DepthwiseConv2dNative compute (ctx->state is what their prepare has made), followed by the
 * epilogue that `binder` gives for the result, which is float with channels last; NULL: by nothing. Errors:
 * as above, and the binder's. */
WEFT_MUST_CHECK weft_status_t *weft_conv2d_then(weft_kernel_ctx_t *ctx, weft_epilogue_binder_t *binder);
WEFT_MUST_CHECK weft_status_t *weft_depthwise_then(weft_kernel_ctx_t *ctx, weft_epilogue_binder_t *binder);

#endif /* WEFT_KERNELS_CPU_NN_CONV_H_ */
