/* kernels/cuda/depthwise.c - rows of DepthwiseConv2dNative and its gradients. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/plain.h"
#include "kernels/cuda/window.h"

WEFT_CUDA_INSTANCES(forward_instances, depthwise, FLOAT)
WEFT_CUDA_INSTANCES(input_instances, depthwise_input, FLOAT)
WEFT_CUDA_INSTANCES(filter_instances, depthwise_filter, FLOAT)

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  void *state = NULL;
  (void)param;
  WEFT_CUDA_TRY(weft_cuda_windows_prepare(s, WEFT_CUDA_STRICT_CONV, &state));
  const weft_cuda_windows_t *a = state;
  if (a->stride[1] == a->stride[2]) {
    *out = state;
    return NULL;
  }
  free(state);
  return WEFT_CUDA_INVALID(
      "Current implementation only supports equal length strides in the row and column dimensions.");
}

static WEFT_Failure *plan(const weft_cuda_windows_t *a, const WEFT_TensorView *x, const WEFT_TensorView *f,
                          weft_cuda_images_t *m) {
  if (x->rank != 4) return WEFT_CUDA_INVALID("input must be 4-dimensional%s", WEFT_CUDA_SHAPE(x));
  if (f->rank != 4) return WEFT_CUDA_INVALID("filter must be 4-dimensional: %s", WEFT_CUDA_SHAPE(f));
  const int64_t channels = x->dims[weft_cuda_channel_axis(a)];
  if (channels != f->dims[2]) {
    return WEFT_CUDA_INVALID("input and filter must have the same depth: %lld vs %lld", (long long)channels,
                             (long long)f->dims[2]);
  }
  if (f->dims[0] <= 0 || f->dims[1] <= 0)
    return WEFT_CUDA_INVALID("filter must not have zero elements: %s", WEFT_CUDA_SHAPE(f));
  const int64_t k[WEFT_CUDA_SPACE] = {1, f->dims[0], f->dims[1]};
  WEFT_CUDA_TRY(weft_cuda_windows_plan(a, x->dims, k, m));
  m->multiplier = f->dims[3];
  return NULL;
}

static WEFT_Failure *check_gradient(const weft_cuda_windows_t *a, const weft_cuda_images_t *m,
                                    const WEFT_TensorView *x, const WEFT_TensorView *dy) {
  int64_t dims[4];
  const WEFT_TensorView want = {.rank = weft_cuda_images_dims(a, m, true, m->channels * m->multiplier, dims),
                                .dims = dims};
  if (weft_cuda_same_shape(&want, dy)) return NULL;
  return WEFT_CUDA_INVALID("Conv2DSlowBackprop: out_backprop of shape %s does not fit an input of shape %s",
                           WEFT_CUDA_SHAPE(dy), WEFT_CUDA_SHAPE(x));
}

/* The shape that input i holds, in the host's memory. */
static WEFT_Failure *given_shape(WEFT_KernelContext *c, int i, const char *what, int64_t *dims,
                                 WEFT_TensorView *out) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, i, &v);
  if (v.rank != 1 || v.count != 4)
    return WEFT_CUDA_INVALID("%s must have 4 values, not %s", what, WEFT_CUDA_SHAPE(&v));
  for (int d = 0; d < 4; d++) {
    dims[d] = weft_cuda_int_at(&v, d);
    if (dims[d] < 0 || dims[d] > INT32_MAX)
      return WEFT_CUDA_INVALID("%s has a dimension of %lld", what, (long long)dims[d]);
  }
  *out = (WEFT_TensorView){.rank = 4, .dims = dims};
  return NULL;
}

static WEFT_Failure *run(WEFT_KernelContext *c, const void *param, const void *state, WEFT_TensorView *y) {
  const weft_cuda_windows_t *a = state;
  weft_cuda_images_t m;
  WEFT_TensorView x, f;
  int64_t dims[4];
  (void)param;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &f);
  WEFT_CUDA_TRY(plan(a, &x, &f, &m));
  const int rank = weft_cuda_images_dims(a, &m, true, m.channels * m.multiplier, dims);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, y));
  void *args[] = {&x.data, &f.data, &y->data, &m, &y->count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&forward_instances, x.dtype), y->count, 1, args);
}

static WEFT_Failure *forward(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  return run(c, NULL, weft_cuda_host->state(c), &y);
}

const weft_cuda_plain_t weft_cuda_plain_depthwise = {"DepthwiseConv2dNative", NULL, prepare, run, free, NULL};

static WEFT_Failure *of_input(WEFT_KernelContext *c) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, f, dy, dx;
  int64_t dims[4];
  WEFT_CUDA_TRY(given_shape(c, 0, "Conv2DBackpropInput: input_sizes", dims, &x));
  weft_cuda_host->input(c, 1, &f);
  weft_cuda_host->input(c, 2, &dy);
  WEFT_CUDA_TRY(plan(a, &x, &f, &m));
  WEFT_CUDA_TRY(check_gradient(a, &m, &x, &dy));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &dx));
  void *args[] = {&dy.data, &f.data, &dx.data, &m, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&input_instances, dy.dtype), dx.count, 1, args);
}

static WEFT_Failure *of_filter(WEFT_KernelContext *c) {
  enum { WIDTH = 32, MOST_CELLS = 1024 };
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, f, dy, df;
  int64_t dims[4];
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(given_shape(c, 1, "Conv2DBackpropFilter: filter_sizes", dims, &f));
  weft_cuda_host->input(c, 2, &dy);
  WEFT_CUDA_TRY(plan(a, &x, &f, &m));
  WEFT_CUDA_TRY(check_gradient(a, &m, &x, &dy));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &df));
  if (df.count == 0) return NULL;
  int32_t width = m.channels_first ? 1 : WIDTH;
  const int64_t depth = m.channels * m.multiplier, cells = m.k[1] * m.k[2];
  const weft_cuda_geometry_t g = {
      {(unsigned)((depth + width - 1) / width), (unsigned)(cells < MOST_CELLS ? cells : MOST_CELLS), 1},
      {WEFT_CUDA_BLOCK, 1, 1},
      0};
  void *args[] = {&x.data, &dy.data, &df.data, &m, &width};
  return weft_cuda_launch(c, weft_cuda_pick(&filter_instances, x.dtype), &g, args);
}

enum { FIRST = 1, SECOND = 2 };
#define ROW(op_, fn, host)                                                                         \
  {                                                                                                \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = prepare, .compute = fn, \
    .destroy = free, .host_inputs = host                                                           \
  }
const WEFT_DeviceKernel weft_cuda_depthwise_kernels[] = {
    ROW("DepthwiseConv2dNative", forward, 0),
    ROW("DepthwiseConv2dNativeBackpropFilter", of_filter, SECOND),
    ROW("DepthwiseConv2dNativeBackpropInput", of_input, FIRST),
    {0},
};
