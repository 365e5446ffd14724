/* kernels/cuda/pool3d.c - rows of MaxPool3D, AvgPool3D and their gradients. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/window.h"

WEFT_CUDA_INSTANCES(max_instances, max_volume, F32_BF16)
WEFT_CUDA_INSTANCES(max_grad_instances, max_grad_volume, F32_BF16)
WEFT_CUDA_INSTANCES(second_instances, second_volume, F32_BF16)
WEFT_CUDA_INSTANCES(avg_instances, avg_volume, F32_BF16)
WEFT_CUDA_INSTANCES(avg_grad_instances, avg_grad_volume, F32_BF16)

enum { RANK = WEFT_CUDA_SPACE + 2 };

static WEFT_Failure *check_attributes(const WEFT_KernelSetup *s, const weft_cuda_windows_t *a) {
  if (a->channels_first) return WEFT_CUDA_INVALID("%s only supports NDHWC", weft_cuda_host->setup_op(s));
  if (a->ksize_channel == 1 && a->stride_channel == 1) return NULL;
  return weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED,
                                 "Pooling is not yet supported on the depth dimension.");
}

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  void *state = NULL;
  WEFT_CUDA_TRY(weft_cuda_windows_prepare(s, WEFT_CUDA_POOL, &state));
  WEFT_Failure *failure = check_attributes(s, state);
  if (failure != NULL) {
    free(state);
  } else {
    *out = state;
  }
  return failure;
}

static WEFT_Failure *plan(const weft_cuda_windows_t *a, int rank, const int64_t *dims,
                          weft_cuda_images_t *m) {
  if (rank != RANK) return WEFT_CUDA_INVALID("tensor_in must be 5-dimensional");
  return weft_cuda_windows_plan(a, dims, a->ksize, m);
}

/* The param is the instances. */
static WEFT_Failure *forward(WEFT_KernelContext *c) {
  weft_cuda_windows_t a = *(const weft_cuda_windows_t *)weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, y;
  int64_t dims[RANK];
  a.is_centred = true;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(plan(&a, x.rank, x.dims, &m));
  (void)weft_cuda_images_dims(&a, &m, true, m.channels, dims);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, RANK, dims, &y));
  void *args[] = {&x.data, &y.data, &m, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(weft_cuda_host->param(c), x.dtype), y.count, 1, args);
}

static WEFT_Failure *check_shape(const char *what, const WEFT_TensorView *want, const WEFT_TensorView *v) {
  if (weft_cuda_same_shape(want, v)) return NULL;
  return WEFT_CUDA_INVALID("Expected %s shape to be %s, but got %s", what, WEFT_CUDA_SHAPE(want),
                           WEFT_CUDA_SHAPE(v));
}

/* The gradient of a maximum, and its gradient (`second`). */
static WEFT_Failure *max_grad_of(WEFT_KernelContext *c, bool second) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, y, grad, out;
  int64_t dims[RANK];
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &y);
  weft_cuda_host->input(c, 2, &grad);
  WEFT_CUDA_TRY(plan(a, x.rank, x.dims, &m));
  (void)weft_cuda_images_dims(a, &m, true, m.channels, dims);
  const WEFT_TensorView of_output = {.rank = RANK, .dims = dims};
  WEFT_CUDA_TRY(check_shape("orig_output", &of_output, &y));
  WEFT_CUDA_TRY(check_shape("grad", second ? &x : &of_output, &grad));
  if (second && (x.count == 0 || y.count == 0)) {
    return WEFT_CUDA_INVALID("received empty tensor %s", x.count == 0 ? "tensor_in" : "tensor_out");
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, RANK, second ? dims : x.dims, &out));
  if (out.count > 0 && grad.count == 0) return weft_cuda_fill(c, out.data, 0, out.bytes);
  void *args[] = {&x.data, &y.data, &grad.data, &out.data, &m, &out.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(second ? &second_instances : &max_grad_instances, x.dtype),
                               out.count, 1, args);
}
static WEFT_Failure *max_grad(WEFT_KernelContext *c) { return max_grad_of(c, false); }
static WEFT_Failure *max_second(WEFT_KernelContext *c) { return max_grad_of(c, true); }

/* dy may have any spatial size, as long as no window begins behind the input: m has it as its output. */
static WEFT_Failure *take_sizes(const WEFT_TensorView *dy, weft_cuda_images_t *m) {
  bool is_empty = false;
  for (int i = WEFT_CUDA_SPACE - 1; i >= 0 && !is_empty; i--) { /* in the order of TensorFlow's loops */
    is_empty = dy->dims[i + 1] == 0;
    if (!is_empty && dy->dims[i + 1] - 1 > m->in[i] / m->stride[i])
      return WEFT_CUDA_INVALID("index * stride must be less than or equal to input size");
  }
  for (int i = 0; i < WEFT_CUDA_SPACE; i++) m->out[i] = dy->dims[i + 1];
  return NULL;
}

static WEFT_Failure *avg_grad(WEFT_KernelContext *c) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView sizes, dy, dx;
  int64_t dims[RANK];
  weft_cuda_host->input(c, 0, &sizes);
  weft_cuda_host->input(c, 1, &dy);
  if (sizes.rank != 1 || sizes.count != RANK)
    return WEFT_CUDA_INVALID("tensor_in must be 1-dimensional and 5 elements");
  if (dy.rank != RANK) return WEFT_CUDA_INVALID("out_backprop must be 5-dimensional");
  for (int d = 0; d < RANK; d++) {
    dims[d] = weft_cuda_int_at(&sizes, d);
    if (dims[d] < 0) return WEFT_CUDA_INVALID("orig_input_shape has a dimension of %lld", (long long)dims[d]);
  }
  WEFT_CUDA_TRY(plan(a, RANK, dims, &m));
  for (int i = 0; i < 2; i++) {
    const int at = i == 0 ? 0 : RANK - 1;
    if (dy.dims[at] == dims[at]) continue;
    return WEFT_CUDA_INVALID(
        "Expected %s dimension of tensor_in_shape and out_backprop to match, got %lld and %lld",
        i == 0 ? "first" : "last", (long long)dims[at], (long long)dy.dims[at]);
  }
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, RANK, dims, &dx));
  WEFT_CUDA_TRY(take_sizes(&dy, &m));
  if (dx.count > 0 && dy.count == 0) return weft_cuda_fill(c, dx.data, 0, dx.bytes);
  void *args[] = {&dy.data, &dx.data, &m, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&avg_grad_instances, dy.dtype), dx.count, 1, args);
}

enum { FIRST = 1 };
#define ROW(op_, fn, instances, host)                                                                 \
  {                                                                                                   \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(F32_BF16), .prepare = prepare, .compute = fn, \
    .destroy = free, .param = instances, .host_inputs = host                                          \
  }
#define GRAD_ROW(type)                                                                             \
  {                                                                                                \
    .op = "MaxPool3DGrad", .type_attr = "T", .types = UINT32_C(1) << type, .type_attr2 = "TInput", \
    .types2 = UINT32_C(1) << type, .prepare = prepare, .compute = max_grad, .destroy = free,       \
  }
const WEFT_DeviceKernel weft_cuda_pool3d_kernels[] = {
    ROW("AvgPool3D", forward, &avg_instances, 0),
    ROW("AvgPool3DGrad", avg_grad, NULL, FIRST),
    ROW("MaxPool3D", forward, &max_instances, 0),
    GRAD_ROW(WEFT_CUDA_bf16),
    GRAD_ROW(WEFT_CUDA_f32),
    ROW("MaxPool3DGradGrad", max_second, NULL, 0),
    {0},
};
