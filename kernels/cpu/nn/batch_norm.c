/* kernels/cpu/nn/batch_norm.c - FusedBatchNorm, V2, V3, and their gradients.
 *
 * Training normalises with the biased variance of the batch and reports the Bessel-corrected one, blended
 * with the old one if exponential_avg_factor is not 1. The reserved outputs are ours: mean and biased
 * variance.
 *   y = (x - mean) / sqrt(variance + epsilon) * scale + offset
 *   dscale = sum dy (x - mean) / sqrt(variance + epsilon),  doffset = sum dy
 *   dx = scale / sqrt(variance + epsilon) *
 *        (dy - sum dy / n - (x - mean) sum dy (x - mean) / (n (variance + epsilon)))
 * (Ioffe and Szegedy, "Batch Normalization" (2015), section 3; in inference mode dx has its first term only.)
 */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"

enum {
  MAX_PIECES = 16, /* partial sums over the batch: a fixed number, so that threads do not change the result */
  NORM_ROWS = 64,  /* pixels whose moments are joined with those before them */
  NORM_SHORT = 16, /* pixels whose sums are float: converting each number takes longest */
  NORM_AHEAD = 8,  /* pixels between those that are summed up and those that are asked for */
  NORM_TILE = 256, /* channels whose sums stay in the first cache */
};

typedef struct norm_job {
  const void *x, *dy;
  void *y;
  int64_t outer, channels, inner;
  const double *center;
  const float *mean, *factor, *shift, *slope; /* by channel */
  int64_t pieces;
  double *partial; /* pieces rows of `width` sums */
  int64_t width;
  void (*sums)(const struct norm_job *j, int64_t o, int64_t o_end, int64_t c, int64_t c_end, double *sums);
  void (*moments)(const struct norm_job *j, int64_t o, int64_t o_end, double *sums);
  void (*apply)(const struct norm_job *j, int64_t u, int64_t end);
} norm_job_t;

/* Asks for pixels that come soon into the cache: several rows at a time are more than the processor foresees.
 */
static inline void fetch(const void *at, int64_t bytes) {
  enum { LINE = 64 };
  for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch((const char *)at + i);
}

#define EACH_HALFS
#define EACH_FLOAT
#define EACH_FILE "kernels/cpu/nn/batch_norm_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
typedef struct norm_fns {
  void (*sums)(const norm_job_t *j, int64_t o, int64_t o_end, int64_t c, int64_t c_end, double *sums);
  void (*apply)(const norm_job_t *j, int64_t u, int64_t end);
  void (*grad_sums)(const norm_job_t *j, int64_t o, int64_t o_end, int64_t c, int64_t c_end, double *sums);
  void (*grad)(const norm_job_t *j, int64_t u, int64_t end);
  void (*moments)(const norm_job_t *j, int64_t o, int64_t o_end, double *sums);
} norm_fns_t;
static const norm_fns_t fns[WEFT_DTYPE_COUNT] = {
    [WEFT_F16] = {norm_sums_f16, norm_apply_f16, norm_grad_sums_f16, norm_grad_f16, norm_moments_f16},
    [WEFT_BF16] = {norm_sums_bf16, norm_apply_bf16, norm_grad_sums_bf16, norm_grad_bf16, norm_moments_bf16},
    [WEFT_F32] = {norm_sums_f32, norm_apply_f32, norm_grad_sums_f32, norm_grad_f32, norm_moments_f32},
};
#include "tensor/undef_each.tmpl.h"

typedef struct norm_state {
  float epsilon, factor; /* factor: exponential_avg_factor */
  bool is_training, channel_first;
  int num_reserved; /* 2, or 3 for V3 */
} norm_state_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  norm_state_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  weft_str_t format = weft_knode_string(setup, "data_format");
  s->epsilon = weft_knode_float(setup, "epsilon");
  s->is_training = weft_knode_bool(setup, "is_training");
  s->channel_first = weft_str_starts_with(format, "NC");
  const weft_attr_t *factor = weft_knode_attr(setup, "exponential_avg_factor");
  s->factor = factor == NULL ? 1 : factor->f;
  s->num_reserved = *(const int *)setup->node.param;
  *out_state = s;
  return NULL;
}

static weft_status_t *check_image(const weft_shape_t *x) {
  if (x->rank == 4 || x->rank == 5) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4 or 5-dimensional%s", WEFT_SHAPE_TEXT(x));
}

/* `x` is an image. */
static void layout(const norm_state_t *s, const weft_shape_t *x, norm_job_t *j) {
  int at = s->channel_first ? 1 : x->rank - 1;
  j->outer = weft_cpu_product(x, 0, at);
  j->channels = x->dims[at];
  j->inner = weft_cpu_product(x, at + 1, x->rank);
}

static weft_status_t *check_vector(const weft_tensor_t *t, const char *what) {
  if (t->shape.rank == 1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 1-dimensional%s", what, WEFT_SHAPE_TEXT(&t->shape));
}

static weft_status_t *check_count(const weft_tensor_t *t, const char *what, const char *when,
                                  int64_t channels) {
  if (t->count != channels) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s%s must have the same number of elements as the channels of x, got %" PRId64
                      " and %" PRId64,
                      when, what, t->count, channels);
  }
  return NULL;
}

/* ---- sums over the batch ---- */

/* Channels side by side: pieces of the batch, each with a row of sums of its own. */
static void sum_pieces(void *arg, int64_t begin, int64_t end) {
  const norm_job_t *j = arg;
  for (int64_t p = begin; p < end; p++) {
    j->sums(j, j->outer * p / j->pieces, j->outer * (p + 1) / j->pieces, 0, j->channels,
            j->partial + p * j->width);
  }
}

/* Planes of channels: some channels of the whole batch. */
static void sum_channels(void *arg, int64_t begin, int64_t end) {
  const norm_job_t *j = arg;
  j->sums(j, 0, j->outer, begin, end, j->partial);
}

static void plan_pieces(norm_job_t *j, int64_t width) {
  memset(j->partial, 0, (size_t)(width * MAX_PIECES) * sizeof *j->partial);
  j->width = width;
  j->pieces = j->outer * j->channels / WEFT_CPU_GRAIN + 1;
  if (j->pieces > MAX_PIECES) j->pieces = MAX_PIECES;
  if (j->pieces > j->outer) j->pieces = j->outer;
}

/* `width` sums to the first row of j->partial, which the caller has made large enough for MAX_PIECES rows. */
static void run_sums(weft_kernel_ctx_t *ctx, norm_job_t *j, int64_t width) {
  weft_thread_pool_t *pool = ctx->device->pool;
  plan_pieces(j, width);
  if (j->inner > 1) {
    int64_t grain = WEFT_CPU_GRAIN / (j->outer * j->inner) + 1;
    weft_parallel_for(j->channels > grain ? pool : NULL, j->channels, grain, sum_channels, j);
    return;
  }
  weft_parallel_for(j->pieces > 1 ? pool : NULL, j->pieces, 1, sum_pieces, j);
  for (int64_t p = 1; p < j->pieces; p++) {
    for (int64_t i = 0; i < width; i++) j->partial[i] += j->partial[p * width + i];
  }
}

static void moment_pieces(void *arg, int64_t begin, int64_t end) {
  const norm_job_t *j = arg;
  for (int64_t p = begin; p < end; p++) {
    j->moments(j, j->outer * p / j->pieces, j->outer * (p + 1) / j->pieces, j->partial + p * j->width);
  }
}

/* Sums, and sums of squares about the mean, of channels side by side: to the first two rows of j->partial. */
static void run_moments(weft_kernel_ctx_t *ctx, norm_job_t *j) {
  const int64_t C = j->channels;
  plan_pieces(j, 2 * C);
  weft_parallel_for(j->pieces > 1 ? ctx->device->pool : NULL, j->pieces, 1, moment_pieces, j);
  for (int64_t p = 1; p < j->pieces; p++) {
    const double *more = j->partial + p * j->width;
    const int64_t first = j->outer * p / j->pieces, end = j->outer * (p + 1) / j->pieces;
    const double before = (double)first, n = (double)(end - first);
    for (int64_t c = 0; c < C; c++) {
      const double apart = more[c] / n - j->partial[c] / before;
      j->partial[C + c] += more[C + c] + apart * apart * (before * n / (before + n));
      j->partial[c] += more[c];
    }
  }
}

static void apply_range(void *arg, int64_t begin, int64_t end) {
  const norm_job_t *j = arg;
  j->apply(j, begin, end);
}

static void run_apply(weft_kernel_ctx_t *ctx, norm_job_t *j) {
  int64_t units = j->inner == 1 ? j->outer : j->outer * j->channels;
  int64_t grain = WEFT_CPU_GRAIN / (j->inner == 1 ? j->channels : j->inner) + 1;
  weft_parallel_for(units > grain ? ctx->device->pool : NULL, units, grain, apply_range, j);
}

/* ---- forward ---- */

static weft_status_t *new_vector(weft_kernel_ctx_t *ctx, int o, int64_t n, float **out) {
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, WEFT_F32, &shape, &t));
  weft_cpu_zero(t);
  *out = t->data;
  return NULL;
}

static void fill(float *v, int64_t n, float value) {
  for (int64_t i = 0; i < n; i++) v[i] = value;
}

/* Mean and biased variance of the batch into mean[], variance[]. Planes of channels are read twice. */
static void batch_statistics(weft_kernel_ctx_t *ctx, norm_job_t *j, float *mean, float *variance) {
  double n = (double)(j->outer * j->inner);
  double *center = j->partial + 2 * MAX_PIECES * j->channels; /* behind the partial sums */
  if (j->inner == 1) {
    run_moments(ctx, j);
    for (int64_t c = 0; c < j->channels; c++) {
      mean[c] = (float)(j->partial[c] / n);
      variance[c] = (float)(j->partial[j->channels + c] / n);
    }
    return;
  }
  run_sums(ctx, j, j->channels);
  for (int64_t c = 0; c < j->channels; c++) {
    center[c] = j->partial[c] / n;
    mean[c] = (float)center[c];
  }
  j->center = center;
  run_sums(ctx, j, j->channels);
  for (int64_t c = 0; c < j->channels; c++) variance[c] = (float)(j->partial[c] / n);
}

static weft_status_t *forward_compute(weft_kernel_ctx_t *ctx) {
  const norm_state_t *s = ctx->state;
  weft_tensor_t *x = weft_in(ctx, 0), *scale = weft_in(ctx, 1), *offset = weft_in(ctx, 2),
                *old_mean = weft_in(ctx, 3);
  weft_tensor_t *old_variance = weft_in(ctx, 4), *y = NULL, *reserved = NULL;
  norm_job_t j = {.x = x->data,
                  .sums = fns[x->dtype].sums,
                  .moments = fns[x->dtype].moments,
                  .apply = fns[x->dtype].apply};
  WEFT_RETURN_IF_ERROR(check_image(&x->shape));
  WEFT_RETURN_IF_ERROR(check_vector(scale, "scale"));
  WEFT_RETURN_IF_ERROR(check_vector(offset, "offset"));
  WEFT_RETURN_IF_ERROR(check_vector(old_mean, "estimated_mean"));
  WEFT_RETURN_IF_ERROR(check_vector(old_variance, "estimated_variance"));
  layout(s, &x->shape, &j);
  int64_t C = j.channels;
  WEFT_RETURN_IF_ERROR(check_count(scale, "scale", "", C));
  WEFT_RETURN_IF_ERROR(check_count(offset, "offset", "", C));
  const char *when = !s->is_training ? "When is_training=false, " : "When exponential_avg_factor != 1, ";
  if (!s->is_training || s->factor != 1) {
    WEFT_RETURN_IF_ERROR(check_count(old_mean, "mean", when, C));
    WEFT_RETURN_IF_ERROR(check_count(old_variance, "variance", when, C));
  }
  float *mean, *variance, *saved_mean, *saved_variance;
  weft_shape_t shape = x->shape;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  WEFT_RETURN_IF_ERROR(new_vector(ctx, 1, C, &mean));
  WEFT_RETURN_IF_ERROR(new_vector(ctx, 2, C, &variance));
  WEFT_RETURN_IF_ERROR(new_vector(ctx, 3, C, &saved_mean));
  WEFT_RETURN_IF_ERROR(new_vector(ctx, 4, C, &saved_variance));
  if (s->num_reserved == 3) {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 5, WEFT_F32, &WEFT_SCALAR, &reserved));
    weft_cpu_zero(reserved);
  }
  j.y = y->data;
  if (x->count == 0) {
    fill(mean, C, NAN);
    fill(variance, C, NAN);
    return NULL;
  }
  float *factors = weft_calloc((size_t)C * 2, sizeof *factors);
  j.partial = weft_calloc((size_t)C * (2 * MAX_PIECES + 1), sizeof *j.partial);
  weft_status_t *status = NULL;
  if (factors == NULL || j.partial == NULL) {
    status = WEFT_NO_MEMORY("the sums of a batch norm");
    goto done;
  }
  const float *use_mean = old_mean->data, *use_variance = old_variance->data, *scales = scale->data;
  if (s->is_training) {
    batch_statistics(ctx, &j, saved_mean, saved_variance);
    use_mean = saved_mean;
    use_variance = saved_variance;
    double n = (double)(j.outer * j.inner);
    float correction = (float)(n / (n > 1 ? n - 1 : 1)), keep = 1 - s->factor;
    for (int64_t c = 0; c < C; c++) {
      float v = saved_variance[c] * correction;
      mean[c] = s->factor == 1 ? saved_mean[c]
                               : keep * ((const float *)old_mean->data)[c] + s->factor * saved_mean[c];
      variance[c] = s->factor == 1 ? v : keep * ((const float *)old_variance->data)[c] + s->factor * v;
    }
  } else {
    memcpy(mean, use_mean, (size_t)C * sizeof *mean);
    memcpy(variance, use_variance, (size_t)C * sizeof *variance);
  }
  for (int64_t c = 0; c < C; c++) factors[c] = scales[c] / sqrtf(use_variance[c] + s->epsilon);
  j.mean = use_mean;
  j.factor = factors;
  j.shift = offset->data;
  run_apply(ctx, &j);
done:
  weft_free(factors);
  weft_free(j.partial);
  return status;
}

/* ---- gradient ---- */

static weft_status_t *grad_compute(weft_kernel_ctx_t *ctx) {
  const norm_state_t *s = ctx->state;
  weft_tensor_t *dy = weft_in(ctx, 0), *x = weft_in(ctx, 1), *scale = weft_in(ctx, 2),
                *mean = weft_in(ctx, 3);
  weft_tensor_t *variance = weft_in(ctx, 4), *dx = NULL, *empty = NULL;
  norm_job_t j = {.x = x->data, .dy = dy->data, .sums = fns[x->dtype].grad_sums, .apply = fns[x->dtype].grad};
  WEFT_RETURN_IF_ERROR(check_image(&dy->shape));
  WEFT_RETURN_IF_ERROR(check_image(&x->shape));
  WEFT_RETURN_IF_ERROR(check_vector(scale, "scale"));
  WEFT_RETURN_IF_ERROR(check_vector(mean, "saved mean"));
  WEFT_RETURN_IF_ERROR(check_vector(variance, "saved variance"));
  if (!weft_shape_eq(&dy->shape, &x->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "x and y_backprop must have same shape, but x has shape %s and y_backprop has shape %s",
                      WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&dy->shape));
  }
  layout(s, &x->shape, &j);
  int64_t C = j.channels;
  WEFT_RETURN_IF_ERROR(check_count(scale, "scale", "", C));
  WEFT_RETURN_IF_ERROR(check_count(mean, "reserve_space_1", "", C));
  WEFT_RETURN_IF_ERROR(check_count(variance, "reserve_space_2", "", C));
  float *dscale, *doffset;
  weft_shape_t none = weft_shape_vector(0);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &dx));
  WEFT_RETURN_IF_ERROR(new_vector(ctx, 1, C, &dscale));
  WEFT_RETURN_IF_ERROR(new_vector(ctx, 2, C, &doffset));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 3, WEFT_F32, &none, &empty));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 4, WEFT_F32, &none, &empty));
  if (x->count == 0) return NULL;
  if (!s->is_training && s->channel_first) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The implementation of FusedBatchNormGrad with is_training=False only support NHWC "
                      "tensor format for now.");
  }
  float *by_channel = weft_calloc((size_t)C * 3, sizeof *by_channel);
  j.partial = weft_calloc((size_t)C * 2 * MAX_PIECES, sizeof *j.partial);
  weft_status_t *status = NULL;
  if (by_channel == NULL || j.partial == NULL) {
    status = WEFT_NO_MEMORY("the sums of a batch norm");
    goto done;
  }
  float *factor = by_channel, *shift = factor + C, *slope = shift + C;
  const float *variances = variance->data, *scales = scale->data;
  double n = (double)(j.outer * j.inner);
  j.mean = mean->data;
  run_sums(ctx, &j, 2 * C);
  for (int64_t c = 0; c < C; c++) {
    double spread = (double)variances[c] + (double)s->epsilon, inverse = 1 / sqrt(spread);
    doffset[c] = (float)j.partial[c];
    dscale[c] = (float)(j.partial[C + c] * inverse);
    factor[c] = (float)((double)scales[c] * inverse);
    shift[c] = s->is_training ? (float)(j.partial[c] / n) : 0;
    slope[c] = s->is_training ? (float)(j.partial[C + c] / (n * spread)) : 0;
  }
  j.y = dx->data;
  j.factor = factor;
  j.shift = shift;
  j.slope = slope;
  run_apply(ctx, &j);
done:
  weft_free(by_channel);
  weft_free(j.partial);
  return status;
}

#define NORM_TYPES (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_BF16) | WEFT_DTYPE_BIT(WEFT_F32))
#define F32_ONLY WEFT_DTYPE_BIT(WEFT_F32)
#define NORM(op_, types_, fn, num_reserved, ...)                                                           \
  {                                                                                                        \
    .op = op_, .type_attr = "T", .types = types_, .prepare = prepare, .compute = fn, .destroy = weft_free, \
    .param = &(const int){num_reserved}, __VA_ARGS__                                                       \
  }
#define U_IS_F32 .type_attr2 = "U", .types2 = F32_ONLY
const weft_kernel_t weft_cpu_batch_norm_kernels[] = {
    NORM("FusedBatchNorm", F32_ONLY, forward_compute, 2, .type_attr2 = NULL),
    NORM("FusedBatchNormGrad", F32_ONLY, grad_compute, 2, .type_attr2 = NULL),
    NORM("FusedBatchNormGradV2", NORM_TYPES, grad_compute, 2, U_IS_F32),
    NORM("FusedBatchNormGradV3", NORM_TYPES, grad_compute, 3, U_IS_F32),
    NORM("FusedBatchNormV2", NORM_TYPES, forward_compute, 2, U_IS_F32),
    NORM("FusedBatchNormV3", NORM_TYPES, forward_compute, 3, U_IS_F32),
    {0},
};
