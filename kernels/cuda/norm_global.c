/* kernels/cuda/norm_global.c - rows of BatchNormWithGlobalNormalization, the first form of batch
 * normalisation, and its gradient. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(apply_instances, norm_global, F32_F64_F16)
WEFT_CUDA_INSTANCES(grad_instances, norm_global_grad, F32_F64_F16)

typedef struct cuda_norm_global {
  float epsilon;
  int has_gamma;
} norm_global_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  norm_global_t *state = calloc(1, sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a batch norm");
  (void)weft_cuda_host->attr_float(s, "variance_epsilon", &state->epsilon);
  (void)weft_cuda_host->attr_bool(s, "scale_after_normalization", &state->has_gamma);
  *out = state;
  return NULL;
}

/* Inputs [1, end) are vectors of as many elements as the first one has channels. */
static WEFT_Failure *read_inputs(WEFT_KernelContext *c, int end, WEFT_TensorView *in) {
  for (int i = 0; i < 5; i++) weft_cuda_host->input(c, i, &in[i]);
  if (in[0].rank != 4)
    return WEFT_CUDA_INVALID("input must be 4-dimensional, got %s", WEFT_CUDA_SHAPE(&in[0]));
  for (int i = 1; i < end; i++) {
    if (in[i].rank == 1 && in[i].dims[0] == in[0].dims[3]) continue;
    return WEFT_CUDA_INVALID("input %d must be a vector of %lld elements, got %s", i,
                             (long long)in[0].dims[3], WEFT_CUDA_SHAPE(&in[i]));
  }
  return NULL;
}

static WEFT_Failure *norm(WEFT_KernelContext *c) {
  const norm_global_t *s = weft_cuda_host->state(c);
  float epsilon = s->epsilon;
  WEFT_TensorView in[5], y; /* x, mean, variance, beta, gamma */
  WEFT_CUDA_TRY(read_inputs(c, 5, in));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, in[0].dims, &y));
  int64_t channels = in[0].dims[3];
  const void *gamma = s->has_gamma != 0 ? in[4].data : NULL;
  void *args[] = {&in[0].data, &in[1].data, &in[2].data, &in[3].data, &gamma,
                  &y.data,     &y.count,    &channels,   &epsilon};
  return weft_cuda_launch_over(c, weft_cuda_pick(&apply_instances, y.dtype), y.count, 1, args);
}

static WEFT_Failure *norm_grad(WEFT_KernelContext *c) {
  const norm_global_t *s = weft_cuda_host->state(c);
  float epsilon = s->epsilon;
  WEFT_TensorView in[5], out[5]; /* x, mean, variance, gamma, dy */
  WEFT_CUDA_TRY(read_inputs(c, 4, in));
  if (!weft_cuda_same_shape(&in[0], &in[4])) {
    return WEFT_CUDA_INVALID("out_backprop must have the shape of the input, %s, got %s",
                             WEFT_CUDA_SHAPE(&in[0]), WEFT_CUDA_SHAPE(&in[4]));
  }
  int64_t channels = in[0].dims[3], rows = channels == 0 ? 0 : in[0].count / channels;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, in[0].dims, &out[0]));
  for (int o = 1; o < 5; o++) WEFT_CUDA_TRY(weft_cuda_host->output(c, o, 1, &channels, &out[o]));
  if (channels == 0) return NULL;
  const int64_t most = 8 * (int64_t)weft_cuda_num_processors(c);
  const weft_cuda_geometry_t g = {.grid = {(unsigned)(channels < most ? channels : most), 1, 1},
                                  .block = {WEFT_CUDA_BLOCK, 1, 1}};
  const void *gamma = s->has_gamma != 0 ? in[3].data : NULL;
  void *args[] = {&in[0].data,  &in[4].data,  &in[1].data,  &in[2].data,  &gamma,
                  &out[0].data, &out[1].data, &out[2].data, &out[3].data, &out[4].data,
                  &rows,        &channels,    &epsilon};
  return weft_cuda_launch(c, weft_cuda_pick(&grad_instances, in[0].dtype), &g, args);
}

#define ROW(op_, compute_)                                                                \
  {                                                                                       \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(F32_F64_F16), .prepare = prepare, \
    .compute = compute_, .destroy = free                                                  \
  }
const WEFT_DeviceKernel weft_cuda_norm_global_kernels[] = {
    ROW("BatchNormWithGlobalNormalization", norm),
    ROW("BatchNormWithGlobalNormalizationGrad", norm_grad),
    {.op = NULL},
};
