/* kernels/cpu/nn/window.c - see the header. */
#include "kernels/cpu/nn/window.h"

#include <inttypes.h>

#include "kernels/cpu/loops/move.h"

weft_status_t *weft_window_values(const weft_window_attrs_t *a, const int64_t *values, int n,
                                  const char *what, int64_t out[WEFT_SPACE], int64_t *out_channel) {
  if (n != a->num_space + 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Sliding window %s field must specify %d dimensions", what,
                      a->num_space + 2);
  }
  for (int i = 0; i < WEFT_SPACE; i++) {
    out[i] = i < WEFT_SPACE - a->num_space ? 1 : values[weft_image_axis(a, i)];
  }
  *out_channel = values[a->channels_first ? 1 : n - 1];
  return NULL;
}

weft_shape_t weft_image_shape(const weft_window_attrs_t *a, bool channels_first, int64_t n,
                              const int64_t space[WEFT_SPACE], int64_t channels) {
  weft_shape_t s = {.rank = a->num_space + 2, .dims = {n}};
  int first = channels_first ? 2 : 1;
  for (int i = 0; i < a->num_space; i++) s.dims[first + i] = space[WEFT_SPACE - a->num_space + i];
  s.dims[channels_first ? 1 : s.rank - 1] = channels;
  return s;
}

/* A list of positive ints by attribute `name`; nothing changes where there is none. */
static weft_status_t *read_values(const weft_kernel_setup_t *setup, const char *name, weft_window_attrs_t *w,
                                  int64_t out[WEFT_SPACE], int64_t *out_channel, int64_t *out_batch) {
  const weft_attr_t *a = weft_knode_attr(setup, name);
  if (a == NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_window_values(w, a->list.ints, a->n, name, out, out_channel));
  *out_batch = a->list.ints[0];
  for (int i = 0; i < a->n; i++) {
    int64_t v = a->list.ints[i];
    if (v > 0 && v <= INT32_MAX) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be positive int32 values, got: %" PRId64, name, v);
  }
  return NULL;
}

static weft_status_t *read_explicit(const weft_kernel_setup_t *setup, weft_window_attrs_t *out) {
  const weft_attr_t *a = weft_knode_attr(setup, "explicit_paddings");
  int n = a == NULL ? 0 : a->n;
  if (out->padding != WEFT_PADDING_EXPLICIT) {
    if (n == 0) return NULL;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
  }
  if (n != 8) {
    return WEFT_ERROR(INVALID_ARGUMENT, "explicit_paddings attribute must contain 8 values, but got: %d", n);
  }
  for (int i = 0; i < 8; i++) {
    int64_t v = a->list.ints[i];
    if (v < 0 || v > INT32_MAX) {
      return WEFT_ERROR(INVALID_ARGUMENT, "All elements of explicit_paddings must be nonnegative");
    }
    int dim = i / 2 - weft_image_axis(out, 0);
    if (dim > 0 && dim < WEFT_SPACE) { /* explicit paddings are of images */
      out->pads[dim][i % 2] = v;
    } else if (v != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Nonzero explicit padding in the batch or depth dimensions is not supported");
    }
  }
  return NULL;
}

/* A pool's window never lies in the padding as a whole. */
static weft_status_t *check_pads(const weft_window_attrs_t *a) {
  static const char *const names[2][2] = {{"Top", "Bottom"}, {"Left", "Right"}};
  for (int i = 0; i < 2; i++) {
    const int dim = WEFT_SPACE - 2 + i;
    for (int side = 0; side < 2; side++) {
      if (a->pads[dim][side] == 0 || a->pads[dim][side] < a->ksize[dim]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "%s padding %" PRId64 " needs to be smaller than the window size %" PRId64,
                        names[i][side], a->pads[dim][side], a->ksize[dim]);
    }
  }
  return NULL;
}

typedef enum window_op { CONVOLUTION, STRICT_CONVOLUTION, POOL } window_op_t;

/* Some ops refuse what Conv2D has not implemented yet; the difference is TensorFlow's. */
static weft_status_t *refused(const weft_window_attrs_t *a, window_op_t op, const char *what) {
  if (a->num_space == 3 || op == STRICT_CONVOLUTION) return WEFT_ERROR(INVALID_ARGUMENT, "%s", what);
  return WEFT_ERROR(UNIMPLEMENTED, "%s", what);
}

/* Nothing slides over batches; only pools slide over channels. */
static weft_status_t *check_outer(const weft_window_attrs_t *a, window_op_t op, int64_t stride_batch,
                                  int64_t other_batch, int64_t dilation_channel) {
  if (op == POOL) {
    if (stride_batch == 1 && other_batch == 1) return NULL;
    return WEFT_ERROR(UNIMPLEMENTED, "Pooling is not yet supported on the batch dimension.");
  }
  if (stride_batch != 1 || a->stride_channel != 1) {
    return refused(a, op,
                   "Current implementation does not yet support strides in the batch and depth dimensions.");
  }
  if (other_batch != 1 || dilation_channel != 1) {
    return refused(
        a, op, "Current implementation does not yet support dilations in the batch and depth dimensions.");
  }
  return NULL;
}

static weft_status_t *read_format(const weft_kernel_setup_t *setup, weft_window_attrs_t *out) {
  const weft_attr_t *strides = weft_knode_attr(setup, "strides"),
                    *format = weft_knode_attr(setup, "data_format");
  out->num_space = strides != NULL && strides->n == 5 ? 3 : 2;
  if (format == NULL) return NULL;
  out->channels_first = weft_str_is(format->s, "NCHW") || weft_str_is(format->s, "NCDHW");
  if (out->channels_first || weft_str_is(format->s, "NHWC") || weft_str_is(format->s, "NDHWC")) {
    out->num_space = (int)format->s.length - 2;
    return NULL;
  }
  return WEFT_ERROR(UNIMPLEMENTED, "data format %.*s is not supported on the CPU", WEFT_STR_ARGS(format->s));
}

static weft_status_t *read_attrs(const weft_kernel_setup_t *setup, window_op_t op, weft_window_attrs_t *out) {
  *out = (weft_window_attrs_t){.ksize = {1, 1, 1},
                               .stride = {1, 1, 1},
                               .dilation = {1, 1, 1},
                               .ksize_channel = 1,
                               .stride_channel = 1};
  WEFT_RETURN_IF_ERROR(read_format(setup, out));
  weft_str_t padding = weft_knode_string(setup, "padding");
  out->padding = weft_str_is(padding, "SAME")       ? WEFT_PADDING_SAME
                 : weft_str_is(padding, "EXPLICIT") ? WEFT_PADDING_EXPLICIT
                                                    : WEFT_PADDING_VALID;
  int64_t stride_batch = 1, other_batch = 1, dilation_channel = 1;
  WEFT_RETURN_IF_ERROR(read_values(setup, "strides", out, out->stride, &out->stride_channel, &stride_batch));
  if (op == POOL) {
    WEFT_RETURN_IF_ERROR(read_values(setup, "ksize", out, out->ksize, &out->ksize_channel, &other_batch));
  } else {
    WEFT_RETURN_IF_ERROR(
        read_values(setup, "dilations", out, out->dilation, &dilation_channel, &other_batch));
  }
  WEFT_RETURN_IF_ERROR(check_outer(out, op, stride_batch, other_batch, dilation_channel));
  if (out->num_space == 3) return NULL; /* what follows is of images only */
  out->has_batch_in_index = op == POOL && weft_knode_bool_or(setup, "include_batch_in_index", false);
  WEFT_RETURN_IF_ERROR(read_explicit(setup, out));
  return op == POOL ? check_pads(out) : NULL;
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, window_op_t op, void **out_state) {
  weft_window_attrs_t a;
  WEFT_RETURN_IF_ERROR(read_attrs(setup, op, &a));
  weft_window_attrs_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = a;
  *out_state = state;
  return NULL;
}

weft_status_t *weft_pool_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  return prepare(setup, POOL, out_state);
}

weft_status_t *weft_conv_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  return prepare(setup, CONVOLUTION, out_state);
}

weft_status_t *weft_strict_conv_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  return prepare(setup, STRICT_CONVOLUTION, out_state);
}

weft_status_t *weft_window_plan(const weft_window_attrs_t *a, int dim, int64_t in, int64_t k,
                                weft_window_t *out) {
  int64_t stride = a->stride[dim], dilation = a->dilation[dim], effective = 0;
  if (stride <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Stride must be > 0, but got %" PRId64, stride);
  if (dilation <= 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Dilation rate must be >= 1, but got %" PRId64, dilation);
  if (k > INT32_MAX || in > INT64_MAX / 4 || !weft_cpu_mul(k - 1, dilation, &effective) ||
      effective > INT64_MAX / 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a window of %" PRId64 " with dilation %" PRId64 " is too large", k,
                      dilation);
  }
  effective++;
  *out = (weft_window_t){.in = in, .k = k, .stride = stride, .dilation = dilation};
  if (a->padding == WEFT_PADDING_SAME) {
    out->out = (in + stride - 1) / stride;
    int64_t missing = (out->out - 1) * stride + effective - in;
    out->before = missing > 0 || a->is_centred ? missing / 2 : 0;
    return NULL;
  }
  int64_t before = a->padding == WEFT_PADDING_EXPLICIT ? a->pads[dim][0] : 0;
  int64_t after = a->padding == WEFT_PADDING_EXPLICIT ? a->pads[dim][1] : 0;
  int64_t room = in + before + after - effective + stride;
  out->before = before;
  out->out = room / stride;
  if (out->out < 0) { /* not `room`: a window that lacks less than a stride gives nothing */
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Computed output size would be negative: %" PRId64 " [input_size: %" PRId64
                      ", effective_filter_size: %" PRId64 ", stride: %" PRId64 "]",
                      out->out, in + before + after, effective, stride);
  }
  return NULL;
}

weft_status_t *weft_windows_plan(const weft_window_attrs_t *a, const weft_shape_t *x,
                                 const int64_t k[WEFT_SPACE], weft_window_t out[WEFT_SPACE]) {
  for (int i = 0; i < WEFT_SPACE; i++) {
    out[i] = WEFT_WINDOW_ONE;
    if (i < WEFT_SPACE - a->num_space) continue;
    WEFT_RETURN_IF_ERROR(weft_window_plan(a, i, weft_image_dim(a, x, i), k[i], &out[i]));
  }
  return NULL;
}

static weft_status_t *permuted(weft_kernel_ctx_t *ctx, const weft_tensor_t *t, const int *perm,
                               weft_tensor_t **out) {
  weft_shape_t shape = {.rank = t->shape.rank};
  int64_t strides[WEFT_MAX_DIMS];
  weft_strides_of(&t->shape, strides);
  weft_move_t m = {.rank = t->shape.rank};
  for (int d = 0; d < m.rank; d++) {
    m.dims[d] = shape.dims[d] = t->shape.dims[perm[d]];
    m.from_strides[d] = strides[perm[d]];
  }
  weft_strides_of(&shape, m.to_strides);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->dtype, &shape, ctx->device->allocator, &y));
  weft_status_t *s = weft_move_run(&m, ctx->device->pool, t, y);
  if (s != NULL) {
    weft_tensor_release(y);
    return s;
  }
  *out = y;
  return NULL;
}

weft_status_t *weft_to_channels_last(weft_kernel_ctx_t *ctx, const weft_tensor_t *t, weft_tensor_t **out) {
  int perm[WEFT_SPACE + 2] = {0}, rank = t->shape.rank;
  for (int d = 1; d < rank; d++) perm[d] = d + 1 < rank ? d + 1 : 1;
  return permuted(ctx, t, perm, out);
}

weft_status_t *weft_to_channels_first(weft_kernel_ctx_t *ctx, const weft_tensor_t *t, weft_tensor_t **out) {
  int perm[WEFT_SPACE + 2] = {0}, rank = t->shape.rank;
  for (int d = 1; d < rank; d++) perm[d] = d == 1 ? rank - 1 : d - 1;
  return permuted(ctx, t, perm, out);
}
