/* kernels/cpu/random/random_truncated.c - ParameterizedTruncatedNormal: mean, deviation and bounds for each
 * row, or for all.
 *
 * A row is a batch; with parameters for all, batches are of BATCH elements. Where a thread begins, the
 * generator jumps to the batch's own blocks; from batch to batch it just goes on. So the pieces that threads
 * get are part of the result, and are cut like TensorFlow's.
 */
#include <math.h>
#include <stdatomic.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/random_fill.h"

enum { BATCH = 100, TRUNCATED_MAX_TRIES = 1000 };

typedef enum truncated_end {
  TRUNCATED_OK = 0,
  TRUNCATED_BAD_PARAMETERS,
  TRUNCATED_NORMAL_FAILED,
  TRUNCATED_UNIFORM_FAILED,
  TRUNCATED_EXPONENTIAL_FAILED,
} truncated_end_t;

typedef struct truncated {
  const weft_tensor_t
      *parameters[4]; /* means, deviations, minima, maxima; of one element, or one per batch */
  weft_tensor_t *out;
  weft_philox_t generator;
  int64_t num_batches, batch_size, batches_per_piece;
  atomic_int end; /* the first failure; relaxed: parallel_for orders it before the reading */
} truncated_t;

static float round_f16(float x) { return weft_f16_to_f32(weft_f32_to_f16(x)); }

static void uniform_f16(const uint32_t words[4], float out[4]) {
  for (int i = 0; i < 4; i++) out[i] = (float)(words[i] & 0x3ffu) / 1024.0f;
}
static void uniform_f32(const uint32_t words[4], float out[4]) {
  for (int i = 0; i < 4; i++) out[i] = weft_philox_float(words[i]);
}
static void uniform_f64(const uint32_t words[4], double out[4]) {
  for (int i = 0; i < 2; i++) out[i] = weft_philox_double(words[2 * i], words[2 * i + 1]);
}
static void normal_f32(const uint32_t words[4], float out[4]) {
  for (int i = 0; i < 4; i += 2) weft_random_normal_pair(words[i], words[i + 1], out + i);
}
static void normal_f16(const uint32_t words[4], float out[4]) {
  normal_f32(words, out);
  for (int i = 0; i < 4; i++) out[i] = round_f16(out[i]);
}

#define TRUNCATED_STEM f16
#define TRUNCATED_REAL float
#define TRUNCATED_STORAGE uint16_t
#define TRUNCATED_GROUP 4
#define TRUNCATED_LOAD(x) weft_f16_to_f32(x)
#define TRUNCATED_STORE(x) weft_f32_to_f16(x)
#define TRUNCATED_ROUND(x) round_f16(x)
#define TRUNCATED_UNIFORM(words, out) uniform_f16(words, out)
#define TRUNCATED_NORMAL(words, out) normal_f16(words, out)
#define TRUNCATED_F(name) name##f
#include "kernels/cpu/random/random_truncated.tmpl.h"

#define TRUNCATED_STEM f32
#define TRUNCATED_REAL float
#define TRUNCATED_STORAGE float
#define TRUNCATED_GROUP 4
#define TRUNCATED_LOAD(x) (x)
#define TRUNCATED_STORE(x) (x)
#define TRUNCATED_ROUND(x) (x)
#define TRUNCATED_UNIFORM(words, out) uniform_f32(words, out)
#define TRUNCATED_NORMAL(words, out) normal_f32(words, out)
#define TRUNCATED_F(name) name##f
#include "kernels/cpu/random/random_truncated.tmpl.h"

#define TRUNCATED_STEM f64
#define TRUNCATED_REAL double
#define TRUNCATED_STORAGE double
#define TRUNCATED_GROUP 2
#define TRUNCATED_LOAD(x) (x)
#define TRUNCATED_STORE(x) (x)
#define TRUNCATED_ROUND(x) (x)
#define TRUNCATED_UNIFORM(words, out) uniform_f64(words, out)
#define TRUNCATED_NORMAL(words, out) weft_random_normal_pair_f64(words, out)
#define TRUNCATED_F(name) name
#include "kernels/cpu/random/random_truncated.tmpl.h"

static void draw_pieces(void *arg, int64_t begin, int64_t end) {
  truncated_t *job = arg;
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t first = piece * job->batches_per_piece, limit = first + job->batches_per_piece;
    if (limit > job->num_batches) limit = job->num_batches;
    weft_philox_t g = job->generator;
    weft_philox_skip(&g, (uint64_t)first * 2 * TRUNCATED_MAX_TRIES * (uint64_t)(job->batch_size + 3) / 4);
    for (int64_t b = first; b < limit; b++) {
      int64_t from = b * job->batch_size, to = from + job->batch_size;
      if (to > job->out->count) to = job->out->count;
      truncated_end_t e = job->out->dtype == WEFT_F16   ? f16_batch(job, b, from, to, &g)
                          : job->out->dtype == WEFT_F32 ? f32_batch(job, b, from, to, &g)
                                                        : f64_batch(job, b, from, to, &g);
      if (e == TRUNCATED_OK) continue;
      atomic_store_explicit(&job->end, (int)e, memory_order_relaxed);
      return;
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
  for (int i = 0; i < 4; i++) {
    job->parameters[i] = weft_in(ctx, i + 1);
    if (job->parameters[i]->shape.rank <= 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Input %s should be a scalar or vector, got shape: %s", names[i],
                      WEFT_SHAPE_TEXT(&job->parameters[i]->shape));
  }
  if (job->parameters[0]->count == 1 && job->parameters[1]->count == 1 &&
      job->parameters[2]->shape.rank == 0 && job->parameters[3]->shape.rank == 0) {
    job->batch_size = BATCH;
    job->num_batches = y->count / BATCH + (y->count % BATCH != 0);
    return NULL;
  }
  job->num_batches = y->shape.dims[0];
  job->batch_size = job->num_batches == 0 ? 0 : y->count / job->num_batches;
  for (int i = 0; i < 4; i++) {
    int64_t n = job->parameters[i]->count;
    if (n == 1 || n == job->num_batches) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Input %s should have length 1 or shape[0], got shape: %s", names[i],
                      WEFT_SHAPE_TEXT(&job->parameters[i]->shape));
  }
  return NULL;
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *sizes = weft_in(ctx, 0), *y = NULL;
  if (sizes->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input shape should be a vector, got shape: %s",
                      WEFT_SHAPE_TEXT(&sizes->shape));
  }
  if (sizes->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Shape tensor must not be empty, got [0]");
  WEFT_RETURN_IF_ERROR(weft_random_output(ctx, sizes, &y));
  truncated_t job = {.out = y};
  WEFT_RETURN_IF_ERROR(set_batches(ctx, y, &job));
  job.generator = weft_random_stream_take(ctx->state, blocks_to_take(&job));
  if (job.num_batches == 0) return NULL;
  job.batches_per_piece = weft_random_piece(job.num_batches, batch_cost(y->dtype, job.batch_size),
                                            weft_thread_pool_size(ctx->device->pool));
  atomic_init(&job.end, TRUNCATED_OK);
  int64_t pieces = (job.num_batches + job.batches_per_piece - 1) / job.batches_per_piece;
  weft_parallel_for(ctx->device->pool, pieces, 1, draw_pieces, &job);
  return explain((truncated_end_t)atomic_load_explicit(&job.end, memory_order_relaxed));
}

const weft_kernel_t weft_cpu_random_truncated_kernels[] = {
    WEFT_KERNEL("ParameterizedTruncatedNormal", "dtype",
                WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64),
                weft_random_stream_prepare, compute, weft_random_stream_destroy),
    {0},
};
