/* kernels/cpu/nn/conv_general.c - Conv: of images or volumes, with any number of batch dimensions in front.
 */
#include <inttypes.h>

#include "kernels/cpu/nn/conv.h"

WEFT_ATTRS(general, (INTS, strides), (STRING, padding), (INTS, explicit_paddings), (STRING, data_format),
           (INTS, dilations), (INT, batch_dims))

/* n values in data_format's order, of which those of batch and channels are 1, and the others positive. */
static weft_status_t *read_values(const weft_window_attrs_t *a, const weft_attr_t *list, const char *what,
                                  int64_t out[WEFT_SPACE]) {
  int64_t channel = 0;
  WEFT_RETURN_IF_ERROR(weft_window_values(a, list->list.ints, list->n, what, out, &channel));
  if (list->list.ints[0] != 1 || channel != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Current implementation does not support %s in the batch and depth dimensions.", what);
  }
  for (int i = 0; i < WEFT_SPACE; i++) {
    if (out[i] <= 0 || out[i] > INT32_MAX)
      return WEFT_ERROR(INVALID_ARGUMENT, "Spatial %s should be larger than 0.", what);
  }
  return NULL;
}

static weft_status_t *read_paddings(const general_attrs_t *attrs, weft_window_attrs_t *a) {
  const weft_attr_t *pads = attrs->explicit_paddings;
  const int n = 2 * (a->num_space + 2);
  a->padding = weft_str_is(attrs->padding, "SAME")       ? WEFT_PADDING_SAME
               : weft_str_is(attrs->padding, "EXPLICIT") ? WEFT_PADDING_EXPLICIT
                                                         : WEFT_PADDING_VALID;
  if (a->padding != WEFT_PADDING_EXPLICIT) {
    if (pads->n == 0) return NULL;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
  }
  if (pads->n != n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "explicit_paddings attribute must contain %d values, but got: %d", n,
                      pads->n);
  }
  for (int i = 0; i < n; i++) {
    const int64_t v = pads->list.ints[i];
    if (v < 0 || v > INT32_MAX)
      return WEFT_ERROR(INVALID_ARGUMENT, "All elements of explicit_paddings must be nonnegative");
    const int dim = i / 2 - weft_image_axis(a, WEFT_SPACE - a->num_space) + WEFT_SPACE - a->num_space;
    if (dim >= WEFT_SPACE - a->num_space && dim < WEFT_SPACE) {
      a->pads[dim][i % 2] = v;
    } else if (v != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Nonzero explicit padding in the batch or depth dimensions is not supported");
    }
  }
  return NULL;
}

/* What the CPU computes, as in TensorFlow. */
static weft_status_t *check_supported(const weft_window_attrs_t *a) {
  if (a->channels_first && a->num_space == 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "Conv only supports CHANNELS_LAST of volumes on the CPU");
  for (int i = 0; i < WEFT_SPACE && a->num_space == 3; i++) {
    if (a->dilation[i] != 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "Conv only supports dilation rates of 1 of volumes on the CPU");
  }
  return NULL;
}

/* Dimensions [0, n) of s as one, of their product. */
static weft_shape_t merged(const weft_shape_t *s, int n) {
  weft_shape_t out = {.rank = s->rank - n + 1, .dims = {weft_cpu_product(s, 0, n)}};
  for (int i = n; i < s->rank; i++) out.dims[i - n + 1] = s->dims[i];
  return out;
}

/* Output 0 with the batch dimensions of x again. */
static weft_status_t *restore_batch(weft_kernel_ctx_t *ctx, const weft_shape_t *x, int batch_dims) {
  weft_tensor_t *y = ctx->outputs[0].tensor, *view = NULL;
  weft_shape_t shape = *x;
  for (int i = batch_dims; i < x->rank; i++) shape.dims[i] = y->shape.dims[i - batch_dims + 1];
  WEFT_RETURN_IF_ERROR(weft_tensor_view(y, y->dtype, &shape, &view));
  weft_tensor_release(y);
  weft_out_set(ctx, 0, view);
  return NULL;
}

static weft_status_t *read_general(const general_attrs_t *attrs, const weft_shape_t *x, const weft_shape_t *f,
                                   weft_window_attrs_t *a) {
  const int64_t space = x->rank - 1 - attrs->batch_dims;
  if (attrs->batch_dims < 0 || (space != 2 && space != 3)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The input must have 2 or 3 spatial dimensions but got %" PRId64,
                      space);
  }
  if (weft_shape_count(f) == 0) return WEFT_ERROR(INVALID_ARGUMENT, "filter must not have zero elements");
  if (f->rank != space + 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "The filter must be rank %" PRId64 " but got %d", space + 2, f->rank);
  *a = (weft_window_attrs_t){.num_space = (int)space,
                             .channels_first = weft_str_is(attrs->data_format, "CHANNELS_FIRST"),
                             .dilation = {1, 1, 1},
                             .is_centred = space == 3};
  WEFT_RETURN_IF_ERROR(read_values(a, attrs->strides, "strides", a->stride));
  if (attrs->dilations->n > 0)
    WEFT_RETURN_IF_ERROR(read_values(a, attrs->dilations, "dilations", a->dilation));
  WEFT_RETURN_IF_ERROR(read_paddings(attrs, a));
  return weft_shape_count(x) == 0 ? NULL : check_supported(a);
}

static weft_status_t *general(weft_kernel_ctx_t *ctx, const general_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0), *f = weft_in(ctx, 1), *flat = NULL;
  weft_window_attrs_t a;
  WEFT_RETURN_IF_ERROR(read_general(attrs, &x->shape, &f->shape, &a));
  const int batch_dims = (int)attrs->batch_dims, channel_axis = a.channels_first ? 1 : a.num_space + 1;
  const weft_shape_t given = x->shape, shape = merged(&given, batch_dims);
  if (shape.dims[channel_axis] != f->shape.dims[a.num_space]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input depth must be equal to filter depth: %" PRId64 " vs %" PRId64,
                      shape.dims[channel_axis], f->shape.dims[a.num_space]);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_view(x, x->dtype, &shape, &flat));
  weft_status_t *s = weft_convolve(ctx, &a, flat, f);
  weft_tensor_release(flat);
  return s == NULL && batch_dims != 1 ? restore_batch(ctx, &given, batch_dims) : s;
}

/* Groups are refused when the plan is made. */
static weft_status_t *general_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  if (weft_knode_int(setup, "groups") != 1)
    return WEFT_ERROR(UNIMPLEMENTED, "Grouped/Depthwise Convolutions are not supported yet.");
  return weft_attrs_prepare(setup, out_state);
}

const weft_kernel_t weft_cpu_conv_general_kernels[] = {
    {.op = "Conv",
     .type_attr = "T",
     .types = WEFT_SET_FLOATS | WEFT_DTYPE_BIT(WEFT_I32),
     WEFT_COMPUTE_CHECKED(general, general_prepare)},
    {0},
};
