/* resources/accumulator.c - sums of gradients, and waits for them.
 *
 * The sum is a tensor that the accumulator shares with the worker that sent the
 * first gradient, until the second comes. Adding happens under the lock: one
 * gradient after the other, as readers of the count expect.
 *
 * Locking: room.mu guards the sum, the count and the step; it is a leaf, but for
 * allocating the sum.
 */
#include "resources/accumulator.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "resources/wait_room.h"
#include "tensor/update.h"

/* What has been gathered. Indices and counts are of a sparse one: a row each. */
typedef struct sum {
  weft_tensor_t *values;
  weft_tensor_t *indices; /* int64 */
  int64_t *counts;        /* owned */
} sum_t;

struct weft_accumulator {
  weft_object_t object;
  char *name;
  weft_accumulator_config_t config;
  weft_wait_room_t room;
  sum_t sum;     /* guarded by room.mu, with what follows */
  int64_t count; /* of gradients in `sum` */
  int64_t step;
};

static void sum_clear(sum_t *s) {
  weft_tensor_release(s->values);
  weft_tensor_release(s->indices);
  weft_free(s->counts);
  *s = (sum_t){0};
}

static void cancel_waits(weft_object_t *o) { weft_wait_cancel_line(&((weft_accumulator_t *)o)->room, 0); }

const weft_resource_type_t weft_accumulator_type = {"N10tensorflow26ConditionalAccumulatorBaseE",
                                                    "Accumulator", cancel_waits};

static void destroy(weft_object_t *o) {
  weft_accumulator_t *a = (weft_accumulator_t *)o;
  sum_clear(&a->sum);
  weft_wait_room_deinit(&a->room);
  weft_free(a->name);
  weft_free(a);
}

weft_status_t *weft_accumulator_create(const char *name, const weft_accumulator_config_t *config,
                                       weft_object_t **out) {
  weft_accumulator_t *a = weft_calloc(1, sizeof *a);
  char *copy = weft_strdup(name);
  if (a == NULL || copy == NULL) {
    weft_free(a);
    weft_free(copy);
    return WEFT_NO_MEMORY("creating accumulator %s", name);
  }
  atomic_init(&a->object.refs, 1);
  a->object.destroy = destroy;
  a->name = copy;
  a->config = *config;
  weft_wait_room_init(&a->room);
  *out = &a->object;
  return NULL;
}

const weft_accumulator_config_t *weft_accumulator_config(const weft_accumulator_t *a) { return &a->config; }

int64_t weft_accumulator_count(weft_accumulator_t *a) {
  weft_mutex_lock(&a->room.mu);
  int64_t n = a->count;
  weft_mutex_unlock(&a->room.mu);
  return n;
}

void weft_accumulator_set_step(weft_accumulator_t *a, int64_t step) {
  weft_mutex_lock(&a->room.mu);
  a->step = step;
  weft_mutex_unlock(&a->room.mu);
}

/* ---- dense ---- */

static weft_status_t *mismatch(const weft_shape_t *want, const weft_shape_t *got) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Shape mismatch: expected %s, got %s", WEFT_SHAPE_TEXT(want),
                    WEFT_SHAPE_TEXT(got));
}

static weft_status_t *make_writable(weft_tensor_t **t) {
  if (weft_tensor_is_exclusive(*t)) return NULL;
  weft_tensor_t *copy = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_copy(*t, &copy));
  weft_tensor_release(*t);
  *t = copy;
  return NULL;
}

static weft_status_t *add_dense_locked(weft_accumulator_t *a, weft_tensor_t *gradient)
    WEFT_REQUIRES(a->room.mu) {
  if (a->count > 0 && !weft_shape_eq(&a->sum.values->shape, &gradient->shape)) {
    return mismatch(&a->sum.values->shape, &gradient->shape);
  }
  if (!weft_shape_compatible(&a->config.shape, &gradient->shape))
    return mismatch(&a->config.shape, &gradient->shape);
  if (a->count == 0) {
    a->sum.values = weft_tensor_retain(gradient);
  } else {
    WEFT_RETURN_IF_ERROR(make_writable(&a->sum.values));
    weft_update_find(WEFT_UPDATE_ADD, a->config.dtype)(a->sum.values->data, gradient->data, gradient->count,
                                                       false);
  }
  a->count++;
  return NULL;
}

weft_status_t *weft_accumulator_apply(weft_accumulator_t *a, int64_t local_step, weft_tensor_t *gradient) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&a->room.mu);
  if (local_step >= a->step) s = add_dense_locked(a, gradient);
  weft_mutex_unlock(&a->room.mu);
  if (s == NULL) weft_wait_flush(&a->room);
  return s;
}

/* ---- sparse ---- */

static const int64_t *index_of(const weft_tensor_t *t) { return t->data; }

static weft_status_t *check_rows(const weft_tensor_t *indices, const weft_tensor_t *values) {
  if (indices->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices should be vector but received shape: %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (values->shape.rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "Values cannot be 0-dimensional.");
  if (values->shape.dims[0] != indices->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected %" PRId64 " non-empty input values, got %" PRId64,
                      indices->count, values->shape.dims[0]);
  }
  return NULL;
}

static weft_status_t *check_given_shape(const weft_shape_t *want, const weft_tensor_t *shape) {
  if (want->rank > shape->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape mismatch: expected shape rank at least %d, got %" PRId64,
                      want->rank, shape->count);
  }
  for (int i = 0; i < want->rank; i++) {
    if (want->dims[i] != WEFT_UNKNOWN_DIM && want->dims[i] != index_of(shape)[i]) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Shape mismatch: expected shape dim %d to be %" PRId64 ", got %" PRId64, i,
                        want->dims[i], index_of(shape)[i]);
    }
  }
  return NULL;
}

static weft_status_t *check_row_shape(const weft_shape_t *want, const weft_shape_t *got, bool same_rank) {
  if (same_rank ? want->rank != got->rank : want->rank > got->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape mismatch: expected values rank %s%d, got %d",
                      same_rank ? "" : "at least ", want->rank, got->rank);
  }
  for (int i = 1; i < want->rank; i++) {
    if (want->dims[i] != WEFT_UNKNOWN_DIM && want->dims[i] != got->dims[i]) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Shape mismatch: expected values dim %d to be %" PRId64 ", got %" PRId64, i,
                        want->dims[i], got->dims[i]);
    }
  }
  return NULL;
}

static weft_status_t *check_limits(const weft_shape_t *want, const weft_tensor_t *indices) {
  int64_t limit = want->rank > 0 ? want->dims[0] : WEFT_UNKNOWN_DIM;
  for (int64_t i = 0; limit != WEFT_UNKNOWN_DIM && i < indices->count; i++) {
    if (index_of(indices)[i] < limit) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Shape mismatch: index of slice %" PRId64 " exceeded limits of shape; index is %" PRId64
                      " exceeded %" PRId64,
                      i, index_of(indices)[i], limit);
  }
  return NULL;
}

/* Walks both lists of indices at once; step(arg, row of a or -1, row of b or -1) for each row of the union.
 */
typedef void merge_fn(void *arg, int64_t out, int64_t a, int64_t b);
static int64_t merge(const weft_tensor_t *a, const weft_tensor_t *b, merge_fn *step, void *arg) {
  int64_t i = 0, j = 0, out = 0;
  for (; i < a->count || j < b->count; out++) {
    bool takes_a = i < a->count && (j == b->count || index_of(a)[i] <= index_of(b)[j]);
    bool takes_b = j < b->count && (i == a->count || index_of(b)[j] <= index_of(a)[i]);
    if (step != NULL) step(arg, out, takes_a ? i : -1, takes_b ? j : -1);
    i += takes_a;
    j += takes_b;
  }
  return out;
}

typedef struct merging {
  sum_t *into;
  const sum_t *a;
  const weft_tensor_t *indices, *values;
  int64_t row; /* elements of a row */
  size_t size; /* of an element */
  weft_update_fn *add;
} merging_t;

static void merge_row(void *arg, int64_t out, int64_t a, int64_t b) {
  const merging_t *m = arg;
  size_t bytes = (size_t)m->row * m->size;
  char *to = (char *)m->into->values->data + (size_t)out * bytes;
  const char *from_b = b < 0 ? NULL : (const char *)m->values->data + (size_t)b * bytes;
  const char *from_a = a < 0 ? NULL : (const char *)m->a->values->data + (size_t)a * bytes;
  if (bytes > 0) memcpy(to, a >= 0 ? from_a : from_b, bytes);
  if (a >= 0 && b >= 0) m->add(to, from_b, m->row, false);
  ((int64_t *)m->into->indices->data)[out] = a >= 0 ? index_of(m->a->indices)[a] : index_of(m->indices)[b];
  m->into->counts[out] = (a >= 0 ? m->a->counts[a] : 0) + (b >= 0);
}

static weft_status_t *first_rows(sum_t *sum, weft_tensor_t *indices, weft_tensor_t *values) {
  int64_t *counts = weft_calloc((size_t)indices->count + 1, sizeof counts[0]);
  if (counts == NULL) return WEFT_NO_MEMORY("accumulating %" PRId64 " rows", indices->count);
  for (int64_t i = 0; i < indices->count; i++) counts[i] = 1;
  *sum = (sum_t){weft_tensor_retain(values), weft_tensor_retain(indices), counts};
  return NULL;
}

static weft_status_t *more_rows(const sum_t *old, const weft_tensor_t *indices, const weft_tensor_t *values,
                                sum_t *out) {
  sum_t sum = {0};
  int64_t rows = merge(old->indices, indices, NULL, NULL);
  weft_shape_t shape = old->values->shape, vector = weft_shape_vector(rows);
  shape.dims[0] = rows;
  weft_status_t *s = weft_tensor_new(values->dtype, &shape, NULL, &sum.values);
  if (s == NULL) s = weft_tensor_new(WEFT_I64, &vector, NULL, &sum.indices);
  if (s == NULL) sum.counts = weft_calloc((size_t)rows + 1, sizeof sum.counts[0]);
  if (s == NULL && sum.counts == NULL) s = WEFT_NO_MEMORY("accumulating %" PRId64 " rows", rows);
  if (s != NULL) {
    sum_clear(&sum);
    return s;
  }
  merging_t m = {&sum,
                 old,
                 indices,
                 values,
                 rows == 0 ? 0 : sum.values->count / rows,
                 weft_dtype_size(values->dtype),
                 weft_update_find(WEFT_UPDATE_ADD, values->dtype)};
  merge(old->indices, indices, merge_row, &m);
  *out = sum;
  return NULL;
}

static weft_status_t *add_sparse_locked(weft_accumulator_t *a, weft_tensor_t *indices, weft_tensor_t *values,
                                        const weft_tensor_t *shape, bool has_known_shape)
    WEFT_REQUIRES(a->room.mu) {
  WEFT_RETURN_IF_ERROR(check_rows(indices, values));
  if (has_known_shape) WEFT_RETURN_IF_ERROR(check_given_shape(&a->config.shape, shape));
  WEFT_RETURN_IF_ERROR(check_limits(&a->config.shape, indices));
  if (a->count > 0) {
    sum_t sum;
    WEFT_RETURN_IF_ERROR(check_row_shape(&a->sum.values->shape, &values->shape, true));
    WEFT_RETURN_IF_ERROR(more_rows(&a->sum, indices, values, &sum));
    sum_clear(&a->sum);
    a->sum = sum;
  } else {
    WEFT_RETURN_IF_ERROR(check_row_shape(&a->config.shape, &values->shape, false));
    WEFT_RETURN_IF_ERROR(first_rows(&a->sum, indices, values));
  }
  a->count++;
  return NULL;
}

weft_status_t *weft_accumulator_apply_sparse(weft_accumulator_t *a, int64_t local_step,
                                             weft_tensor_t *indices, weft_tensor_t *values,
                                             const weft_tensor_t *shape, bool has_known_shape) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&a->room.mu);
  if (local_step >= a->step) s = add_sparse_locked(a, indices, values, shape, has_known_shape);
  weft_mutex_unlock(&a->room.mu);
  if (s == NULL) weft_wait_flush(&a->room);
  return s;
}

/* ---- take ---- */

typedef struct take {
  weft_room_waiter_t waiter; /* first; waiter.owner is the accumulator */
  int64_t required, count;
  sum_t sum;
} take_t;

#if defined(__clang__)
#define HOLDS_ROOM __attribute__((no_thread_safety_analysis)) /* attempts run under the room's lock */
#else
#define HOLDS_ROOM
#endif

HOLDS_ROOM static weft_wait_result_t try_take(weft_room_waiter_t *w) {
  take_t *t = (take_t *)w;
  weft_accumulator_t *a = (weft_accumulator_t *)w->owner;
  if (a->count < t->required) return WEFT_WAIT_STUCK;
  t->sum = a->sum;
  t->count = a->count;
  a->sum = (sum_t){0};
  a->count = 0;
  a->step++;
  return WEFT_WAIT_DONE;
}

/* Divides n elements by a number of the dtype. */
static void divide(weft_dtype_t dtype, void *to, int64_t n, int64_t by) {
  union {
    float f32;
    double f64;
    uint16_t u16;
  } number = {0};
  if (dtype == WEFT_F32) number.f32 = (float)by;
  if (dtype == WEFT_F64) number.f64 = (double)by;
  if (dtype == WEFT_F16) number.u16 = weft_f32_to_f16((float)by);
  if (dtype == WEFT_BF16) number.u16 = weft_f32_to_bf16((float)by);
  if (n > 0) weft_update_find(WEFT_UPDATE_DIV, dtype)(to, &number, n, true);
}

static weft_status_t *take_mean(take_t *t, const weft_accumulator_config_t *config) {
  if (config->is_sum || (!config->is_sparse && t->count == 1)) return NULL;
  WEFT_RETURN_IF_ERROR(make_writable(&t->sum.values));
  weft_tensor_t *v = t->sum.values;
  if (!config->is_sparse) {
    divide(v->dtype, v->data, v->count, t->count);
    return NULL;
  }
  int64_t rows = v->shape.dims[0], row = rows == 0 ? 0 : v->count / rows;
  for (int64_t i = 0; i < rows; i++) {
    if (t->sum.counts[i] == 1) continue;
    divide(v->dtype, (char *)v->data + (size_t)(i * row) * weft_dtype_size(v->dtype), row, t->sum.counts[i]);
  }
  return NULL;
}

/* The first dimension is the accumulator's own, as far as it is known; the others are the rows'. */
static weft_status_t *output_shape(const weft_resource_call_t *call, const weft_shape_t *declared,
                                   const weft_shape_t *values) {
  weft_tensor_t *t = NULL;
  weft_shape_t vector = weft_shape_vector(values->rank);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &vector, call->allocator, &t));
  int64_t *dims = t->data;
  for (int i = 0; i < values->rank; i++) dims[i] = values->dims[i];
  dims[0] = declared->rank > 0 ? declared->dims[0] : -1;
  call->outputs[2].tensor = t;
  return NULL;
}

static void finish_take(weft_room_waiter_t *w) {
  take_t *t = (take_t *)w;
  const weft_resource_call_t call = w->call;
  const weft_accumulator_config_t *config = &((weft_accumulator_t *)w->owner)->config;
  weft_status_t *s = weft_wait_failure(w);
  if (s == NULL) s = take_mean(t, config);
  if (s == NULL && config->is_sparse) s = output_shape(&call, &config->shape, &t->sum.values->shape);
  if (s == NULL) {
    call.outputs[config->is_sparse ? 1 : 0].tensor = t->sum.values;
    t->sum.values = NULL;
    if (config->is_sparse) {
      call.outputs[0].tensor = t->sum.indices;
      t->sum.indices = NULL;
    }
  }
  sum_clear(&t->sum);
  weft_free(t);
  weft_resource_call_end(&call, s);
}

void weft_accumulator_take(weft_accumulator_t *a, const weft_resource_call_t *call, int64_t num_required) {
  take_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) {
    weft_resource_call_end(call, WEFT_NO_MEMORY("waiting for accumulator %s", a->name));
    return;
  }
  t->required = num_required;
  t->waiter.call = *call;
  t->waiter.owner = weft_object_retain(&a->object);
  t->waiter.cancelled = "TakeGrad operation was cancelled";
  t->waiter.attempt = try_take;
  t->waiter.finish = finish_take;
  weft_wait(&a->room, &t->waiter);
}
