/* kernels/cuda/pool.c - rows of MaxPool, MaxPoolV2, MaxPoolWithArgmax, AvgPool and their gradients. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/window.h"

WEFT_CUDA_INSTANCES(max_instances, max_pool, FLOAT)
WEFT_CUDA_INSTANCES(where_instances, where_pool, FLOAT)
WEFT_CUDA_INSTANCES(max_grad_instances, max_grad_pool, FLOAT)
WEFT_CUDA_INSTANCES(number_instances, max_number_pool, FLOAT)
WEFT_CUDA_INSTANCES(number_grad_instances, number_grad_pool, FLOAT)
WEFT_CUDA_INSTANCES(second_instances, second_pool, FLOAT)
WEFT_CUDA_INSTANCES(avg_instances, avg_pool, FLOAT)
WEFT_CUDA_INSTANCES(avg_grad_instances, avg_grad_pool, FLOAT)

#define UNIMPLEMENTED(...) weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED, __VA_ARGS__)

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  return weft_cuda_windows_prepare(s, WEFT_CUDA_POOL, out);
}

static WEFT_Failure *plan(const weft_cuda_windows_t *a, int rank, const int64_t *dims,
                          weft_cuda_images_t *m) {
  if (rank != 4) return WEFT_CUDA_INVALID("tensor_in_shape must have 2 spatial dimensions. %d %d", rank, 0);
  WEFT_CUDA_TRY(weft_cuda_windows_plan(a, dims, a->ksize, m));
  if (m->in[1] * m->in[2] <= INT32_MAX) return NULL;
  return WEFT_CUDA_INVALID("an image of %lld x %lld is too large to pool", (long long)m->in[1],
                           (long long)m->in[2]);
}

/* MaxPoolV2 and MaxPoolGradV2 have the window as inputs `at` and `at + 1`. */
static WEFT_Failure *window_inputs(WEFT_KernelContext *c, int at, weft_cuda_windows_t *a) {
  static const char *const names[2] = {"ksize", "strides"};
  for (int i = 0; i < 2; i++) {
    WEFT_TensorView v;
    int64_t four[4] = {1, 1, 1, 1};
    weft_cuda_host->input(c, at + i, &v);
    if (v.rank != 1 || v.count != 4)
      return WEFT_CUDA_INVALID("Sliding window %s field must specify 4 dimensions", names[i]);
    for (int d = 0; d < 4; d++) {
      four[d] = weft_cuda_int_at(&v, d);
      if (four[d] > 0 && four[d] <= INT32_MAX) continue;
      return WEFT_CUDA_INVALID("Sliding window %s must be positive. Got: %lld", names[i], (long long)four[d]);
    }
    if (four[0] != 1) return UNIMPLEMENTED("Pooling is not yet supported on the batch dimension.");
    WEFT_CUDA_TRY(weft_cuda_windows_values(a, four, 4, names[i], i == 0 ? a->ksize : a->stride,
                                           i == 0 ? &a->ksize_channel : &a->stride_channel));
  }
  return NULL;
}

/* ---- forward ---- */

/* Output 0 of the windows; *out_y has no bytes where there is nothing to do. */
static WEFT_Failure *make_output(WEFT_KernelContext *c, const weft_cuda_windows_t *a, weft_cuda_images_t *m,
                                 WEFT_TensorView *x, WEFT_TensorView *out_y) {
  int64_t dims[4];
  weft_cuda_host->input(c, 0, x);
  WEFT_CUDA_TRY(plan(a, x->rank, x->dims, m));
  const int rank = weft_cuda_images_dims(a, m, true, m->channels, dims);
  return weft_cuda_host->output(c, 0, rank, dims, out_y);
}

/* Maxima over groups of adjacent channels: windows over an image that has them as its width. */
static WEFT_Failure *max_depth(WEFT_KernelContext *c, const weft_cuda_windows_t *a) {
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  if (a->ksize[1] != 1 || a->ksize[2] != 1) {
    return UNIMPLEMENTED(
        "MaxPooling supports exactly one of pooling across depth or pooling across width/height.");
  }
  if (a->ksize_channel != a->stride_channel)
    return UNIMPLEMENTED("Depthwise max pooling requires the depth window to equal the depth stride");
  if (x.rank == 4 && !a->channels_first && x.dims[3] % a->ksize_channel != 0)
    return UNIMPLEMENTED("Depthwise max pooling requires the depth window to evenly divide the input depth");
  if (x.rank != 4 || a->channels_first)
    return UNIMPLEMENTED("Depthwise max pooling requires images in the format NHWC");
  const int64_t dims[4] = {x.dims[0], x.dims[1], x.dims[2], x.dims[3] / a->ksize_channel};
  weft_cuda_images_t m = {.batch = 1, .channels = 1, .multiplier = 1};
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) m.in[i] = m.out[i] = m.k[i] = m.stride[i] = m.dilation[i] = 1;
  m.in[1] = m.out[1] = dims[0] * dims[1] * dims[2];
  m.in[2] = x.dims[3];
  m.out[2] = dims[3];
  m.k[2] = m.stride[2] = a->ksize_channel;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &y));
  void *args[] = {&x.data, &y.data, &m, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&max_instances, x.dtype), y.count, 1, args);
}

static WEFT_Failure *max_of(WEFT_KernelContext *c, const weft_cuda_windows_t *a) {
  weft_cuda_images_t m;
  WEFT_TensorView x, y;
  if (a->ksize_channel != 1) return max_depth(c, a);
  WEFT_CUDA_TRY(make_output(c, a, &m, &x, &y));
  void *args[] = {&x.data, &y.data, &m, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&max_instances, x.dtype), y.count, 1, args);
}

static WEFT_Failure *max_pool(WEFT_KernelContext *c) { return max_of(c, weft_cuda_host->state(c)); }
static WEFT_Failure *max_pool_v2(WEFT_KernelContext *c) {
  weft_cuda_windows_t a = *(const weft_cuda_windows_t *)weft_cuda_host->state(c);
  WEFT_CUDA_TRY(window_inputs(c, 1, &a));
  return max_of(c, &a);
}

static WEFT_Failure *max_with_argmax(WEFT_KernelContext *c) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, y, number;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(plan(a, x.rank, x.dims, &m));
  if (a->ksize_channel != 1) return UNIMPLEMENTED("pooling across depth has no argmax");
  if (x.count == 0) return WEFT_CUDA_INVALID("tensor_in must not be empty");
  WEFT_CUDA_TRY(make_output(c, a, &m, &x, &y));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, y.rank, y.dims, &number));
  int32_t bytes = (int32_t)weft_cuda_size(number.dtype), of_batch = a->batch_in_index;
  void *args[] = {&x.data, &y.data, &number.data, &bytes, &of_batch, &m, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&number_instances, x.dtype), y.count, 1, args);
}

static WEFT_Failure *avg_pool(WEFT_KernelContext *c) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, y;
  if (a->ksize_channel != 1) return UNIMPLEMENTED("Non-spatial pooling is not yet supported. Volunteers? :)");
  WEFT_CUDA_TRY(make_output(c, a, &m, &x, &y));
  void *args[] = {&x.data, &y.data, &m, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&avg_instances, x.dtype), y.count, 1, args);
}

/* ---- gradients ---- */

static WEFT_Failure *check_shape(const weft_cuda_windows_t *a, const weft_cuda_images_t *m, const char *what,
                                 const WEFT_TensorView *v) {
  int64_t dims[4];
  const WEFT_TensorView want = {.rank = weft_cuda_images_dims(a, m, true, m->channels, dims), .dims = dims};
  if (weft_cuda_same_shape(&want, v)) return NULL;
  return WEFT_CUDA_INVALID("Expected %s shape to be %s, but got %s", what, WEFT_CUDA_SHAPE(&want),
                           WEFT_CUDA_SHAPE(v));
}

static WEFT_Failure *max_grad_of(WEFT_KernelContext *c, const weft_cuda_windows_t *a) {
  weft_cuda_images_t m;
  WEFT_TensorView x, y, dy, dx;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  weft_cuda_host->input(c, 2, &dy);
  WEFT_CUDA_TRY(plan(a, x.rank, x.dims, &m));
  WEFT_CUDA_TRY(check_shape(a, &m, "orig_output", &y));
  WEFT_CUDA_TRY(check_shape(a, &m, "grad", &dy));
  if (a->ksize_channel != 1)
    return UNIMPLEMENTED("MaxPoolingGrad is not yet supported on the depth dimension.");
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &dx));
  if (dx.count == 0) return NULL;
  if (dy.count == 0) return weft_cuda_fill(c, dx.data, 0, dx.bytes);
  void *where = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)dy.count * sizeof(int32_t), &where));
  void *find[] = {&x.data, &where, &m, &dy.count};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&where_instances, x.dtype), dy.count, 1, find));
  void *args[] = {&where, &dy.data, &dx.data, &m, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&max_grad_instances, x.dtype), dx.count, 1, args);
}

static WEFT_Failure *max_grad(WEFT_KernelContext *c) { return max_grad_of(c, weft_cuda_host->state(c)); }
static WEFT_Failure *max_grad_v2(WEFT_KernelContext *c) {
  weft_cuda_windows_t a = *(const weft_cuda_windows_t *)weft_cuda_host->state(c);
  WEFT_CUDA_TRY(window_inputs(c, 3, &a));
  return max_grad_of(c, &a);
}

/* The gradient of the gradient: of what each maximum was taken from. */
static WEFT_Failure *max_second_of(WEFT_KernelContext *c, const weft_cuda_windows_t *a) {
  weft_cuda_images_t m;
  WEFT_TensorView x, y, grad, out;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  weft_cuda_host->input(c, 2, &grad);
  WEFT_CUDA_TRY(plan(a, x.rank, x.dims, &m));
  WEFT_CUDA_TRY(check_shape(a, &m, "orig_output", &y));
  if (!weft_cuda_same_shape(&x, &grad)) {
    return WEFT_CUDA_INVALID("Expected grad shape to be %s, but got %s", WEFT_CUDA_SHAPE(&x),
                             WEFT_CUDA_SHAPE(&grad));
  }
  if (a->ksize_channel != 1)
    return UNIMPLEMENTED("MaxPoolingGrad is not yet supported on the depth dimension.");
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, y.rank, y.dims, &out));
  void *args[] = {&x.data, &grad.data, &out.data, &m, &out.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&second_instances, x.dtype), out.count, 1, args);
}

static WEFT_Failure *max_second(WEFT_KernelContext *c) { return max_second_of(c, weft_cuda_host->state(c)); }
static WEFT_Failure *max_second_v2(WEFT_KernelContext *c) {
  weft_cuda_windows_t a = *(const weft_cuda_windows_t *)weft_cuda_host->state(c);
  WEFT_CUDA_TRY(window_inputs(c, 3, &a));
  return max_second_of(c, &a);
}

static WEFT_Failure *grad_with_argmax(WEFT_KernelContext *c) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, dy, number, dx;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &dy);
  weft_cuda_host->input(c, 2, &number);
  if (x.rank != 4 || dy.rank != 4 || !weft_cuda_same_shape(&dy, &number)) {
    return WEFT_CUDA_INVALID("Expected argmax shape to be %s, but got %s", WEFT_CUDA_SHAPE(&dy),
                             WEFT_CUDA_SHAPE(&number));
  }
  WEFT_CUDA_TRY(plan(a, x.rank, x.dims, &m));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &dx));
  if (dx.bytes > 0) WEFT_CUDA_TRY(weft_cuda_fill(c, dx.data, 0, dx.bytes));
  if (dy.dims[0] != x.dims[0]) return WEFT_CUDA_INVALID("input and grad must have the same batch size");
  if (dx.count == 0 || dy.count == 0) return NULL;
  int64_t image_in = a->batch_in_index ? 0 : x.count / x.dims[0], image_out = dy.count / x.dims[0];
  int32_t bytes = (int32_t)weft_cuda_size(number.dtype);
  void *args[] = {&dy.data, &number.data, &bytes, &dx.data, &image_in, &image_out, &dx.count, &dy.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&number_grad_instances, x.dtype), dy.count, 1, args);
}

static WEFT_Failure *avg_grad(WEFT_KernelContext *c) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView sizes, dy, dx;
  int64_t dims[4];
  weft_cuda_host->input(c, 0, &sizes);
  weft_cuda_host->input(c, 1, &dy);
  if (sizes.rank != 1 || sizes.count != 4)
    return WEFT_CUDA_INVALID("out_backprop must be 1-dimensional and 4 elements");
  if (dy.rank != 4) return WEFT_CUDA_INVALID("out_backprop must be 4-dimensional");
  for (int d = 0; d < 4; d++) {
    dims[d] = weft_cuda_int_at(&sizes, d);
    if (dims[d] >= 0 && dims[d] <= INT32_MAX) continue;
    return WEFT_CUDA_INVALID("orig_input_shape has a dimension of %lld", (long long)dims[d]);
  }
  if (weft_cuda_product(dims, 0, 4) > 0 || dy.count > 0) {
    WEFT_CUDA_TRY(plan(a, 4, dims, &m));
    if (a->ksize_channel != 1)
      return UNIMPLEMENTED("Non-spatial pooling is not yet supported. Volunteers? :)");
    WEFT_CUDA_TRY(check_shape(a, &m, "grad", &dy));
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &dx));
  if (dx.count == 0) return NULL;
  if (dy.count == 0) return weft_cuda_fill(c, dx.data, 0, dx.bytes);
  void *args[] = {&dy.data, &dx.data, &m, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&avg_grad_instances, dy.dtype), dx.count, 1, args);
}

enum { FIRST = 1, SECOND_AND_THIRD = 6, FOURTH_AND_FIFTH = 24 };
#define ROW(op_, fn, host)                                                                         \
  {                                                                                                \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = prepare, .compute = fn, \
    .destroy = free, .host_inputs = host                                                           \
  }
const WEFT_DeviceKernel weft_cuda_pool_kernels[] = {
    ROW("AvgPool", avg_pool, 0),
    ROW("AvgPoolGrad", avg_grad, FIRST),
    ROW("MaxPool", max_pool, 0),
    ROW("MaxPoolGrad", max_grad, 0),
    ROW("MaxPoolGradGrad", max_second, 0),
    ROW("MaxPoolGradGradV2", max_second_v2, FOURTH_AND_FIFTH),
    ROW("MaxPoolGradV2", max_grad_v2, FOURTH_AND_FIFTH),
    ROW("MaxPoolGradWithArgmax", grad_with_argmax, 0),
    ROW("MaxPoolV2", max_pool_v2, SECOND_AND_THIRD),
    ROW("MaxPoolWithArgmax", max_with_argmax, 0),
    {0},
};
