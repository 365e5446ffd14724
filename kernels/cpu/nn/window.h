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

enum { WEFT_SPACE = 3 }; /* spatial dimensions: depth, height, width. An image has a depth of 1 */

/* What the attributes of a window op say, of each spatial dimension. */
typedef struct weft_window_attrs {
  bool channels_first;
  int num_space; /* 2 or 3: images or volumes */
  weft_padding_t padding;
  int64_t ksize[WEFT_SPACE], stride[WEFT_SPACE], dilation[WEFT_SPACE], pads[WEFT_SPACE][2];
  int64_t ksize_channel, stride_channel; /* of pooling; else 1 */
  bool has_batch_in_index;               /* of pooling with the maxima's places */
  /* SAME: where strides are longer than the window, half of what is left over lies in front. So it is with
   * volumes, going forward. */
  bool is_centred;
} weft_window_attrs_t;

/* One spatial dimension of a node that runs. */
typedef struct weft_window {
  int64_t in, k, stride, dilation, out, before; /* `before`: cells of padding in front */
} weft_window_t;
#define WEFT_WINDOW_ONE ((weft_window_t){.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1})

/* State: a weft_window_attrs_t, from strides, padding, explicit_paddings, data_format; of a pool ksize, of a
 * convolution dilations. The length of `strides` says how many spatial dimensions there are. Errors:
 * INVALID_ARGUMENT, UNIMPLEMENTED in TensorFlow's words; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pool_prepare(const weft_kernel_setup_t *setup, void **out_state);
WEFT_MUST_CHECK weft_status_t *weft_conv_prepare(const weft_kernel_setup_t *setup, void **out_state);
/* Of depthwise ops and of filters' gradients: what a convolution does not implement is INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_strict_conv_prepare(const weft_kernel_setup_t *setup, void **out_state);
/* Takes n values in data_format's order apart: one for each spatial dimension (1 for those that are not
 * there) and the channels'. `what`: "ksize", "strides". Errors: INVALID_ARGUMENT: n is not num_space + 2. */
WEFT_MUST_CHECK weft_status_t *weft_window_values(const weft_window_attrs_t *a, const int64_t *values, int n,
                                                  const char *what, int64_t out[WEFT_SPACE],
                                                  int64_t *out_channel);
/* Errors: INVALID_ARGUMENT if the window does not fit. */
WEFT_MUST_CHECK weft_status_t *weft_window_plan(const weft_window_attrs_t *a, int dim, int64_t in, int64_t k,
                                                weft_window_t *out);
/* The same of each spatial dimension of images of shape x, which has the rank that it must have. */
WEFT_MUST_CHECK weft_status_t *weft_windows_plan(const weft_window_attrs_t *a, const weft_shape_t *x,
                                                 const int64_t k[WEFT_SPACE], weft_window_t out[WEFT_SPACE]);

/* Dimensions of images in the layout of the attributes: channels; spatial dimension `dim` of WEFT_SPACE. */
static inline int64_t weft_image_channels(const weft_window_attrs_t *a, const weft_shape_t *s) {
  return s->dims[a->channels_first ? 1 : a->num_space + 1];
}
static inline int weft_image_axis(const weft_window_attrs_t *a, int dim) {
  return dim - (WEFT_SPACE - a->num_space) + (a->channels_first ? 2 : 1);
}
static inline int64_t weft_image_dim(const weft_window_attrs_t *a, const weft_shape_t *s, int dim) {
  return dim < WEFT_SPACE - a->num_space ? 1 : s->dims[weft_image_axis(a, dim)];
}
/* A shape of n images, in the layout of the attributes or with channels last. */
weft_shape_t weft_image_shape(const weft_window_attrs_t *a, bool channels_first, int64_t n,
                              const int64_t space[WEFT_SPACE], int64_t channels);

/* t [N,C,...] as a new tensor [N,...,C], or back; the caller owns it. */
WEFT_MUST_CHECK weft_status_t *weft_to_channels_last(weft_kernel_ctx_t *ctx, const weft_tensor_t *t,
                                                     weft_tensor_t **out);
WEFT_MUST_CHECK weft_status_t *weft_to_channels_first(weft_kernel_ctx_t *ctx, const weft_tensor_t *t,
                                                      weft_tensor_t **out);

/* Numbers from `begin` up to `end`; none where `end` is not greater. */
typedef struct weft_window_span {
  int64_t begin, end;
} weft_window_span_t;

/* The cells of the input under output o's window, without dilation. */
static inline weft_window_span_t weft_window_cells(const weft_window_t *w, int64_t o) {
  const int64_t from = o * w->stride - w->before, to = from + w->k;
  return (weft_window_span_t){from < 0 ? 0 : from, to < w->in ? to : w->in};
}

/* The outputs whose windows may have one of the cells [begin, end): no other window has one. */
static inline weft_window_span_t weft_window_outputs(const weft_window_t *w, int64_t begin, int64_t end) {
  const int64_t before = begin + w->before - w->k, most = (end - 1 + w->before) / w->stride + 1;
  return (weft_window_span_t){before < 0 ? 0 : before / w->stride + 1, most < w->out ? most : w->out};
}

/* What the maximum of nothing, or of nothing but NaN, is: the lowest finite number of a type. */
static inline double weft_lowest(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_F16: return -65504;
    case WEFT_BF16: return -0x1.fep127;
    case WEFT_F32: return -0x1.fffffep127;
    case WEFT_F64: return -0x1.fffffffffffffp1023;
    case WEFT_I8: return INT8_MIN;
    case WEFT_I16: return INT16_MIN;
    case WEFT_I32: return INT32_MIN;
    case WEFT_I64: return -0x1p63;
    default: return 0;
  }
}

#endif /* WEFT_KERNELS_CPU_NN_WINDOW_H_ */
