/* kernels/cpu/random/random_truncated.c - ParameterizedTruncatedNormal: mean, deviation and bounds for each
 * row, or for all; StatelessParameterizedTruncatedNormal: for each set of parameters, which broadcast.
 *
 * A row is a batch; with parameters for all, batches are of BATCH elements. A batch of the stateless op is
 * the samples of a set. Where a thread begins, the generator jumps to the batch's own blocks, or to those of
 * the element; from there it just goes on. So the pieces that threads get are part of the result, and are cut
 * like TensorFlow's.
 */
#include <math.h>
#include <stdatomic.h>

#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/random/random_groups.h"
#include "kernels/cpu/random/random_samples.h"

enum { BATCH = 100, TRUNCATED_MAX_TRIES = 1000 };

typedef enum truncated_end {
  TRUNCATED_OK = 0,
  TRUNCATED_BAD_PARAMETERS,
  TRUNCATED_NORMAL_FAILED,
  TRUNCATED_UNIFORM_FAILED,
  TRUNCATED_EXPONENTIAL_FAILED,
} truncated_end_t;

typedef struct truncated {
  weft_samples_t samples;                     /* parameters: means, deviations, minima, maxima */
  bool is_for_all[4];                         /* there is one parameter, for all batches */
  int64_t num_batches, batch_size, per_piece; /* pieces: of batches, or of elements of the stateless op */
  atomic_int end; /* the first failure; relaxed: parallel_for orders it before the reading */
} truncated_t;

#define TRUNCATED_STEM f16
#define TRUNCATED_REAL float
#define TRUNCATED_STORAGE uint16_t
#define TRUNCATED_GROUP 4
#define TRUNCATED_STORE(x) weft_f32_to_f16(x)
#define TRUNCATED_ROUND(x) weft_random_round_f16(x)
#define TRUNCATED_UNIFORM(words, out) weft_random_uniform_f16(words, out)
#define TRUNCATED_NORMAL(words, out) weft_random_normal_f16(words, out)
#define TRUNCATED_F(name) name##f
#include "kernels/cpu/random/random_truncated.tmpl.h"

#define TRUNCATED_STEM f32
#define TRUNCATED_REAL float
#define TRUNCATED_STORAGE float
#define TRUNCATED_GROUP 4
#define TRUNCATED_STORE(x) (x)
#define TRUNCATED_ROUND(x) (x)
#define TRUNCATED_UNIFORM(words, out) weft_random_uniform_f32(words, out)
#define TRUNCATED_NORMAL(words, out) weft_random_normal_f32(words, out)
#define TRUNCATED_F(name) name##f
#include "kernels/cpu/random/random_truncated.tmpl.h"

#define TRUNCATED_STEM f64
#define TRUNCATED_REAL double
#define TRUNCATED_STORAGE double
#define TRUNCATED_GROUP 2
#define TRUNCATED_STORE(x) (x)
#define TRUNCATED_ROUND(x) (x)
#define TRUNCATED_UNIFORM(words, out) weft_random_uniform_f64(words, out)
#define TRUNCATED_NORMAL(words, out) weft_random_normal_pair_f64(words, out)
#define TRUNCATED_F(name) name
#include "kernels/cpu/random/random_truncated.tmpl.h"

/* Elements [begin, end) of a batch, which lie at `out`, a `stride` apart. */
static truncated_end_t draw_batch(const truncated_t *job, int64_t batch, void *out, int64_t begin,
                                  int64_t end, int64_t stride, weft_philox_t *generator) {
  double p[4];
  for (int i = 0; i < 4; i++) p[i] = job->samples.parameters[i][job->is_for_all[i] ? 0 : batch];
  switch (job->samples.type) {
    case WEFT_F16: return f16_batch(p, out, begin, end, stride, generator);
    case WEFT_F32: return f32_batch(p, out, begin, end, stride, generator);
    default: return f64_batch(p, out, begin, end, stride, generator);
  }
}

static void draw_pieces(void *arg, int64_t begin, int64_t end) {
  truncated_t *job = arg;
  const weft_tensor_t *y = job->samples.out;
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t first = piece * job->per_piece, limit = first + job->per_piece;
    if (limit > job->num_batches) limit = job->num_batches;
    weft_philox_t g = job->samples.generator;
    weft_philox_skip(&g, (uint64_t)first * 2 * TRUNCATED_MAX_TRIES * (uint64_t)(job->batch_size + 3) / 4);
    for (int64_t b = first; b < limit; b++) {
      int64_t from = b * job->batch_size, to = from + job->batch_size;
      if (to > y->count) to = y->count;
      truncated_end_t e = draw_batch(job, b, y->data, from, to, 1, &g);
      if (e == TRUNCATED_OK) continue;
      atomic_store_explicit(&job->end, (int)e, memory_order_relaxed);
      return;
    }
  }
}

/* Pieces of the stateless op: elements numbered set by set, which lie sample by sample. */
static void draw_element_pieces(void *arg, int64_t begin, int64_t end) {
  truncated_t *job = arg;
  const weft_samples_t *s = &job->samples;
  uint64_t group = s->type == WEFT_F64 ? 2 : 4;
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t at = piece * job->per_piece, limit = at + job->per_piece;
    if (limit > s->out->count) limit = s->out->count;
    weft_philox_t g = s->generator;
    weft_philox_skip(&g, ((uint64_t)at * 2 * TRUNCATED_MAX_TRIES + group - 1) / group);
    while (at < limit) {
      int64_t set = at / s->num_samples, from = at % s->num_samples, to = from + (limit - at);
      if (to > s->num_samples) to = s->num_samples;
      char *out = (char *)s->out->data + (size_t)set * weft_dtype_size(s->type);
      truncated_end_t e = draw_batch(job, set, out, from, to, s->num_sets, &g);
      if (e != TRUNCATED_OK) {
        atomic_store_explicit(&job->end, (int)e, memory_order_relaxed);
        return;
      }
      at += to - from;
    }
  }
}

static weft_status_t *explain(truncated_end_t end) {
  switch (end) {
    case TRUNCATED_OK: return NULL;
    case TRUNCATED_BAD_PARAMETERS: return WEFT_ERROR(INVALID_ARGUMENT, "Invalid parameters");
    case TRUNCATED_NORMAL_FAILED:
      return WEFT_ERROR(INTERNAL, "TruncatedNormal randn rejection sampler failed to accept a sample.");
    case TRUNCATED_UNIFORM_FAILED:
      return WEFT_ERROR(INTERNAL, "TruncatedNormal uniform rejection sampler failed to  accept a sample.");
    case TRUNCATED_EXPONENTIAL_FAILED: break;
  }
  return WEFT_ERROR(INTERNAL,
                    "TruncatedNormal exponential distribution rejection sampler failed to accept a sample.");
}

/* What TensorFlow's run takes out of the stream, computed in 32 bits as there. */
static uint64_t blocks_to_take(const truncated_t *job) {
  uint32_t words = (uint32_t)job->num_batches * 2u * TRUNCATED_MAX_TRIES * (uint32_t)(job->batch_size + 3);
  return (uint64_t)(int64_t)((int32_t)words / 4);
}

/* Costs of Eigen's operations in cycles: what a batch costs before its first element, and an element. */
static double batch_cost(weft_dtype_t dtype, int64_t batch_size) {
  int start = dtype == WEFT_F16 ? 62 : dtype == WEFT_F32 ? 53 : 90;
  int element = dtype == WEFT_F16 ? 76 : dtype == WEFT_F32 ? 67 : 84;
  return (double)start + (double)element * 2 * (double)batch_size;
}

static weft_status_t *set_batches(weft_kernel_ctx_t *ctx, const weft_tensor_t *y, truncated_t *job) {
  static const char *const names[] = {"means", "stddevs", "minvals", "maxvals"};
  const weft_tensor_t *parameters[4];
  for (int i = 0; i < 4; i++) {
    parameters[i] = weft_in(ctx, i + 1);
    job->is_for_all[i] = parameters[i]->count == 1;
    if (parameters[i]->shape.rank <= 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Input %s should be a scalar or vector, got shape: %s", names[i],
                      WEFT_SHAPE_TEXT(&parameters[i]->shape));
  }
  if (parameters[0]->count == 1 && parameters[1]->count == 1 && parameters[2]->shape.rank == 0 &&
      parameters[3]->shape.rank == 0) {
    job->batch_size = BATCH;
    job->num_batches = y->count / BATCH + (y->count % BATCH != 0);
    return NULL;
  }
  job->num_batches = y->shape.dims[0];
  job->batch_size = job->num_batches == 0 ? 0 : y->count / job->num_batches;
  for (int i = 0; i < 4; i++) {
    if (job->is_for_all[i] || parameters[i]->count == job->num_batches) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Input %s should have length 1 or shape[0], got shape: %s", names[i],
                      WEFT_SHAPE_TEXT(&parameters[i]->shape));
  }
  return NULL;
}

/* `num` units of work of that cost each, on threads. */
static weft_status_t *run(weft_kernel_ctx_t *ctx, truncated_t *job, int64_t num, double cost,
                          weft_range_fn *draw) {
  job->per_piece = weft_random_piece(num, cost, weft_thread_pool_size(ctx->device->pool));
  atomic_init(&job->end, TRUNCATED_OK);
  weft_parallel_for(ctx->device->pool, (num + job->per_piece - 1) / job->per_piece, 1, draw, job);
  return explain((truncated_end_t)atomic_load_explicit(&job->end, memory_order_relaxed));
}

static weft_status_t *of_stream(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *sizes = weft_in(ctx, 0), *y = NULL;
  if (sizes->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input shape should be a vector, got shape: %s",
                      WEFT_SHAPE_TEXT(&sizes->shape));
  }
  if (sizes->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Shape tensor must not be empty, got [0]");
  WEFT_RETURN_IF_ERROR(weft_random_output(ctx, sizes, &y));
  truncated_t job = {.samples = {.out = y, .type = y->dtype}};
  WEFT_RETURN_IF_ERROR(set_batches(ctx, y, &job));
  job.samples.generator = weft_random_stream_take(ctx->state, blocks_to_take(&job));
  if (job.num_batches == 0) return NULL;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < 4; i++) {
    const weft_tensor_t *t = weft_in(ctx, i + 1);
    s = weft_samples_parameter(t, &t->shape, &job.samples.parameters[i]);
  }
  if (s == NULL) s = run(ctx, &job, job.num_batches, batch_cost(y->dtype, job.batch_size), draw_pieces);
  weft_samples_deinit(&job.samples);
  return s;
}

/* The shape that the four parameters have together. */
static weft_status_t *shape_of_sets(weft_kernel_ctx_t *ctx, weft_shape_t *out) {
  *out = WEFT_SCALAR;
  for (int i = 2; i < 6; i++) {
    weft_broadcast_t b;
    const weft_shape_t *const shapes[] = {out, &weft_in(ctx, i)->shape};
    if (!weft_broadcast_init(&b, shapes, 2)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "means, stddevs, minvals, maxvals must have compatible batch dimensions: %s vs. %s",
                        WEFT_SHAPE_TEXT(shapes[0]), WEFT_SHAPE_TEXT(shapes[1]));
    }
    *out = b.shape;
  }
  return NULL;
}

static weft_status_t *of_seed(weft_kernel_ctx_t *ctx) {
  truncated_t job = {.per_piece = 1};
  weft_samples_t *samples = &job.samples;
  weft_shape_t sets;
  WEFT_RETURN_IF_ERROR(shape_of_sets(ctx, &sets));
  WEFT_RETURN_IF_ERROR(weft_random_seeded_output(ctx, &samples->out, &samples->generator));
  WEFT_RETURN_IF_ERROR(weft_samples_plan(samples, &samples->out->shape, &sets));
  if (samples->out->count == 0) return NULL;
  samples->type = samples->out->dtype;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < 4; i++)
    s = weft_samples_parameter(weft_in(ctx, i + 2), &sets, &samples->parameters[i]);
  if (s == NULL) s = run(ctx, &job, samples->out->count, batch_cost(samples->type, 1), draw_element_pieces);
  weft_samples_deinit(samples);
  return s;
}

#define REALS (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))

const weft_kernel_t weft_cpu_random_truncated_kernels[] = {
    WEFT_STREAM_KERNEL("ParameterizedTruncatedNormal", "dtype", REALS, of_stream),
    WEFT_KERNEL("StatelessParameterizedTruncatedNormal", "dtype", REALS, NULL, of_seed, NULL),
    {0},
};
