/* kernels/cuda/norm.c - rows of FusedBatchNorm, V2, V3 and their gradients. The reserved outputs are those of
 * the CPU's kernels: the batch's mean and its biased variance. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/plain.h"
#include "kernels/cuda/window.h"

WEFT_CUDA_INSTANCES(moments_instances, norm_moments, F32_HALFS)
WEFT_CUDA_INSTANCES(apply_instances, norm_apply, F32_HALFS)
WEFT_CUDA_INSTANCES(sums_instances, norm_sums, F32_HALFS)
WEFT_CUDA_INSTANCES(grad_instances, norm_grad, F32_HALFS)
static weft_cuda_function_t finish_function = WEFT_CUDA_FUNCTION("weft_norm_finish"),
                            grad_finish_function = WEFT_CUDA_FUNCTION("weft_norm_grad_finish");
WEFT_CUDA_SIZES(fill_functions, fill)

enum { MOMENTS = 12, SUMS = 8, FACTORS = 12, SLOPES = 16 }; /* bytes of the structs in norm.cu */

typedef struct cuda_norm_state {
  float epsilon, factor;
  bool is_training, channels_first;
} cuda_norm_state_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  void *channels = NULL;
  int is_training = 1;
  cuda_norm_state_t *state = calloc(1, sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a batch norm");
  WEFT_Failure *f = weft_cuda_prepare_channels(s, param, &channels);
  if (f != NULL) {
    free(state);
    return f;
  }
  state->factor = 1;
  weft_cuda_host->attr_float(s, "epsilon", &state->epsilon);
  weft_cuda_host->attr_float(s, "exponential_avg_factor", &state->factor);
  weft_cuda_host->attr_bool(s, "is_training", &is_training);
  state->is_training = is_training != 0;
  state->channels_first = channels != NULL;
  *out = state;
  return NULL;
}

/* ---- shapes ---- */

static WEFT_Failure *check_image(const WEFT_TensorView *x) {
  if (x->rank == 4 || x->rank == 5) return NULL;
  return WEFT_CUDA_INVALID("input must be 4 or 5-dimensional%s", WEFT_CUDA_SHAPE(x));
}

static WEFT_Failure *check_vector(const WEFT_TensorView *v, const char *what) {
  if (v->rank == 1) return NULL;
  return WEFT_CUDA_INVALID("%s must be 1-dimensional%s", what, WEFT_CUDA_SHAPE(v));
}

static WEFT_Failure *check_count(const WEFT_TensorView *v, const char *what, const char *when,
                                 int64_t channels) {
  if (v->count == channels) return NULL;
  return WEFT_CUDA_INVALID(
      "%s%s must have the same number of elements as the channels of x, got %lld and %lld", when, what,
      (long long)v->count, (long long)channels);
}

static weft_cuda_norm_t layout(WEFT_KernelContext *c, const cuda_norm_state_t *s, const WEFT_TensorView *x) {
  enum { WIDTH = 32, WORTH = 32, WAVES = 4 }; /* WORTH: items of a thread that pay for another part */
  const int at = s->channels_first ? 1 : x->rank - 1;
  weft_cuda_norm_t j = {.outer = weft_cuda_product(x->dims, 0, at),
                        .channels = x->dims[at],
                        .inner = weft_cuda_product(x->dims, at + 1, x->rank),
                        .is_training = s->is_training,
                        .epsilon = s->epsilon,
                        .factor = s->factor};
  j.n = j.outer * j.inner;
  j.width = j.inner == 1 ? WIDTH : 1;
  const int64_t blocks = (j.channels + j.width - 1) / j.width, sharers = WEFT_CUDA_BLOCK / j.width;
  const int64_t wanted = blocks == 0 ? 1 : (int64_t)weft_cuda_num_processors(c) * WAVES / blocks;
  int64_t parts = j.n / (sharers * WORTH);
  if (parts > wanted) parts = wanted;
  if (parts < 1) parts = 1;
  j.part = (j.n + parts - 1) / parts;
  j.num_parts = j.part == 0 ? 1 : (int32_t)((j.n + j.part - 1) / j.part);
  return j;
}

static weft_cuda_geometry_t geometry_of(const weft_cuda_norm_t *j) {
  return (weft_cuda_geometry_t){
      {(unsigned)((j->channels + j->width - 1) / j->width), (unsigned)j->num_parts, 1},
      {WEFT_CUDA_BLOCK, 1, 1},
      0};
}

/* Scratch: the parts, and behind them what the channels are computed with. */
static WEFT_Failure *make_scratch(WEFT_KernelContext *c, const weft_cuda_norm_t *j, size_t part_bytes,
                                  size_t channel_bytes, void **out_parts, void **out_channels) {
  const size_t parts = ((size_t)j->num_parts * (size_t)j->channels * part_bytes + 255) / 256 * 256;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, parts + (size_t)j->channels * channel_bytes, out_parts));
  *out_channels = (char *)*out_parts + parts;
  return NULL;
}

/* ---- forward ---- */

static WEFT_Failure *check_forward(const cuda_norm_state_t *s, const WEFT_TensorView *in) {
  static const char *const names[] = {"", "scale", "offset", "estimated_mean", "estimated_variance"};
  WEFT_CUDA_TRY(check_image(&in[0]));
  for (int i = 1; i < 5; i++) WEFT_CUDA_TRY(check_vector(&in[i], names[i]));
  const int64_t channels = in[0].dims[s->channels_first ? 1 : in[0].rank - 1];
  WEFT_CUDA_TRY(check_count(&in[1], "scale", "", channels));
  WEFT_CUDA_TRY(check_count(&in[2], "offset", "", channels));
  if (s->is_training && s->factor == 1) return NULL;
  const char *when = !s->is_training ? "When is_training=false, " : "When exponential_avg_factor != 1, ";
  WEFT_CUDA_TRY(check_count(&in[3], "mean", when, channels));
  return check_count(&in[4], "variance", when, channels);
}

/* Of an empty batch: mean and variance are no numbers, the rest is zero. */
static WEFT_Failure *fill_empty(WEFT_KernelContext *c, const WEFT_TensorView *out) {
  const float nan = NAN;
  void *value = NULL;
  if (out[1].count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, sizeof nan, &value));
  WEFT_CUDA_TRY(weft_cuda_copy(c, value, &nan, sizeof nan));
  for (int i = 1; i < 3; i++) {
    void *args[] = {&value, (void *)(uintptr_t)&out[i].data, (void *)(uintptr_t)&out[i].count};
    WEFT_CUDA_TRY(
        weft_cuda_launch_over(c, weft_cuda_pick_size(fill_functions, WEFT_CUDA_f32), out[i].count, 4, args));
  }
  for (int i = 3; i < 5; i++) WEFT_CUDA_TRY(weft_cuda_fill(c, out[i].data, 0, out[i].bytes));
  return NULL;
}

static WEFT_Failure *run(WEFT_KernelContext *c, const void *param, const void *state, WEFT_TensorView *y) {
  const cuda_norm_state_t *s = state;
  WEFT_TensorView in[5], out[6];
  (void)param;
  for (int i = 0; i < 5; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_forward(s, in));
  weft_cuda_norm_t j = layout(c, s, &in[0]);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, in[0].rank, in[0].dims, &out[0]));
  *y = out[0];
  for (int i = 1; i < 5; i++) WEFT_CUDA_TRY(weft_cuda_host->output(c, i, 1, &j.channels, &out[i]));
  if (weft_cuda_host->num_outputs(c) == 6) {
    WEFT_CUDA_TRY(weft_cuda_host->output(c, 5, 0, NULL, &out[5]));
    WEFT_CUDA_TRY(weft_cuda_fill(c, out[5].data, 0, out[5].bytes));
  }
  if (in[0].count == 0) return fill_empty(c, out);
  void *parts = NULL, *factors = NULL;
  WEFT_CUDA_TRY(make_scratch(c, &j, MOMENTS, FACTORS, &parts, &factors));
  if (s->is_training) {
    const weft_cuda_geometry_t g = geometry_of(&j);
    void *args[] = {&in[0].data, &parts, &j};
    WEFT_CUDA_TRY(weft_cuda_launch(c, weft_cuda_pick(&moments_instances, in[0].dtype), &g, args));
  }
  void *finish[] = {&parts,       &in[1].data,  &in[2].data,  &in[3].data, &in[4].data, &out[1].data,
                    &out[2].data, &out[3].data, &out[4].data, &factors,    &j};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &finish_function, j.channels, 1, finish));
  void *apply[] = {&in[0].data, &factors, &out[0].data, &j};
  return weft_cuda_launch_over(c, weft_cuda_pick(&apply_instances, in[0].dtype), in[0].count, 4, apply);
}

static WEFT_Failure *forward(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  return run(c, NULL, weft_cuda_host->state(c), &y);
}

const weft_cuda_plain_t weft_cuda_plain_batch_norm = {"FusedBatchNormV3", NULL, prepare, run, free, NULL};

/* ---- gradient ---- */

static WEFT_Failure *check_grad(const cuda_norm_state_t *s, const WEFT_TensorView *in) {
  static const char *const names[] = {"", "", "scale", "saved mean", "saved variance"};
  WEFT_CUDA_TRY(check_image(&in[0]));
  WEFT_CUDA_TRY(check_image(&in[1]));
  for (int i = 2; i < 5; i++) WEFT_CUDA_TRY(check_vector(&in[i], names[i]));
  if (!weft_cuda_same_shape(&in[0], &in[1])) {
    return WEFT_CUDA_INVALID(
        "x and y_backprop must have same shape, but x has shape %s and y_backprop has shape %s",
        WEFT_CUDA_SHAPE(&in[1]), WEFT_CUDA_SHAPE(&in[0]));
  }
  const int64_t channels = in[1].dims[s->channels_first ? 1 : in[1].rank - 1];
  WEFT_CUDA_TRY(check_count(&in[2], "scale", "", channels));
  WEFT_CUDA_TRY(check_count(&in[3], "reserve_space_1", "", channels));
  return check_count(&in[4], "reserve_space_2", "", channels);
}

static WEFT_Failure *gradient(WEFT_KernelContext *c) {
  const cuda_norm_state_t *s = weft_cuda_host->state(c);
  static const int64_t none = 0;
  WEFT_TensorView in[5], out[5]; /* dy, x, scale, mean, variance; dx, dscale, doffset */
  for (int i = 0; i < 5; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_grad(s, in));
  weft_cuda_norm_t j = layout(c, s, &in[1]);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, in[1].rank, in[1].dims, &out[0]));
  for (int i = 1; i < 3; i++) WEFT_CUDA_TRY(weft_cuda_host->output(c, i, 1, &j.channels, &out[i]));
  for (int i = 3; i < 5; i++) WEFT_CUDA_TRY(weft_cuda_host->output(c, i, 1, &none, &out[i]));
  if (in[1].count == 0) {
    for (int i = 1; i < 3; i++) WEFT_CUDA_TRY(weft_cuda_fill(c, out[i].data, 0, out[i].bytes));
    return NULL;
  }
  void *parts = NULL, *slopes = NULL;
  const weft_cuda_geometry_t g = geometry_of(&j);
  WEFT_CUDA_TRY(make_scratch(c, &j, SUMS, SLOPES, &parts, &slopes));
  void *sums[] = {&in[1].data, &in[0].data, &in[3].data, &parts, &j};
  WEFT_CUDA_TRY(weft_cuda_launch(c, weft_cuda_pick(&sums_instances, in[1].dtype), &g, sums));
  void *finish[] = {&parts, &in[2].data, &in[3].data, &in[4].data, &out[1].data, &out[2].data, &slopes, &j};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &grad_finish_function, j.channels, 1, finish));
  void *apply[] = {&in[1].data, &in[0].data, &slopes, &out[0].data, &j};
  return weft_cuda_launch_over(c, weft_cuda_pick(&grad_instances, in[1].dtype), in[1].count, 4, apply);
}

#define F32 (UINT32_C(1) << WEFT_CUDA_f32)
#define ROW(op_, fn, types_, attr2)                                                                       \
  {                                                                                                       \
    .op = op_, .type_attr = "T", .types = types_, .type_attr2 = attr2, .types2 = F32, .prepare = prepare, \
    .compute = fn, .destroy = free                                                                        \
  }
const WEFT_DeviceKernel weft_cuda_norm_kernels[] = {
    ROW("FusedBatchNorm", forward, F32, NULL),
    ROW("FusedBatchNormGrad", gradient, F32, NULL),
    ROW("FusedBatchNormGradV2", gradient, WEFT_CUDA_SET(F32_HALFS), "U"),
    ROW("FusedBatchNormGradV3", gradient, WEFT_CUDA_SET(F32_HALFS), "U"),
    ROW("FusedBatchNormV2", forward, WEFT_CUDA_SET(F32_HALFS), "U"),
    ROW("FusedBatchNormV3", forward, WEFT_CUDA_SET(F32_HALFS), "U"),
    {0},
};
