/* kernels/cuda/window.c - see the header. */
#include "kernels/cuda/window.h"

#define UNIMPLEMENTED(...) weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED, __VA_ARGS__)

WEFT_Failure *weft_cuda_windows_values(const weft_cuda_windows_t *a, const int64_t *values, int64_t n,
                                       const char *what, int64_t *out, int64_t *out_channel) {
  if (n != a->num_space + 2) {
    return WEFT_CUDA_INVALID("Sliding window %s field must specify %d dimensions", what, a->num_space + 2);
  }
  for (int i = 0; i < WEFT_CUDA_SPACE; i++)
    out[i] = i < WEFT_CUDA_SPACE - a->num_space ? 1 : values[weft_cuda_image_axis(a, i)];
  *out_channel = values[weft_cuda_channel_axis(a)];
  return NULL;
}

/* An attribute of positive numbers; nothing changes where there is none. */
static WEFT_Failure *read_values(const WEFT_KernelSetup *s, const char *name, const weft_cuda_windows_t *a,
                                 int64_t *out, int64_t *out_channel, int64_t *out_batch) {
  int64_t values[WEFT_CUDA_SPACE + 2] = {0};
  const int n = weft_cuda_host->attr_ints(s, name, values, WEFT_CUDA_SPACE + 2);
  if (n < 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_windows_values(a, values, n, name, out, out_channel));
  *out_batch = values[0];
  for (int i = 0; i < n; i++) {
    if (values[i] > 0 && values[i] <= INT32_MAX) continue;
    return WEFT_CUDA_INVALID("%s must be positive int32 values, got: %lld", name, (long long)values[i]);
  }
  return NULL;
}

static WEFT_Failure *read_explicit(const WEFT_KernelSetup *s, weft_cuda_windows_t *out) {
  enum { NUM = 8 }; /* explicit paddings are of images */
  int64_t values[NUM] = {0};
  const int n = weft_cuda_host->attr_ints(s, "explicit_paddings", values, NUM);
  if (out->padding != WEFT_CUDA_EXPLICIT) {
    if (n <= 0) return NULL;
    return WEFT_CUDA_INVALID(
        "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
  }
  if (n != NUM) return WEFT_CUDA_INVALID("explicit_paddings attribute must contain 8 values, but got: %d", n);
  for (int i = 0; i < NUM; i++) {
    if (values[i] < 0 || values[i] > INT32_MAX)
      return WEFT_CUDA_INVALID("All elements of explicit_paddings must be nonnegative");
    const int dim = i / 2 - weft_cuda_image_axis(out, 0);
    if (dim > 0 && dim < WEFT_CUDA_SPACE) {
      out->pads[dim][i % 2] = values[i];
    } else if (values[i] != 0) {
      return WEFT_CUDA_INVALID("Nonzero explicit padding in the batch or depth dimensions is not supported");
    }
  }
  return NULL;
}

/* A pool's window never lies in the padding as a whole. */
static WEFT_Failure *check_pads(const weft_cuda_windows_t *a) {
  static const char *const names[2][2] = {{"Top", "Bottom"}, {"Left", "Right"}};
  for (int i = 0; i < 4; i++) {
    const int dim = WEFT_CUDA_SPACE - 2 + i / 2;
    const int64_t pad = a->pads[dim][i % 2];
    if (pad == 0 || pad < a->ksize[dim]) continue;
    return WEFT_CUDA_INVALID("%s padding %lld needs to be smaller than the window size %lld",
                             names[i / 2][i % 2], (long long)pad, (long long)a->ksize[dim]);
  }
  return NULL;
}

static WEFT_Failure *refused(const weft_cuda_windows_t *a, weft_cuda_window_op_t op, const char *what) {
  if (a->num_space == 3 || op == WEFT_CUDA_STRICT_CONV) return WEFT_CUDA_INVALID("%s", what);
  return UNIMPLEMENTED("%s", what);
}

static WEFT_Failure *check_outer(const weft_cuda_windows_t *a, weft_cuda_window_op_t op, int64_t stride_batch,
                                 int64_t other_batch, int64_t dilation_channel) {
  if (op == WEFT_CUDA_POOL) {
    if (stride_batch == 1 && other_batch == 1) return NULL;
    return UNIMPLEMENTED("Pooling is not yet supported on the batch dimension.");
  }
  if (stride_batch != 1 || a->stride_channel != 1) {
    return refused(a, op,
                   "Current implementation does not yet support strides in the batch and depth dimensions.");
  }
  if (other_batch == 1 && dilation_channel == 1) return NULL;
  return refused(a, op,
                 "Current implementation does not yet support dilations in the batch and depth dimensions.");
}

static bool is_text(const char *text, size_t length, const char *wanted) {
  return text != NULL && length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

static WEFT_Failure *read_format(const WEFT_KernelSetup *s, weft_cuda_windows_t *out) {
  int64_t strides[WEFT_CUDA_SPACE + 2];
  const char *format = NULL, *padding = NULL;
  size_t length = 0, padding_length = 0;
  out->num_space = weft_cuda_host->attr_ints(s, "strides", strides, WEFT_CUDA_SPACE + 2) == 5 ? 3 : 2;
  weft_cuda_host->attr_string(s, "padding", &padding, &padding_length);
  out->padding = is_text(padding, padding_length, "SAME")       ? WEFT_CUDA_SAME
                 : is_text(padding, padding_length, "EXPLICIT") ? WEFT_CUDA_EXPLICIT
                                                                : WEFT_CUDA_VALID;
  if (weft_cuda_host->attr_string(s, "data_format", &format, &length) == 0) return NULL;
  out->channels_first = is_text(format, length, "NCHW") || is_text(format, length, "NCDHW");
  if (!out->channels_first && !is_text(format, length, "NHWC") && !is_text(format, length, "NDHWC"))
    return UNIMPLEMENTED("data format %.*s is not supported", (int)length, format);
  out->num_space = (int)length - 2;
  return NULL;
}

WEFT_Failure *weft_cuda_windows_read(const WEFT_KernelSetup *s, weft_cuda_window_op_t op,
                                     weft_cuda_windows_t *out) {
  *out = (weft_cuda_windows_t){.ksize = {1, 1, 1},
                               .stride = {1, 1, 1},
                               .dilation = {1, 1, 1},
                               .ksize_channel = 1,
                               .stride_channel = 1};
  int64_t stride_batch = 1, other_batch = 1, dilation_channel = 1;
  int batch_in_index = 0;
  (void)weft_cuda_host->attr_bool(s, "include_batch_in_index", &batch_in_index);
  out->batch_in_index = batch_in_index != 0;
  WEFT_CUDA_TRY(read_format(s, out));
  WEFT_CUDA_TRY(read_values(s, "strides", out, out->stride, &out->stride_channel, &stride_batch));
  if (op == WEFT_CUDA_POOL) {
    WEFT_CUDA_TRY(read_values(s, "ksize", out, out->ksize, &out->ksize_channel, &other_batch));
  } else {
    WEFT_CUDA_TRY(read_values(s, "dilations", out, out->dilation, &dilation_channel, &other_batch));
  }
  WEFT_CUDA_TRY(check_outer(out, op, stride_batch, other_batch, dilation_channel));
  if (out->num_space == 3) return NULL;
  WEFT_CUDA_TRY(read_explicit(s, out));
  return op == WEFT_CUDA_POOL ? check_pads(out) : NULL;
}

WEFT_Failure *weft_cuda_windows_prepare(const WEFT_KernelSetup *s, weft_cuda_window_op_t op,
                                        void **out_state) {
  weft_cuda_windows_t a;
  WEFT_CUDA_TRY(weft_cuda_windows_read(s, op, &a));
  weft_cuda_windows_t *state = malloc(sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: windows");
  *state = a;
  *out_state = state;
  return NULL;
}

/* ---- a run ---- */

static WEFT_Failure *plan_one(const weft_cuda_windows_t *a, int dim, int64_t in, int64_t k,
                              weft_cuda_images_t *out) {
  const int64_t stride = a->stride[dim], dilation = a->dilation[dim];
  if (k > INT32_MAX || in > INT32_MAX || (k - 1) * dilation >= INT32_MAX) {
    return WEFT_CUDA_INVALID("a window of %lld with dilation %lld is too large", (long long)k,
                             (long long)dilation);
  }
  const int64_t effective = (k - 1) * dilation + 1;
  out->in[dim] = in;
  out->k[dim] = k;
  out->stride[dim] = stride;
  out->dilation[dim] = dilation;
  if (a->padding == WEFT_CUDA_SAME) {
    out->out[dim] = (in + stride - 1) / stride;
    const int64_t missing = (out->out[dim] - 1) * stride + effective - in;
    out->before[dim] = missing > 0 || a->is_centred ? missing / 2 : 0;
    return NULL;
  }
  const int64_t before = a->padding == WEFT_CUDA_EXPLICIT ? a->pads[dim][0] : 0;
  const int64_t after = a->padding == WEFT_CUDA_EXPLICIT ? a->pads[dim][1] : 0;
  out->before[dim] = before;
  out->out[dim] = (in + before + after - effective + stride) / stride;
  if (out->out[dim] >= 0) return NULL;
  return WEFT_CUDA_INVALID(
      "Computed output size would be negative: %lld [input_size: %lld, effective_filter_size: %lld, stride: "
      "%lld]",
      (long long)out->out[dim], (long long)(in + before + after), (long long)effective, (long long)stride);
}

WEFT_Failure *weft_cuda_windows_plan(const weft_cuda_windows_t *a, const int64_t *dims, const int64_t *k,
                                     weft_cuda_images_t *out) {
  *out = (weft_cuda_images_t){.batch = dims[0],
                              .channels = dims[weft_cuda_channel_axis(a)],
                              .multiplier = 1,
                              .channels_first = a->channels_first};
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) {
    const bool is_there = i >= WEFT_CUDA_SPACE - a->num_space;
    if (is_there) {
      WEFT_CUDA_TRY(plan_one(a, i, dims[weft_cuda_image_axis(a, i)], k[i], out));
    } else {
      out->in[i] = out->out[i] = out->k[i] = out->stride[i] = out->dilation[i] = 1;
    }
  }
  return NULL;
}

int weft_cuda_images_dims(const weft_cuda_windows_t *a, const weft_cuda_images_t *m, bool of_output,
                          int64_t channels, int64_t *dims) {
  dims[0] = m->batch;
  dims[weft_cuda_channel_axis(a)] = channels;
  for (int i = WEFT_CUDA_SPACE - a->num_space; i < WEFT_CUDA_SPACE; i++)
    dims[weft_cuda_image_axis(a, i)] = of_output ? m->out[i] : m->in[i];
  return a->num_space + 2;
}
