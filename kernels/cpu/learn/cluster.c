/* kernels/cpu/learn/cluster.c - k-means: how its centres are chosen at first, and which of them are nearest.
 *
 * Distances are half the squared Euclidean ones, |x|^2/2 - x.y + |y|^2/2. k-means++: Arthur and
 * Vassilvitskii, 2007; k-MC^2: Bachem, Lucic, Hassani and Krause, 2016. Random numbers are drawn in
 * TensorFlow's order.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/philox.h"

static weft_philox_words_t words_of(const weft_tensor_t *seed) {
  uint64_t key = (uint64_t)weft_cpu_int_at(seed, 0);
  return weft_philox_words((weft_philox_t){.key = {(uint32_t)key, (uint32_t)(key >> 32)}});
}

static weft_status_t *check_scalar(const weft_tensor_t *t, const char *name) {
  return t->shape.rank == 0 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "Input %s should be a scalar.", name);
}

/* ---- one Markov chain of k-MC^2 ---- */

static weft_status_t *chain(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *distances = weft_in(ctx, 0), *seed = weft_in(ctx, 1);
  weft_tensor_t *out = NULL;
  const weft_shape_t scalar = WEFT_SCALAR;
  if (distances->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input distances should be a vector.");
  }
  WEFT_RETURN_IF_ERROR(check_scalar(seed, "seed"));
  if (distances->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Expected distances_tensor.size() > 0.");
  weft_philox_words_t words = words_of(seed);
  const float *distance = distances->data;
  int64_t at = 0;
  for (int64_t i = 1; i < distances->count; i++) {
    if (distance[i] > weft_philox_float(weft_philox_word(&words)) * distance[at]) at = i;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I64, &scalar, &out));
  *(int64_t *)out->data = at;
  return NULL;
}

/* ---- distances ---- */

static float dot(const float *x, const float *y, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

/* ---- k-means++ ---- */

typedef struct plus_plus {
  const float *points;
  int64_t num_points, width;
  float *half_norms;       /* of the points */
  float *nearest;          /* half the squared distance to the nearest point chosen */
  float *sums;             /* its running sums */
  float *candidate, *best; /* `nearest` if a candidate were chosen, too */
  bool *is_chosen;
  bool has_chosen;
  weft_philox_words_t words;
} plus_plus_t;

enum { MAX_REFUSED = 10000 };

/* A point that is not chosen yet, in proportion to its distance. */
static int64_t draw(plus_plus_t *p) {
  if (!p->has_chosen) return (int64_t)weft_philox_uniform64(&p->words, (uint64_t)p->num_points);
  float total = p->sums[p->num_points - 1];
  int64_t at = 0;
  for (int refused = 0; refused < MAX_REFUSED; refused++) {
    if (!(total > 0)) {
      at = (int64_t)weft_philox_uniform64(&p->words, (uint64_t)p->num_points);
      if (!p->is_chosen[at]) return at;
      continue;
    }
    float wanted = weft_philox_float(weft_philox_word(&p->words)) * total;
    int64_t n = p->num_points;
    for (at = 0; n > 0;) { /* the first running sum above it */
      int64_t half = n / 2;
      bool is_above = wanted < p->sums[at + half];
      at = is_above ? at : at + half + 1;
      n = is_above ? half : n - half - 1;
    }
    if (at == p->num_points) at--;
    if (!p->is_chosen[at]) return at;
  }
  while (p->is_chosen[at]) at = (at + 1) % p->num_points; /* only rounding errors are left to choose from */
  return at;
}

/* Into `to`, and returns the sum. */
static float distances_with(const plus_plus_t *p, int64_t chosen, float *to) {
  float sum = 0;
  for (int64_t i = 0; i < p->num_points; i++) {
    float product = dot(p->points + i * p->width, p->points + chosen * p->width, p->width);
    float distance = p->half_norms[i] - product + p->half_norms[chosen];
    to[i] = distance < p->nearest[i] ? distance : p->nearest[i];
    sum += to[i];
  }
  return sum;
}

/* The best of some candidates: that which leaves the least distance. */
static int64_t choose(plus_plus_t *p, int64_t candidates) {
  float least = INFINITY;
  int64_t chosen = 0;
  for (int64_t i = 0; i < candidates; i++) {
    int64_t candidate = draw(p);
    float left = distances_with(p, candidate, p->candidate);
    if (!(left < least) && candidates > 1) continue;
    float *swapped = p->best;
    least = left;
    chosen = candidate;
    p->best = p->candidate;
    p->candidate = swapped;
  }
  memcpy(p->nearest, p->best, (size_t)p->num_points * sizeof *p->nearest);
  return chosen;
}

static void run_plus_plus(plus_plus_t *p, int64_t num, int64_t candidates, float *out) {
  for (int64_t i = 0; i < p->num_points; i++) {
    const float *x = p->points + i * p->width;
    p->half_norms[i] = 0.5f * dot(x, x, p->width);
    p->nearest[i] = INFINITY;
  }
  for (int64_t k = 0; k < num; k++) {
    float sum = 0;
    for (int64_t i = 0; i < p->num_points; i++) p->sums[i] = sum += p->nearest[i];
    int64_t chosen = choose(p, candidates);
    p->is_chosen[chosen] = p->has_chosen = true;
    memcpy(out + k * p->width, p->points + chosen * p->width, (size_t)p->width * sizeof *out);
  }
}

static weft_status_t *plus_plus(weft_kernel_ctx_t *ctx) {
  static const char *const names[] = {"points", "num_to_sample", "seed", "num_retries_per_sample"};
  const weft_tensor_t *points = weft_in(ctx, 0);
  weft_tensor_t *out = NULL;
  if (points->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "Input points should be a matrix.");
  for (int i = 1; i < 4; i++) WEFT_RETURN_IF_ERROR(check_scalar(weft_in(ctx, i), names[i]));
  int64_t n = points->shape.dims[0], width = points->shape.dims[1], num = weft_cpu_int_at(weft_in(ctx, 1), 0),
          retries = weft_cpu_int_at(weft_in(ctx, 3), 0);
  if (n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Expected points.rows() > 0.");
  if (num <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Expected num_to_sample > 0.");
  if (num > n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected num_to_sample <= points.rows(). %" PRId64 " vs %" PRId64 ".", num, n);
  }
  if (retries < 0) retries = 2 + (int64_t)log((double)num);
  weft_shape_t shape = weft_shape_matrix(num, width);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &out));
  float *numbers = weft_calloc((size_t)n, 5 * sizeof *numbers);
  plus_plus_t p = {.points = points->data,
                   .num_points = n,
                   .width = width,
                   .words = words_of(weft_in(ctx, 2)),
                   .is_chosen = weft_calloc((size_t)n, sizeof *p.is_chosen)};
  weft_status_t *s = numbers == NULL || p.is_chosen == NULL ? WEFT_NO_MEMORY("distances") : NULL;
  if (s == NULL) {
    p.half_norms = numbers;
    p.nearest = numbers + n;
    p.sums = numbers + 2 * n;
    p.candidate = numbers + 3 * n;
    p.best = numbers + 4 * n;
    int32_t candidates = (int32_t)((uint64_t)retries + 1); /* cut off as TensorFlow does */
    run_plus_plus(&p, num, candidates < 1 ? 1 : candidates, out->data);
  }
  weft_free(numbers);
  weft_free(p.is_chosen);
  return s;
}

/* ---- nearest centres ---- */

typedef struct centre {
  float distance; /* without the point's own norm */
  int64_t index;
} centre_t;

static int by_distance(const void *a, const void *b) {
  const centre_t *x = a, *y = b;
  if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static weft_status_t *check_nearest(const weft_tensor_t *points, const weft_tensor_t *centres,
                                    const weft_tensor_t *k) {
  if (points->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "Input points should be a matrix.");
  if (centres->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "Input centers should be a matrix.");
  WEFT_RETURN_IF_ERROR(check_scalar(k, "k"));
  if (points->shape.dims[0] == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Expected points.rows() > 0.");
  if (points->shape.dims[1] != centres->shape.dims[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected point_dimensions == center_dimensions: %" PRId64 " vs %" PRId64 ".",
                      points->shape.dims[1], centres->shape.dims[1]);
  }
  if (weft_cpu_int_at(k, 0) < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Expected k >= 0.");
  return NULL;
}

static weft_status_t *nearest(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *points = weft_in(ctx, 0), *centres = weft_in(ctx, 1), *wanted = weft_in(ctx, 2);
  weft_tensor_t *indices = NULL, *distances = NULL;
  WEFT_RETURN_IF_ERROR(check_nearest(points, centres, wanted));
  int64_t n = points->shape.dims[0], num = centres->shape.dims[0], width = points->shape.dims[1],
          k = weft_cpu_int_at(wanted, 0);
  if (k > num) k = num;
  weft_shape_t shape = weft_shape_matrix(n, k);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I64, &shape, &indices));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, WEFT_F32, &shape, &distances));
  if (k == 0) return NULL;
  centre_t *order = weft_calloc((size_t)num, sizeof *order);
  float *half_norms = weft_calloc((size_t)num, sizeof *half_norms);
  weft_status_t *s = order == NULL || half_norms == NULL ? WEFT_NO_MEMORY("distances") : NULL;
  const float *centre = centres->data;
  for (int64_t j = 0; s == NULL && j < num; j++)
    half_norms[j] = 0.5f * dot(centre + j * width, centre + j * width, width);
  for (int64_t i = 0; s == NULL && i < n; i++) {
    const float *x = (const float *)points->data + i * width;
    float half_norm = 0.5f * dot(x, x, width);
    for (int64_t j = 0; j < num; j++)
      order[j] = (centre_t){half_norms[j] - dot(x, centre + j * width, width), j};
    qsort(order, (size_t)num, sizeof *order, by_distance);
    for (int64_t j = 0; j < k; j++) {
      ((int64_t *)indices->data)[i * k + j] = order[j].index;
      ((float *)distances->data)[i * k + j] = 2 * (half_norm + order[j].distance);
    }
  }
  weft_free(order);
  weft_free(half_norms);
  return s;
}

const weft_kernel_t weft_cpu_cluster_kernels[] = {
    {.op = "KMC2ChainInitialization", .compute = chain},
    {.op = "KmeansPlusPlusInitialization", .compute = plus_plus},
    {.op = "NearestNeighbors", .compute = nearest},
    {0},
};
