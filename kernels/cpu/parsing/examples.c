/* kernels/cpu/parsing/examples.c - Examples are read in pieces, on several threads. Dense features of a fixed
 * shape go straight to their place; all others are collected for each piece and joined when their sizes are
 * known. As protobuf's maps have it, the last entry of a key counts.
 */
#include "kernels/cpu/parsing/examples.h"

#include <inttypes.h>

#include "base/hash_map.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/parsing/feature.h"

enum { PIECE_BYTES = 100000 }; /* of serialized examples */

/* ---- features of a dense shape ---- */

weft_status_t *weft_example_dense(const weft_shape_t *shape, int i, weft_example_feature_t *out) {
  *out = (weft_example_feature_t){.kind = WEFT_EXAMPLE_DENSE, .shape = shape, .stride = 1};
  bool is_ok = shape->rank != WEFT_UNKNOWN_DIM;
  for (int d = 0; is_ok && d < shape->rank; d++) {
    if (shape->dims[d] != WEFT_UNKNOWN_DIM) {
      is_ok = weft_cpu_mul(out->stride, shape->dims[d], &out->stride);
    } else if (d == 0) {
      out->is_variable = true;
    } else {
      is_ok = false;
    }
  }
  if (is_ok) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "dense_shapes[%d] has unknown rank or unknown inner dimensions: %s", i,
                    WEFT_SHAPE_TEXT(shape));
}

weft_status_t *weft_example_check_default(const weft_example_feature_t *f, int i) {
  const weft_tensor_t *t = f->fallback;
  if (f->is_variable && t->count != 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "dense_shape[%d] is a variable length shape: %s, therefore def_value[%d] must contain a "
        "single element (the padding element).  But its shape is: %s",
        i, WEFT_SHAPE_TEXT(f->shape), i, WEFT_SHAPE_TEXT(&t->shape));
  }
  if (!f->is_variable && t->count > 0 && !weft_shape_eq(&t->shape, f->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "def_value[%d].shape() == %s is not compatible with dense_shapes_[%d] == %s", i,
                      WEFT_SHAPE_TEXT(&t->shape), i, WEFT_SHAPE_TEXT(f->shape));
  }
  return NULL;
}

/* ---- one run ---- */

/* What a piece has collected of one feature: the values of all its examples, and where each example's end. */
typedef struct collected_feature {
  weft_feature_values_t values;
  int64_t *ends;     /* owned; of the examples of the piece; NULL for dense ones of fixed shape */
  int64_t last_seen; /* the example that had it last */
} collected_feature_t;

typedef struct example_piece {
  int64_t begin, end;             /* examples */
  collected_feature_t *collected; /* owned; one for each wanted feature */
  weft_status_t *status;
} example_piece_t;

typedef struct examples_run {
  const weft_example_job_t *job;
  bool is_scalar;
  weft_tensor_t **outs;    /* owned, those in it lent; of the dense features of fixed shape */
  weft_map_t by_key;       /* the features */
  example_piece_t *pieces; /* owned */
  int64_t num_pieces;
} examples_run_t;

static weft_tensor_t *out_of(const examples_run_t *r, const weft_example_feature_t *f) {
  return r->outs[f - r->job->features];
}

static bool is_fixed(const weft_example_feature_t *f) {
  return f->kind == WEFT_EXAMPLE_DENSE && !f->is_variable;
}

static weft_status_t *new_part(const examples_run_t *r, const weft_example_feature_t *f, int part,
                               weft_dtype_t dtype, const weft_shape_t *shape, weft_tensor_t **out) {
  return r->job->new_part(r->job->arg, (int)(f - r->job->features), part, dtype, shape, out);
}

static weft_status_t *batch_shape(const examples_run_t *r, const int64_t *dims, int rank, weft_shape_t *out) {
  int64_t all[WEFT_MAX_DIMS + 1] = {r->job->serialized->count};
  int extra = r->is_scalar ? 0 : 1;
  memcpy(all + extra, dims, (size_t)rank * sizeof *dims);
  return weft_shape_make(all, rank + extra, out);
}

static weft_status_t *begin_run(examples_run_t *r) {
  const int n = r->job->num_features;
  weft_shape_t shape;
  r->outs = weft_calloc((size_t)n + 1, sizeof(weft_tensor_t *));
  if (r->outs == NULL) return WEFT_NO_MEMORY("the features of examples");
  for (int k = 0; k < n; k++) {
    const weft_example_feature_t *f = &r->job->features[k];
    WEFT_RETURN_IF_ERROR(weft_map_put(&r->by_key, f->key, (void *)(uintptr_t)f, NULL));
    if (!is_fixed(f)) continue;
    WEFT_RETURN_IF_ERROR(batch_shape(r, f->shape->dims, f->shape->rank, &shape));
    WEFT_RETURN_IF_ERROR(new_part(r, f, 0, f->dtype, &shape, &r->outs[k]));
  }
  return NULL;
}

/* ---- reading ---- */

static weft_str_t name_of(const examples_run_t *r, int64_t example) {
  return r->job->names == NULL ? WEFT_STR("<unknown>") : weft_tensor_str_at(r->job->names, example);
}

static weft_status_t *feature_error(const examples_run_t *r, const weft_example_feature_t *f, int64_t example,
                                    const char *what) {
  weft_str_t name = name_of(r, example);
  return WEFT_ERROR(INVALID_ARGUMENT, "Name: %.*s, Key: %.*s, Index: %" PRId64 ".  %s", WEFT_STR_ARGS(name),
                    WEFT_STR_ARGS(f->key), example, what);
}

static weft_status_t *size_error(const examples_run_t *r, const weft_example_feature_t *f, int64_t example,
                                 int64_t n) {
  weft_str_t name = name_of(r, example);
  const char *type = f->dtype == WEFT_STRING ? "bytes" : weft_dtype_name(f->dtype);
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Name: %.*s, Key: %.*s, Index: %" PRId64
                    ".  Number of %s values %s.  Values size: %" PRId64 " but output shape: %s",
                    WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key), example, type,
                    f->is_variable ? "is not a multiple of stride length" : "!= expected", n,
                    WEFT_SHAPE_TEXT(f->shape));
}

static weft_status_t *read_one(const examples_run_t *r, const weft_example_feature_t *f,
                               collected_feature_t *c, int64_t example, weft_str_t feature) {
  int dtype = 0;
  weft_str_t rest;
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(weft_feature_dtype(feature, &dtype, &rest));
  if (f->kind == WEFT_EXAMPLE_DENSE && dtype == 0) return NULL;
  if (c->last_seen == example) return NULL;
  c->last_seen = example;
  if (dtype == 0) return NULL;
  if (dtype != (int)f->dtype) {
    weft_str_t name = name_of(r, example);
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Name: %.*s, Feature: %.*s (data type: %s).  Data types don't match. Data type: %s but "
                      "expected type: %s",
                      WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key), weft_dtype_name(f->dtype),
                      weft_dtype_name((weft_dtype_t)dtype), weft_dtype_name(f->dtype));
  }
  if (is_fixed(f)) c->values.n = 0;
  int64_t before = c->values.n;
  if (!weft_feature_read(rest, &c->values, &s)) {
    return s != NULL ? s : feature_error(r, f, example, "Can't parse serialized Example.");
  }
  int64_t n = c->values.n - before;
  if (f->kind != WEFT_EXAMPLE_DENSE) return NULL;
  if (f->is_variable) {
    bool fits = f->stride == 0 ? n == 0 : n % f->stride == 0;
    return fits ? NULL : size_error(r, f, example, n);
  }
  if (n != f->stride) return size_error(r, f, example, n);
  return weft_feature_copy(&c->values, 0, n, out_of(r, f), example * n);
}

static weft_status_t *put_default(const examples_run_t *r, const weft_example_feature_t *f, int64_t example) {
  weft_str_t name = name_of(r, example);
  if (f->fallback->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Name: %.*s, Feature: %.*s (data type: %s) is required but could not be found.",
                      WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key), weft_dtype_name(f->dtype));
  }
  return weft_cpu_copy(out_of(r, f), example * f->stride, f->fallback, 0, f->stride);
}

static weft_status_t *read_example(const examples_run_t *r, const example_piece_t *p, int64_t example,
                                   weft_feature_entries_t *entries) {
  WEFT_RETURN_IF_ERROR(weft_example_read(weft_tensor_str_at(r->job->serialized, example), entries));
  for (int64_t i = entries->n - 1; i >= 0; i--) {
    const weft_example_feature_t *f = weft_map_get(&r->by_key, entries->entries[i].key);
    if (f == NULL) continue;
    WEFT_RETURN_IF_ERROR(
        read_one(r, f, &p->collected[f - r->job->features], example, entries->entries[i].feature));
  }
  for (int k = 0; k < r->job->num_features; k++) {
    const weft_example_feature_t *f = &r->job->features[k];
    collected_feature_t *c = &p->collected[k];
    if (!is_fixed(f)) {
      c->ends[example - p->begin] = c->values.n;
    } else if (c->last_seen != example) {
      WEFT_RETURN_IF_ERROR(put_default(r, f, example));
    }
  }
  return NULL;
}

static weft_status_t *begin_piece(const examples_run_t *r, example_piece_t *p) {
  p->collected = weft_calloc((size_t)r->job->num_features + 1, sizeof *p->collected);
  for (int k = 0; p->collected != NULL && k < r->job->num_features; k++) {
    collected_feature_t *c = &p->collected[k];
    c->values.dtype = r->job->features[k].dtype;
    c->last_seen = -1;
    if (is_fixed(&r->job->features[k])) continue;
    c->ends = weft_calloc((size_t)(p->end - p->begin) + 1, sizeof *c->ends);
    if (c->ends == NULL) return WEFT_NO_MEMORY("the features of examples");
  }
  return p->collected == NULL ? WEFT_NO_MEMORY("the features of examples") : NULL;
}

static void read_pieces(void *arg, int64_t begin, int64_t end) {
  const examples_run_t *r = arg;
  weft_feature_entries_t entries = {0};
  for (int64_t i = begin; i < end; i++) {
    example_piece_t *p = &r->pieces[i];
    p->status = begin_piece(r, p);
    for (int64_t e = p->begin; p->status == NULL && e < p->end; e++) {
      p->status = read_example(r, p, e, &entries);
    }
  }
  weft_feature_entries_deinit(&entries);
}

/* Divides the examples into pieces of about PIECE_BYTES. */
static weft_status_t *divide(examples_run_t *r) {
  int64_t n = r->job->serialized->count;
  for (int pass = 0; pass < 2; pass++) {
    size_t bytes = 0;
    int64_t begin = 0, pieces = 0;
    for (int64_t i = 0; i < n; i++) {
      bytes += weft_tensor_str_at(r->job->serialized, i).length + 1;
      if (bytes <= PIECE_BYTES && i < n - 1) continue;
      if (pass == 1) r->pieces[pieces] = (example_piece_t){.begin = begin, .end = i + 1};
      begin = i + 1;
      bytes = 0;
      pieces++;
    }
    if (pass == 1) break;
    r->num_pieces = pieces;
    r->pieces = weft_calloc((size_t)pieces + 1, sizeof *r->pieces);
    if (r->pieces == NULL) return WEFT_NO_MEMORY("the features of examples");
  }
  return NULL;
}

/* The first failure, in the order of the examples. */
static weft_status_t *read_all(examples_run_t *r) {
  weft_status_t *first = NULL;
  WEFT_RETURN_IF_ERROR(divide(r));
  weft_parallel_for(r->job->pool, r->num_pieces, 1, read_pieces, r);
  for (int64_t i = 0; i < r->num_pieces; i++) {
    if (first == NULL) {
      first = r->pieces[i].status;
    } else {
      weft_status_free(r->pieces[i].status);
    }
    r->pieces[i].status = NULL;
  }
  return first;
}

/* ---- joining ---- */

/* Calls for each example in order. */
typedef weft_status_t *each_example_fn(void *arg, int64_t example, const weft_feature_values_t *values,
                                       int64_t from, int64_t n);

static weft_status_t *for_each_example(const examples_run_t *r, const weft_example_feature_t *f,
                                       each_example_fn *fn, void *arg) {
  for (int64_t i = 0; i < r->num_pieces; i++) {
    const example_piece_t *p = &r->pieces[i];
    const collected_feature_t *c = &p->collected[f - r->job->features];
    for (int64_t e = p->begin; e < p->end; e++) {
      int64_t from = e == p->begin ? 0 : c->ends[e - p->begin - 1];
      WEFT_RETURN_IF_ERROR(fn(arg, e, &c->values, from, c->ends[e - p->begin] - from));
    }
  }
  return NULL;
}

/* What is written of a feature. */
typedef struct joined_feature {
  int64_t total, longest; /* first pass */
  int64_t at;             /* second pass: elements so far */
  weft_tensor_t *values, *indices, *splits;
  int64_t row; /* elements of an example in a padded tensor */
  bool is_scalar;
} joined_feature_t;

static weft_status_t *count_values(void *arg, int64_t example, const weft_feature_values_t *values,
                                   int64_t from, int64_t n) {
  joined_feature_t *j = arg;
  (void)example, (void)values, (void)from;
  j->total += n;
  if (n > j->longest) j->longest = n;
  return NULL;
}

static weft_status_t *put_values(void *arg, int64_t example, const weft_feature_values_t *values,
                                 int64_t from, int64_t n) {
  joined_feature_t *j = arg;
  WEFT_RETURN_IF_ERROR(weft_feature_copy(values, from, n, j->values, j->at));
  int64_t *at = j->indices == NULL ? NULL : (int64_t *)j->indices->data;
  for (int64_t i = 0; at != NULL && i < n; i++) {
    if (!j->is_scalar) at[2 * (j->at + i)] = example;
    at[j->is_scalar ? j->at + i : 2 * (j->at + i) + 1] = i;
  }
  j->at += n;
  if (j->splits == NULL) return NULL;
  if (j->splits->dtype == WEFT_I32) ((int32_t *)j->splits->data)[example + 1] = (int32_t)j->at;
  if (j->splits->dtype == WEFT_I64) ((int64_t *)j->splits->data)[example + 1] = j->at;
  return NULL;
}

static weft_status_t *put_padded(void *arg, int64_t example, const weft_feature_values_t *values,
                                 int64_t from, int64_t n) {
  joined_feature_t *j = arg;
  return weft_feature_copy(values, from, n, j->values, example * j->row);
}

static weft_status_t *join_sparse(const examples_run_t *r, const weft_example_feature_t *f,
                                  joined_feature_t *j) {
  weft_shape_t indices = weft_shape_matrix(j->total, r->is_scalar ? 1 : 2),
               values = weft_shape_vector(j->total), shape = weft_shape_vector(r->is_scalar ? 1 : 2);
  weft_tensor_t *sizes = NULL;
  WEFT_RETURN_IF_ERROR(new_part(r, f, 0, WEFT_I64, &indices, &j->indices));
  WEFT_RETURN_IF_ERROR(new_part(r, f, 1, f->dtype, &values, &j->values));
  WEFT_RETURN_IF_ERROR(new_part(r, f, 2, WEFT_I64, &shape, &sizes));
  int64_t *size = sizes->data;
  if (!r->is_scalar) size[0] = r->job->serialized->count;
  size[r->is_scalar ? 0 : 1] = j->longest;
  return for_each_example(r, f, put_values, j);
}

static weft_status_t *join_ragged(const examples_run_t *r, const weft_example_feature_t *f,
                                  joined_feature_t *j) {
  weft_shape_t values = weft_shape_vector(j->total),
               splits = weft_shape_vector(r->is_scalar ? 0 : r->job->serialized->count + 1);
  weft_tensor_t *ends = NULL;
  if (f->split_dtype == WEFT_I32 && j->total > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " values do not fit row splits of int32", j->total);
  }
  WEFT_RETURN_IF_ERROR(new_part(r, f, 0, f->dtype, &values, &j->values));
  WEFT_RETURN_IF_ERROR(new_part(r, f, 1, f->split_dtype, &splits, &ends));
  weft_cpu_zero(ends);
  if (!r->is_scalar) j->splits = ends;
  return for_each_example(r, f, put_values, j);
}

static weft_status_t *join_variable(const examples_run_t *r, const weft_example_feature_t *f,
                                    joined_feature_t *j) {
  int64_t dims[WEFT_MAX_DIMS];
  weft_shape_t shape;
  memcpy(dims, f->shape->dims, sizeof dims);
  dims[0] = f->stride == 0 ? 0 : j->longest / f->stride;
  WEFT_RETURN_IF_ERROR(batch_shape(r, dims, f->shape->rank, &shape));
  WEFT_RETURN_IF_ERROR(new_part(r, f, 0, f->dtype, &shape, &j->values));
  j->row = j->longest;
  for (int64_t i = 0; j->total < j->values->count && i < j->values->count; i++) {
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(j->values, i, f->fallback, 0, 1));
  }
  return for_each_example(r, f, put_padded, j);
}

static weft_status_t *join_all(const examples_run_t *r) {
  for (int k = 0; k < r->job->num_features; k++) {
    const weft_example_feature_t *f = &r->job->features[k];
    joined_feature_t j = {.is_scalar = r->is_scalar};
    if (is_fixed(f)) continue;
    WEFT_RETURN_IF_ERROR(for_each_example(r, f, count_values, &j));
    switch (f->kind) {
      case WEFT_EXAMPLE_DENSE: WEFT_RETURN_IF_ERROR(join_variable(r, f, &j)); break;
      case WEFT_EXAMPLE_SPARSE: WEFT_RETURN_IF_ERROR(join_sparse(r, f, &j)); break;
      case WEFT_EXAMPLE_RAGGED: WEFT_RETURN_IF_ERROR(join_ragged(r, f, &j)); break;
    }
  }
  return NULL;
}

/* ---- all of it ---- */

static void examples_run_deinit(examples_run_t *r) {
  for (int64_t i = 0; i < r->num_pieces; i++) {
    collected_feature_t *c = r->pieces[i].collected;
    for (int k = 0; c != NULL && k < r->job->num_features; k++) {
      weft_feature_values_deinit(&c[k].values);
      weft_free(c[k].ends);
    }
    weft_free(c);
  }
  weft_free(r->pieces);
  weft_free(r->outs);
  weft_map_deinit(&r->by_key);
}

weft_status_t *weft_examples_parse(const weft_example_job_t *job) {
  examples_run_t r = {.job = job, .is_scalar = job->serialized->shape.rank == 0, .by_key = WEFT_MAP_INIT};
  weft_status_t *s = begin_run(&r);
  if (s == NULL) s = read_all(&r);
  if (s == NULL) s = join_all(&r);
  examples_run_deinit(&r);
  return s;
}
