/* kernels/cpu/nn/lrn.c - local response normalisation across channels, and its gradient.
 *   y[c] = x[c] * N[c]^-beta,  N[c] = bias + alpha * sum of x[k]^2 for k in [c - r, c + r]
 *   dx[k] = dy[k] N[k]^-beta - 2 alpha beta x[k] * sum over c near k of dy[c] y[c] / N[c]
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/libm_vectors.h"

typedef struct lrn_job {
  int64_t depth, radius;
  float bias, alpha, beta;
  float largest; /* a square above it is infinite in the tensor's type */
  const float *x, *dy, *y;
  float *out;
  atomic_bool has_failed; /* no memory; read after the threads have joined */
} lrn_job_t;

static float norm_at(const lrn_job_t *j, const float *x, int64_t c) {
  int64_t from = c > j->radius ? c - j->radius : 0,
          to = c + j->radius < j->depth ? c + j->radius + 1 : j->depth;
  float sum = 0;
  for (int64_t k = from; k < to; k++) sum += x[k] * x[k];
  return j->bias + j->alpha * sum;
}

/* The forward pass is a product with a band of ones in TensorFlow, so that what is not finite spoils the
 * channels out of its reach, too (0 times infinity): where a row has such a square, the zeros count. */
static bool is_spoilt(const lrn_job_t *j, const float *x, int64_t c) {
  for (int64_t k = 0; k < j->depth; k++) {
    if (x[k] * x[k] <= j->largest) continue;
    if (isnan(x[k]) || k < c - j->radius || k > c + j->radius) return true;
  }
  return false;
}

static bool has_infinite_square(const lrn_job_t *j, const float *x) {
  for (int64_t k = 0; k < j->depth; k++) {
    if (!(x[k] * x[k] <= j->largest)) return true;
  }
  return false;
}

/* N^-beta, through the logarithm but for the usual exponents: a negative N has no power, even with a whole
 * beta. */
static float shrink(const lrn_job_t *j, float norm) {
  if (j->beta == 1) return 1 / norm;
  if (j->beta == 0.5) return 1 / sqrtf(norm);
  return expf(-j->beta * logf(norm));
}

/* A row with a square that is not finite. */
static void forward_row(const lrn_job_t *j, const float *x, float *out) {
  const bool infinite = has_infinite_square(j, x);
  for (int64_t c = 0; c < j->depth; c++) {
    float norm = norm_at(j, x, c);
    if (infinite) norm = is_spoilt(j, x, c) ? NAN : norm > j->largest ? INFINITY : norm;
    out[c] = x[c] * shrink(j, norm);
  }
}

/* Channels whose sums stay in registers. */
enum { LRN_BLOCK = 32 };

/* The same for all finite squares, which are in `squares` with j->radius zeros on either side: sums of the
 * same numbers in the same order, side by side. */
static void forward_block(const lrn_job_t *j, const float *x, const float *squares, int n, float *out) {
  float norm[LRN_BLOCK] = {0};
  for (int64_t k = 0; k <= 2 * j->radius; k++) {
    for (int i = 0; i < LRN_BLOCK; i++) norm[i] += squares[k + i];
  }
  for (int i = 0; i < LRN_BLOCK; i++) norm[i] = j->bias + j->alpha * norm[i];
  if (j->beta == 1) {
    for (int i = 0; i < n; i++) out[i] = x[i] * (1 / norm[i]);
  } else if (j->beta == 0.5f) {
    for (int i = 0; i < n; i++) out[i] = x[i] * (1 / sqrtf(norm[i]));
  } else {
    for (int i = 0; i < n; i++) out[i] = x[i] * expf(-j->beta * logf(norm[i]));
  }
}

static int block_of(const lrn_job_t *j, int64_t c) {
  return j->depth - c < LRN_BLOCK ? (int)(j->depth - c) : LRN_BLOCK;
}

/* The squares of a row behind j->radius zeros; true if one is not finite. */
static bool square_row(const lrn_job_t *j, const float *x, float *squares) {
  int infinite = 0;
  for (int64_t c = 0; c < j->depth; c++) {
    const float square = x[c] * x[c];
    squares[j->radius + c] = square;
    infinite |= !(square <= j->largest);
  }
  return infinite != 0;
}

static void forward_range(void *arg, int64_t begin, int64_t end) {
  lrn_job_t *j = arg;
  float *scratch = weft_calloc((size_t)(j->depth + 2 * j->radius + LRN_BLOCK), sizeof *scratch);
  if (scratch == NULL) {
    atomic_store_explicit(&j->has_failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t p = begin; p < end; p++) {
    const float *x = j->x + p * j->depth;
    float *out = j->out + p * j->depth;
    if (square_row(j, x, scratch)) {
      forward_row(j, x, out);
      continue;
    }
    for (int64_t c = 0; c < j->depth; c += LRN_BLOCK) {
      forward_block(j, x + c, scratch + c, block_of(j, c), out + c);
    }
  }
  weft_free(scratch);
}

/* A row with a square that is not finite. */
static void grad_row(const lrn_job_t *j, const float *x, const float *dy, const float *y, float *dx) {
  for (int64_t c = 0; c < j->depth; c++) dx[c] = 0;
  for (int64_t c = 0; c < j->depth; c++) {
    float norm = norm_at(j, x, c), share = -2 * j->alpha * j->beta * dy[c] * y[c] / norm;
    int64_t from = c > j->radius ? c - j->radius : 0,
            to = c + j->radius < j->depth ? c + j->radius + 1 : j->depth;
    for (int64_t k = from; k < to; k++) dx[k] += share * x[k];
    dx[c] += dy[c] * powf(norm, -j->beta);
  }
}

/* The same side by side for finite squares: `shares` are -2 alpha beta dy y / N with j->radius zeros on
 * either side, `own` is dy N^-beta. Sums are those of grad_row in its order. */
static void grad_block(const lrn_job_t *j, const float *x, const float *shares, const float *own, int n,
                       float *dx) {
  float sum[LRN_BLOCK] = {0}, of_x[LRN_BLOCK] = {0}, of_own[LRN_BLOCK] = {0};
  memcpy(of_x, x, (size_t)n * sizeof *x);
  memcpy(of_own, own, (size_t)n * sizeof *own);
  for (int64_t k = 0; k <= 2 * j->radius; k++) {
    for (int i = 0; i < LRN_BLOCK; i++) sum[i] += shares[k + i] * of_x[i];
    if (k != j->radius) continue;
    for (int i = 0; i < LRN_BLOCK; i++) sum[i] += of_own[i];
  }
  memcpy(dx, sum, (size_t)n * sizeof *dx);
}

/* Of LRN_BLOCK channels N is made in a block; what lies behind the row is not read. */
static void norm_block(const lrn_job_t *j, const float *squares, const float *dy, const float *y, int n,
                       float *shares, float *own) {
  float norm[LRN_BLOCK] = {0}, share[LRN_BLOCK] = {0}, power[LRN_BLOCK];
  float of_dy[LRN_BLOCK] = {0}, of_y[LRN_BLOCK] = {0};
  memcpy(of_dy, dy, (size_t)n * sizeof *dy);
  memcpy(of_y, y, (size_t)n * sizeof *y);
  for (int64_t k = 0; k <= 2 * j->radius; k++) {
    for (int i = 0; i < LRN_BLOCK; i++) norm[i] += squares[k + i];
  }
  for (int i = 0; i < LRN_BLOCK; i++) norm[i] = j->bias + j->alpha * norm[i];
  for (int i = 0; i < LRN_BLOCK; i++) share[i] = -2 * j->alpha * j->beta * of_dy[i] * of_y[i] / norm[i];
  for (int i = 0; i < LRN_BLOCK; i++) power[i] = of_dy[i] * powf(norm[i], -j->beta);
  memcpy(shares, share, (size_t)n * sizeof *share);
  memcpy(own, power, (size_t)n * sizeof *power);
}

static void grad_range(void *arg, int64_t begin, int64_t end) {
  lrn_job_t *j = arg;
  const int64_t padded = j->depth + 2 * j->radius + LRN_BLOCK;
  float *squares = weft_calloc((size_t)(2 * padded + j->depth), sizeof *squares);
  if (squares == NULL) {
    atomic_store_explicit(&j->has_failed, true, memory_order_relaxed);
    return;
  }
  float *shares = squares + padded, *own = shares + padded;
  for (int64_t p = begin; p < end; p++) {
    const float *x = j->x + p * j->depth, *dy = j->dy + p * j->depth, *y = j->y + p * j->depth;
    float *dx = j->out + p * j->depth;
    if (square_row(j, x, squares)) {
      grad_row(j, x, dy, y, dx);
      continue;
    }
    for (int64_t c = 0; c < j->depth; c += LRN_BLOCK) {
      const int n = block_of(j, c);
      norm_block(j, squares + c, dy + c, y + c, n, shares + j->radius + c, own + c);
    }
    for (int64_t c = 0; c < j->depth; c += LRN_BLOCK) {
      grad_block(j, x + c, shares + c, own + c, block_of(j, c), dx + c);
    }
  }
  weft_free(squares);
}

/* LRN has one input, LRNGrad three: they are read as floats, the result is in the node's type. */
WEFT_ATTRS(lrn, (INT, depth_radius), (FLOAT, bias), (FLOAT, alpha), (FLOAT, beta))
static weft_status_t *lrn(weft_kernel_ctx_t *ctx, const lrn_attrs_t *attrs) {
  bool grad = ctx->node->num_inputs == 3;
  weft_tensor_t *wide[3] = {NULL}, *out = NULL, *made = NULL;
  weft_dtype_t dtype = weft_in(ctx, 0)->dtype;
  weft_shape_t shape = weft_in(ctx, 0)->shape;
  weft_status_t *s = NULL;
  int64_t radius = attrs->depth_radius;
  if (radius < 0 || radius > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "depth_radius = %" PRId64 " larger than int max", radius);
  }
  if (shape.rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 4-dimensional", grad ? "inputs" : "in");
  }
  for (int i = 1; i < ctx->node->num_inputs; i++) {
    if (weft_shape_eq(&weft_in(ctx, i)->shape, &shape)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "input_grads, input_image, and out_image should have the same shape");
  }
  for (int i = 0; s == NULL && i < ctx->node->num_inputs; i++) {
    if (dtype == WEFT_F32) {
      wide[i] = weft_tensor_retain(weft_in(ctx, i));
    } else {
      s = weft_cpu_cast(ctx, weft_in(ctx, i), WEFT_F32, &wide[i]);
    }
  }
  if (s == NULL) s = weft_tensor_new(WEFT_F32, &shape, ctx->device->allocator, &out);
  if (s == NULL && out->count > 0) {
    lrn_job_t j = {.depth = shape.dims[3],
                   .radius = radius < shape.dims[3] ? radius : shape.dims[3],
                   .bias = attrs->bias,
                   .alpha = attrs->alpha,
                   .beta = attrs->beta,
                   .largest = dtype == WEFT_F16 ? 65504 : FLT_MAX,
                   .x = wide[grad ? 1 : 0]->data,
                   .dy = wide[0]->data,
                   .y = grad ? wide[2]->data : NULL,
                   .out = out->data};
    const weft_unit_cost_t row = {.cycles = 16 * (double)j.depth}; /* a power for each element */
    weft_parallel_for_cost(ctx->device->pool, out->count / j.depth, row, grad ? grad_range : forward_range,
                           &j);
    if (atomic_load_explicit(&j.has_failed, memory_order_relaxed)) s = WEFT_NO_MEMORY("LRN");
  }
  for (int i = 0; i < 3; i++) weft_tensor_release(wide[i]);
  if (s == NULL && dtype != WEFT_F32) {
    s = weft_cpu_cast(ctx, out, dtype, &made);
    weft_tensor_release(out);
    out = made; /* NULL if that failed */
  }
  if (s == NULL) {
    weft_out_set(ctx, 0, out);
  } else {
    weft_tensor_release(out);
  }
  return s;
}

#define LRN_TYPES (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_BF16) | WEFT_DTYPE_BIT(WEFT_F32))

const weft_kernel_t weft_cpu_lrn_kernels[] = {
    WEFT_KERNEL_ATTRS("LRN", "T", LRN_TYPES, lrn),
    WEFT_KERNEL_ATTRS("LRNGrad", "T", LRN_TYPES, lrn),
    {0},
};
