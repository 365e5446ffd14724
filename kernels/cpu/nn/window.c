/* kernels/cpu/nn/window.c - see the header. */
#include "kernels/cpu/nn/window.h"

#include <inttypes.h>

#include "kernels/cpu/loops/move.h"

weft_status_t *weft_window_four(const int64_t *values, int n, bool nchw, const char *what, int64_t *out,
                                int64_t *out_depth) {
  if (n != 4) return WEFT_ERROR(INVALID_ARGUMENT, "Sliding window %s field must specify 4 dimensions", what);
  int h = nchw ? 2 : 1;
  out[0] = values[h];
  out[1] = values[h + 1];
  *out_depth = values[nchw ? 1 : 3];
  return NULL;
}

static weft_status_t *read_four(const weft_kernel_setup_t *setup, const char *name, bool nchw, int64_t *out,
                                int64_t *out_depth, int64_t *out_batch) {
  const weft_attr_t *a = weft_knode_attr(setup, name);
  out[0] = out[1] = *out_depth = *out_batch = 1;
  if (a == NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_window_four(a->list.ints, a->n, nchw, name, out, out_depth));
  *out_batch = a->list.ints[0];
  for (int i = 0; i < 4; i++) {
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
  int h = out->nchw ? 2 : 1;
  for (int i = 0; i < 8; i++) {
    int64_t v = a->list.ints[i];
    if (v < 0 || v > INT32_MAX) {
      return WEFT_ERROR(INVALID_ARGUMENT, "All elements of explicit_paddings must be nonnegative");
    }
    int dim = i / 2 - h;
    if (dim == 0 || dim == 1) {
      out->pads[dim][i % 2] = v;
    } else if (v != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Nonzero explicit padding in the batch or depth dimensions is not supported");
    }
  }
  return NULL;
}

static weft_status_t *read_attrs(const weft_kernel_setup_t *setup, bool is_pool, weft_window_attrs_t *out) {
  *out = (weft_window_attrs_t){
      .padding = WEFT_PADDING_VALID, .dilation = {1, 1}, .ksize = {1, 1}, .ksize_depth = 1};
  const weft_attr_t *format = weft_knode_attr(setup, "data_format");
  out->nchw = format != NULL && weft_str_is(format->s, "NCHW");
  if (format != NULL && !out->nchw && !weft_str_is(format->s, "NHWC")) {
    return WEFT_ERROR(UNIMPLEMENTED, "data format %.*s is not supported on the CPU",
                      WEFT_STR_ARGS(format->s));
  }
  weft_str_t padding = weft_knode_string(setup, "padding");
  if (weft_str_is(padding, "SAME")) out->padding = WEFT_PADDING_SAME;
  if (weft_str_is(padding, "EXPLICIT")) out->padding = WEFT_PADDING_EXPLICIT;
  int64_t dilation_depth = 1, batch[3] = {1, 1, 1};
  WEFT_RETURN_IF_ERROR(read_four(setup, "strides", out->nchw, out->stride, &out->stride_depth, &batch[0]));
  if (is_pool) {
    WEFT_RETURN_IF_ERROR(read_four(setup, "ksize", out->nchw, out->ksize, &out->ksize_depth, &batch[2]));
  } else {
    WEFT_RETURN_IF_ERROR(read_four(setup, "dilations", out->nchw, out->dilation, &dilation_depth, &batch[1]));
  }
  if (is_pool && (batch[0] != 1 || batch[2] != 1)) {
    return WEFT_ERROR(UNIMPLEMENTED, "Pooling is not yet supported on the batch dimension.");
  }
  if (!is_pool && (batch[0] != 1 || out->stride_depth != 1)) {
    return WEFT_ERROR(
        UNIMPLEMENTED,
        "Current implementation does not yet support strides in the batch and depth dimensions.");
  }
  if (batch[1] != 1 || dilation_depth != 1) {
    return WEFT_ERROR(
        UNIMPLEMENTED,
        "Current implementation does not yet support dilations in the batch and depth dimensions.");
  }
  out->has_batch_in_index = is_pool && weft_knode_bool_or(setup, "include_batch_in_index", false);
  return read_explicit(setup, out);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, bool is_pool, void **out_state) {
  weft_window_attrs_t a;
  WEFT_RETURN_IF_ERROR(read_attrs(setup, is_pool, &a));
  weft_window_attrs_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = a;
  *out_state = state;
  return NULL;
}

weft_status_t *weft_pool_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  return prepare(setup, true, out_state);
}

weft_status_t *weft_conv_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  return prepare(setup, false, out_state);
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
    out->before = missing > 0 ? missing / 2 : 0;
    return NULL;
  }
  int64_t before = a->padding == WEFT_PADDING_EXPLICIT ? a->pads[dim][0] : 0;
  int64_t after = a->padding == WEFT_PADDING_EXPLICIT ? a->pads[dim][1] : 0;
  int64_t room = in + before + after - effective + stride;
  out->before = before;
  out->out = room / stride;
  if (room < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Computed output size would be negative: %" PRId64 " [input_size: %" PRId64
                      ", effective_filter_size: %" PRId64 ", stride: %" PRId64 "]",
                      out->out, in + before + after, effective, stride);
  }
  return NULL;
}

static weft_status_t *permuted(weft_kernel_ctx_t *ctx, const weft_tensor_t *t, const int *perm,
                               weft_tensor_t **out) {
  weft_shape_t shape = {.rank = 4};
  int64_t strides[4];
  weft_strides_of(&t->shape, strides);
  weft_move_t m = {.rank = 4};
  for (int d = 0; d < 4; d++) {
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

weft_status_t *weft_to_nhwc(weft_kernel_ctx_t *ctx, const weft_tensor_t *t, weft_tensor_t **out) {
  static const int perm[4] = {0, 2, 3, 1};
  return permuted(ctx, t, perm, out);
}

weft_status_t *weft_from_nhwc(weft_kernel_ctx_t *ctx, const weft_tensor_t *t, weft_tensor_t **out) {
  static const int perm[4] = {0, 3, 1, 2};
  return permuted(ctx, t, perm, out);
}
