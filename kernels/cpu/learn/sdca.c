/* kernels/cpu/learn/sdca.c - SdcaOptimizer: linear models by stochastic dual coordinate ascent.
 *
 * A step takes the examples one after another in a random order, moves the dual variable of each to its best
 * value (sdca_loss.h) and the weights with it. Weights are shrunk by l1/l2 where they are read.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/learn/sdca_loss.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/fingerprint.h"
#include "kernels/cpu/random/philox.h"

/* ---- a group of features ---- */

/* Where a feature has its weight. */
typedef struct sdca_place {
  int64_t feature, at;
} sdca_place_t;

typedef struct sdca_group {
  const float *weights; /* as they came */
  float *deltas;        /* what the step adds */
  int64_t num_weights;
  /* sparse: entry k of the batch is a feature of an example; those of example i are first[i] to first[i + 1]
   */
  const int64_t *features;
  const float *values; /* NULL: all are 1 */
  int64_t *first, *at; /* `at`: of entry k, the place of its weight */
  /* dense: rows of `width` */
  const float *rows;
  int64_t width;
} sdca_group_t;

typedef struct sdca_run {
  const weft_sdca_loss_t *loss;
  sdca_group_t *groups; /* num_sparse, then num_dense */
  int64_t num_sparse, num_dense, num_examples, partitions;
  const float *labels, *weights;
  float *state; /* num_examples rows of 4: dual variable, primal loss, dual loss, weight */
  double *norms;
  int64_t *order;
  double shrinkage;
  float l2;
} sdca_run_t;

static double shrink(double weight, double by) {
  double left = fabs(weight) - by;
  return left > 0 ? copysign(left, weight) : 0;
}

/* ---- reading the inputs ---- */

static int by_feature(const void *a, const void *b) {
  const sdca_place_t *x = a, *y = b;
  if (x->feature != y->feature) return x->feature < y->feature ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}
static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The last place of a feature; -1: it has none. */
static int64_t find(const sdca_place_t *places, int64_t n, int64_t feature) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (places[middle].feature <= feature) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0 && places[low - 1].feature == feature ? places[low - 1].at : -1;
}

/* Places of all entries that belong to an example, and the ranges of the examples. */
static weft_status_t *place_entries(sdca_group_t *g, const weft_tensor_t *examples,
                                    const weft_tensor_t *indices, int64_t num_examples) {
  const int64_t *example = examples->data, *index = indices->data;
  sdca_place_t *places = weft_calloc((size_t)indices->count + 1, sizeof *places);
  if (places == NULL) return WEFT_NO_MEMORY("places of features");
  for (int64_t i = 0; i < indices->count; i++) places[i] = (sdca_place_t){index[i], i};
  qsort(places, (size_t)indices->count, sizeof *places, by_feature);
  weft_status_t *s = NULL;
  int64_t k = 0;
  for (int64_t i = 0; s == NULL && i < num_examples; i++) {
    for (g->first[i] = k; s == NULL && k < examples->count && example[k] == i; k++) {
      g->at[k] = find(places, indices->count, g->features[k]);
      if (g->at[k] >= 0) continue;
      s = WEFT_ERROR(INVALID_ARGUMENT, "Found sparse feature indices out of valid range: %" PRId64,
                     g->features[k]);
    }
  }
  g->first[num_examples] = k;
  weft_free(places);
  return s;
}

/* An example names no feature twice. */
static weft_status_t *check_twice(const sdca_group_t *g, int64_t num_examples, int64_t num_entries) {
  int64_t *sorted = weft_calloc((size_t)num_entries + 1, sizeof *sorted);
  if (sorted == NULL) return WEFT_NO_MEMORY("features of an example");
  bool is_twice = false;
  for (int64_t i = 0; i < num_examples; i++) {
    int64_t n = g->first[i + 1] - g->first[i];
    memcpy(sorted, g->features + g->first[i], (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    for (int64_t k = 1; k < n; k++) is_twice = is_twice || sorted[k] == sorted[k - 1];
  }
  weft_free(sorted);
  return is_twice ? WEFT_ERROR(INVALID_ARGUMENT, "Duplicate index in sparse vector.") : NULL;
}

/* A group's weights and the output for what is added to them. */
static weft_status_t *read_weights(weft_kernel_ctx_t *ctx, sdca_group_t *g, const weft_tensor_t *weights,
                                   int output) {
  weft_tensor_t *deltas = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, output, WEFT_F32, &weights->shape, &deltas));
  weft_cpu_zero(deltas);
  g->weights = weights->data;
  g->deltas = deltas->data;
  g->num_weights = weights->count;
  return NULL;
}

static weft_status_t *read_sparse(weft_kernel_ctx_t *ctx, sdca_run_t *r, int i, int num_values) {
  int s = (int)r->num_sparse, behind = 2 * s + num_values + (int)r->num_dense + 2;
  sdca_group_t *g = &r->groups[i];
  const weft_tensor_t *examples = weft_in(ctx, i), *features = weft_in(ctx, s + i),
                      *values = i < num_values ? weft_in(ctx, 2 * s + i) : NULL,
                      *indices = weft_in(ctx, behind + i), *weights = weft_in(ctx, behind + s + i);
  if (examples->count != features->count || (values != NULL && values->count != features->count)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Found mismatched example_indices and feature_indices");
  }
  if (indices->count != weights->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse_indices and sparse_weights must have the same size");
  }
  WEFT_RETURN_IF_ERROR(read_weights(ctx, g, weights, 1 + i));
  g->features = features->data;
  g->values = values == NULL ? NULL : values->data;
  g->first = weft_calloc((size_t)r->num_examples + 1, sizeof *g->first);
  g->at = weft_calloc((size_t)features->count + 1, sizeof *g->at);
  if (g->first == NULL || g->at == NULL) return WEFT_NO_MEMORY("sparse features");
  WEFT_RETURN_IF_ERROR(place_entries(g, examples, indices, r->num_examples));
  return check_twice(g, r->num_examples, features->count);
}

static weft_status_t *read_dense(weft_kernel_ctx_t *ctx, sdca_run_t *r, int i, int num_values) {
  int s = (int)r->num_sparse, d = (int)r->num_dense;
  sdca_group_t *g = &r->groups[s + i];
  const weft_tensor_t *rows = weft_in(ctx, 2 * s + num_values + i),
                      *weights = weft_in(ctx, 2 * s + num_values + d + 2 + 2 * s + i);
  if (rows->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Dense features at index %d must be rank 2 but is rank %d", i,
                      rows->shape.rank);
  }
  WEFT_RETURN_IF_ERROR(read_weights(ctx, g, weights, 1 + s + i));
  g->rows = rows->data;
  g->width = rows->shape.dims[1];
  if (rows->shape.dims[0] != r->num_examples || g->width == 0 || g->width > g->num_weights) {
    return WEFT_ERROR(INVALID_ARGUMENT, "More dense features than we have parameters for: %" PRId64,
                      g->width);
  }
  return NULL;
}

/* ---- one example ---- */

typedef struct sdca_dot {
  double now, before; /* with the weights as they are, and as they came */
} sdca_dot_t;

static sdca_dot_t predict(const sdca_run_t *r, int64_t example) {
  sdca_dot_t sum = {0, 0};
  for (int64_t j = 0; j < r->num_sparse; j++) {
    const sdca_group_t *g = &r->groups[j];
    for (int64_t k = g->first[example]; k < g->first[example + 1]; k++) {
      float weight = g->weights[g->at[k]], moved = weight + g->deltas[g->at[k]] * (float)r->partitions;
      double value = g->values == NULL ? 1 : (double)g->values[k];
      sum.before += value * shrink((double)weight, r->shrinkage);
      sum.now += value * shrink((double)moved, r->shrinkage);
    }
  }
  for (int64_t j = r->num_sparse; j < r->num_sparse + r->num_dense; j++) {
    const sdca_group_t *g = &r->groups[j];
    const float *row = g->rows + example * g->width;
    for (int64_t k = 0; k < g->width; k++) {
      float moved = g->weights[k] + g->deltas[k] * (float)r->partitions;
      sum.before += (double)row[k] * shrink((double)g->weights[k], r->shrinkage);
      sum.now += (double)row[k] * shrink((double)moved, r->shrinkage);
    }
  }
  return sum;
}

/* Adds the features of an example, times `by`, to the weights. */
static void move_weights(const sdca_run_t *r, int64_t example, double by) {
  for (int64_t j = 0; j < r->num_sparse; j++) {
    const sdca_group_t *g = &r->groups[j];
    for (int64_t k = g->first[example]; k < g->first[example + 1]; k++) {
      float *to = &g->deltas[g->at[k]];
      *to = (float)((double)*to + (g->values == NULL ? 1 : (double)g->values[k]) * by);
    }
  }
  for (int64_t j = r->num_sparse; j < r->num_sparse + r->num_dense; j++) {
    const sdca_group_t *g = &r->groups[j];
    for (int64_t k = 0; k < g->width; k++) g->deltas[k] += g->rows[example * g->width + k] * (float)by;
  }
}

static double squared_norm(const sdca_run_t *r, int64_t example) {
  double sum = 0;
  for (int64_t j = 0; j < r->num_sparse; j++) {
    const sdca_group_t *g = &r->groups[j];
    for (int64_t k = g->first[example]; k < g->first[example + 1]; k++) {
      double value = g->values == NULL ? 1 : (double)g->values[k];
      sum += value * value;
    }
  }
  for (int64_t j = r->num_sparse; j < r->num_sparse + r->num_dense; j++) {
    const sdca_group_t *g = &r->groups[j];
    for (int64_t k = 0; k < g->width; k++) {
      double value = (double)g->rows[example * g->width + k];
      sum += value * value;
    }
  }
  return sum;
}

static weft_status_t *take_example(const sdca_run_t *r, int64_t i) {
  float *state = r->state + 4 * i;
  weft_sdca_example_t e = {.weight = (double)r->weights[i], .dual = (double)state[0]};
  WEFT_RETURN_IF_ERROR(weft_sdca_label(r->loss, r->labels[i], &e.label));
  sdca_dot_t dot = predict(r, i);
  e.wx = dot.now;
  e.norm = (double)r->partitions * (r->norms[i] / (double)r->l2);
  double dual = r->loss->update(&e);
  move_weights(r, i, (dual - e.dual) * e.weight / (double)r->l2);
  state[0] = (float)dual;
  state[1] = (float)(r->loss->primal(dot.before, e.label) * e.weight);
  state[2] = (float)(r->loss->dual(&e) * e.weight);
  state[3] = (float)e.weight;
  return NULL;
}

/* ---- the order of the examples ---- */

static void shuffle(const sdca_run_t *r) {
  weft_philox_words_t words = weft_philox_words(weft_philox_seeded(0, 0));
  for (int64_t i = 0; i < r->num_examples; i++) r->order[i] = i;
  for (int64_t i = r->num_examples - 1; i > 0; i--) {
    int64_t k = (int64_t)weft_philox_uniform64(&words, (uint64_t)i + 1), swapped = r->order[i];
    r->order[i] = r->order[k];
    r->order[k] = swapped;
  }
}

/* Examples in proportion to how far they are from their optimum, each time they are taken with a tenth of the
 * probability; when too many draws were refused, the others follow. */
static weft_status_t *sample(const sdca_run_t *r) {
  weft_philox_words_t words = weft_philox_words(weft_philox_seeded(0, 0));
  double *sums = weft_calloc((size_t)r->num_examples + 1, sizeof *sums),
         *keep = weft_calloc((size_t)r->num_examples + 1, sizeof *keep), total = 0;
  weft_status_t *s = sums == NULL || keep == NULL ? WEFT_NO_MEMORY("probabilities of examples") : NULL;
  for (int64_t i = 0; s == NULL && i < r->num_examples; i++) {
    double label = 0;
    s = weft_sdca_label(r->loss, r->labels[i], &label);
    double distance = fabs((double)r->state[4 * i] + r->loss->slope(predict(r, i).now, label));
    double scale = sqrt(r->norms[i] + (double)r->l2 * r->loss->smoothness);
    sums[i] = total += (double)r->weights[i] * scale * distance;
    keep[i] = 1;
  }
  int64_t n = 0;
  for (int64_t refused = 0; s == NULL && total > 0 && n < r->num_examples && refused < r->num_examples;) {
    double wanted = weft_philox_double(weft_philox_word(&words), weft_philox_word(&words)) * total;
    int64_t at = 0, high = r->num_examples - 1;
    while (at < high) { /* the first running sum above it */
      int64_t middle = at + (high - at) / 2;
      bool is_above = wanted < sums[middle];
      high = is_above ? middle : high;
      at = is_above ? at : middle + 1;
    }
    if (weft_philox_double(weft_philox_word(&words), weft_philox_word(&words)) > keep[at]) {
      refused++;
      continue;
    }
    keep[at] /= 10;
    r->order[n++] = at;
  }
  for (int64_t i = 0; s == NULL && i < r->num_examples && n < r->num_examples; i++) {
    if (keep[i] == 1) r->order[n++] = i;
  }
  for (; s == NULL && n < r->num_examples; n++) r->order[n] = r->order[0]; /* all were taken */
  weft_free(sums);
  weft_free(keep);
  return s;
}

/* ---- the op ---- */

/* The attributes, as prepare has read them. */
typedef struct sdca_options {
  const weft_sdca_loss_t *loss;
  int64_t num_sparse, num_values, num_dense, partitions;
  float l1, l2;
  bool is_adaptive;
} sdca_options_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  sdca_options_t o = {.loss = weft_sdca_loss_find(weft_knode_string(setup, "loss_type")),
                      .num_sparse = weft_knode_int(setup, "num_sparse_features"),
                      .num_values = weft_knode_int(setup, "num_sparse_features_with_values"),
                      .num_dense = weft_knode_int(setup, "num_dense_features"),
                      .partitions = weft_knode_int(setup, "num_loss_partitions"),
                      .l1 = weft_knode_float(setup, "l1"),
                      .l2 = weft_knode_float(setup, "l2"),
                      .is_adaptive = weft_knode_bool_or(setup, "adaptative", false) ||
                                     weft_knode_bool_or(setup, "adaptive", false)};
  if (o.loss == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported loss type");
  if (o.num_sparse + o.num_dense < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Requires at least one feature to train.");
  }
  sdca_options_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("SdcaOptimizer");
  *state = o;
  *out_state = state;
  return NULL;
}

static weft_status_t *read_examples(weft_kernel_ctx_t *ctx, sdca_run_t *r, int num_values) {
  int at = 2 * (int)r->num_sparse + num_values + (int)r->num_dense;
  const weft_tensor_t *weights = weft_in(ctx, at), *labels = weft_in(ctx, at + 1),
                      *state = weft_in(ctx, ctx->node->num_inputs - 1);
  weft_shape_t shape = weft_shape_matrix(weights->count, 4);
  weft_tensor_t *out = NULL;
  r->num_examples = weights->count;
  if (labels->count != weights->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected %" PRId64 " example labels but got %" PRId64,
                      weights->count, labels->count);
  }
  for (int i = 0; i < r->num_sparse; i++) WEFT_RETURN_IF_ERROR(read_sparse(ctx, r, i, num_values));
  for (int i = 0; i < r->num_dense; i++) WEFT_RETURN_IF_ERROR(read_dense(ctx, r, i, num_values));
  if (!weft_shape_eq(&state->shape, &shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected shape %s for example_state_data, got %s",
                      WEFT_SHAPE_TEXT(&shape), WEFT_SHAPE_TEXT(&state->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &out));
  WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, 0, state, 0, state->count));
  r->weights = weights->data;
  r->labels = labels->data;
  r->state = out->data;
  return NULL;
}

static weft_status_t *step(sdca_run_t *r, bool is_adaptive) {
  r->norms = weft_calloc((size_t)r->num_examples + 1, sizeof *r->norms);
  r->order = weft_calloc((size_t)r->num_examples + 1, sizeof *r->order);
  if (r->norms == NULL || r->order == NULL) return WEFT_NO_MEMORY("examples");
  for (int64_t i = 0; i < r->num_examples; i++) r->norms[i] = squared_norm(r, i);
  if (is_adaptive) {
    WEFT_RETURN_IF_ERROR(sample(r));
  } else {
    shuffle(r);
  }
  for (int64_t i = 0; i < r->num_examples; i++) WEFT_RETURN_IF_ERROR(take_example(r, r->order[i]));
  return NULL;
}

static weft_status_t *optimize(weft_kernel_ctx_t *ctx) {
  const sdca_options_t *o = ctx->state;
  int64_t num_groups = o->num_sparse + o->num_dense;
  sdca_run_t r = {.loss = o->loss,
                  .num_sparse = o->num_sparse,
                  .num_dense = o->num_dense,
                  .partitions = o->partitions,
                  .l2 = o->l2,
                  .shrinkage = (double)(o->l1 / o->l2),
                  .groups = weft_calloc((size_t)num_groups, sizeof *r.groups)};
  if (r.groups == NULL) return WEFT_NO_MEMORY("groups of features");
  weft_status_t *s = read_examples(ctx, &r, (int)o->num_values);
  if (s == NULL) s = step(&r, o->is_adaptive);
  for (int64_t j = 0; j < num_groups; j++) {
    weft_free(r.groups[j].first);
    weft_free(r.groups[j].at);
  }
  weft_free(r.groups);
  weft_free(r.norms);
  weft_free(r.order);
  return s;
}

/* ---- SdcaFprint ---- */

/* The first number is never 0 or 1, which tables of examples may use for keys of their own. */
static weft_status_t *fprint(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *in = weft_in(ctx, 0);
  weft_tensor_t *out = NULL;
  if (in->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must be a vector, got shape %s", WEFT_SHAPE_TEXT(&in->shape));
  }
  weft_shape_t shape = weft_shape_matrix(in->count, 2);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I64, &shape, &out));
  for (int64_t i = 0; i < in->count; i++) {
    uint64_t hash[2];
    weft_fingerprint128(weft_tensor_str_at(in, i), hash);
    ((uint64_t *)out->data)[2 * i] = hash[0] >= 2 ? hash[0] : hash[0] + ~UINT64_C(1);
    ((uint64_t *)out->data)[2 * i + 1] = hash[1];
  }
  return NULL;
}

/* ---- SdcaShrinkL1 ---- */

WEFT_ATTRS(shrink_l1, (FLOAT, l1), (FLOAT, l2))
static weft_status_t *shrink_l1(weft_kernel_ctx_t *ctx, const shrink_l1_attrs_t *attrs) {
  float by = attrs->l1 / attrs->l2;
  for (int i = 0; i < ctx->node->num_inputs; i++) {
    weft_variable_t *v = ctx->inputs[i].ref;
    weft_mutex_lock(&v->mu);
    weft_status_t *s =
        v->value == NULL ? weft_variable_uninitialized(v) : weft_variable_make_writable_locked(v);
    for (int64_t k = 0; s == NULL && k < v->value->count; k++) {
      float *weight = (float *)v->value->data + k;
      *weight = (float)shrink((double)*weight, (double)by);
    }
    weft_mutex_unlock(&v->mu);
    if (s != NULL) return s;
  }
  return NULL;
}

const weft_kernel_t weft_cpu_sdca_kernels[] = {
    {.op = "SdcaFprint", .compute = fprint},
    {.op = "SdcaOptimizer", .prepare = prepare, .compute = optimize, .destroy = weft_free},
    {.op = "SdcaOptimizerV2", .prepare = prepare, .compute = optimize, .destroy = weft_free},
    {.op = "SdcaShrinkL1", WEFT_COMPUTE(shrink_l1)},
    {0},
};
