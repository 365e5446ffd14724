/* kernels/cpu/nn/window.h - sliding windows: the arithmetic of convolution and pooling.
 *
 * effective size = (k - 1) * dilation + 1
 *   VALID     out = ceil((in - effective + 1) / stride)
 *   SAME      out = ceil(in / stride); what is missing is padded half before, the odd cell after
 *   EXPLICIT  out = floor((in + before + after - effective) / stride) + 1
 */
#ifndef WEFT_KERNELS_CPU_NN_WINDOW_H_
#define WEFT_KERNELS_CPU_NN_WINDOW_H_

#include "kernels/cpu/loops/common.h"

typedef enum weft_padding { WEFT_PADDING_VALID, WEFT_PADDING_SAME, WEFT_PADDING_EXPLICIT } weft_padding_t;

/* What the attributes of a window op say; [0] is the height, [1] the width. */
typedef struct weft_window_attrs {
  bool nchw;
  weft_padding_t padding;
  int64_t ksize[2], stride[2], dilation[2], pads[2][2];
  int64_t ksize_depth, stride_depth; /* of pooling; else 1 */
  bool has_batch_in_index;           /* of pooling with the maxima's places */
} weft_window_attrs_t;

/* One spatial dimension of a node that runs. */
typedef struct weft_window {
  int64_t in, k, stride, dilation, out, before; /* `before`: cells of padding in front */
} weft_window_t;

/* State: a weft_window_attrs_t, from strides, padding, explicit_paddings, data_format; of a pool ksize, of a
 * convolution dilations. Errors: INVALID_ARGUMENT, UNIMPLEMENTED in TensorFlow's words; RESOURCE_EXHAUSTED.
 */
WEFT_MUST_CHECK weft_status_t *weft_pool_prepare(const weft_kernel_setup_t *setup, void **out_state);
WEFT_MUST_CHECK weft_status_t *weft_conv_prepare(const weft_kernel_setup_t *setup, void **out_state);
/* Checks four values (in data_format's order) and puts the spatial ones into out[2], the depth's into
 * *out_depth. `what`: "ksize", "strides". */
WEFT_MUST_CHECK weft_status_t *weft_window_four(const int64_t *values, int n, bool nchw, const char *what,
                                                int64_t *out, int64_t *out_depth);
/* Errors: INVALID_ARGUMENT if the window does not fit. */
WEFT_MUST_CHECK weft_status_t *weft_window_plan(const weft_window_attrs_t *a, int dim, int64_t in, int64_t k,
                                                weft_window_t *out);

/* t [N,C,H,W] as a new tensor [N,H,W,C], or back; the caller owns it. */
WEFT_MUST_CHECK weft_status_t *weft_to_nhwc(weft_kernel_ctx_t *ctx, const weft_tensor_t *t,
                                            weft_tensor_t **out);
WEFT_MUST_CHECK weft_status_t *weft_from_nhwc(weft_kernel_ctx_t *ctx, const weft_tensor_t *t,
                                              weft_tensor_t **out);

#endif /* WEFT_KERNELS_CPU_NN_WINDOW_H_ */
