/* kernels/cuda/lrn.c - rows of LRN and LRNGrad: local response normalisation across channels. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/window_args.h"

WEFT_CUDA_INSTANCES(forward_instances, lrn, F32_HALFS)
WEFT_CUDA_INSTANCES(grad_instances, lrn_grad, F32_HALFS)

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  weft_cuda_lrn_t *j = calloc(1, sizeof *j);
  if (j == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: LRN");
  *j = (weft_cuda_lrn_t){.radius = 5, .bias = 1, .alpha = 1, .beta = 0.5f};
  weft_cuda_host->attr_int(s, "depth_radius", &j->radius);
  weft_cuda_host->attr_float(s, "bias", &j->bias);
  weft_cuda_host->attr_float(s, "alpha", &j->alpha);
  weft_cuda_host->attr_float(s, "beta", &j->beta);
  *out = j;
  return NULL;
}

/* What is wrong with the first input, as in TensorFlow; *out: the state, with its depth. */
static WEFT_Failure *plan(WEFT_KernelContext *c, const char *what, weft_cuda_lrn_t *out) {
  WEFT_TensorView x;
  *out = *(const weft_cuda_lrn_t *)weft_cuda_host->state(c);
  weft_cuda_host->input(c, 0, &x);
  if (out->radius < 0 || out->radius > INT32_MAX)
    return WEFT_CUDA_INVALID("depth_radius = %lld larger than int max", (long long)out->radius);
  if (x.rank != 4) return WEFT_CUDA_INVALID("%s must be 4-dimensional", what);
  out->depth = x.dims[3];
  return NULL;
}

static WEFT_Failure *forward(WEFT_KernelContext *c) {
  weft_cuda_lrn_t j;
  WEFT_TensorView x, y;
  WEFT_CUDA_TRY(plan(c, "in", &j));
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  void *args[] = {&x.data, &y.data, &j, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&forward_instances, x.dtype), y.count, 1, args);
}

static WEFT_Failure *gradient(WEFT_KernelContext *c) {
  weft_cuda_lrn_t j;
  WEFT_TensorView in[3], dx; /* dy, x, y */
  WEFT_CUDA_TRY(plan(c, "inputs", &j));
  for (int i = 0; i < 3; i++) weft_cuda_host->input(c, i, &in[i]);
  if (!weft_cuda_same_shape(&in[0], &in[1]) || !weft_cuda_same_shape(&in[0], &in[2]))
    return WEFT_CUDA_INVALID("input_grads, input_image, and out_image should have the same shape");
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, in[0].rank, in[0].dims, &dx));
  void *args[] = {&in[0].data, &in[1].data, &in[2].data, &dx.data, &j, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&grad_instances, dx.dtype), dx.count, 1, args);
}

#define ROW(op_, fn)                                                                                   \
  {                                                                                                    \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(F32_HALFS), .prepare = prepare, .compute = fn, \
    .destroy = free                                                                                    \
  }
const WEFT_DeviceKernel weft_cuda_lrn_kernels[] = {
    ROW("LRN", forward),
    ROW("LRNGrad", gradient),
    {0},
};
