/* kernels/cpu/parsing/parse_example.c - ParseExample, ParseExampleV2 and ParseSingleExample: the features of
 * serialized Examples as dense, sparse and ragged tensors.
 *
 * Examples are read in pieces, on several threads. Dense features of a fixed shape go straight to their
 * place; all others are collected for each piece and joined when their sizes are known. As protobuf's maps
 * have it, the last entry of a key counts.
 */
#include <inttypes.h>

#include "base/hash_map.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/parsing/feature.h"

enum { PIECE_BYTES = 100000 }; /* of serialized examples */

/* The param of a row: where the inputs are, and of what kind. */
typedef struct example_form {
  bool is_single;  /* keys are attributes, the input is one example */
  bool has_ragged; /* keys are vectors; else each is an input */
} example_form_t;

typedef enum feature_kind { FEATURE_DENSE, FEATURE_SPARSE, FEATURE_RAGGED } feature_kind_t;

/* ---- attributes ---- */

/* What the attributes say of dense feature i. */
typedef struct dense_form {
  const weft_shape_t *shape;
  int64_t stride;   /* elements; of a row where the first dimension is not known */
  bool is_variable; /* the first dimension is not known */
} dense_form_t;

typedef struct example_plan {
  int num_dense, num_sparse, num_ragged;
  dense_form_t *dense;                        /* owned */
  const weft_str_t *dense_keys, *sparse_keys; /* of a single example; else NULL */
} example_plan_t;

static void example_plan_free(void *state) {
  example_plan_t *p = state;
  if (p == NULL) return;
  weft_free(p->dense);
  weft_free(p);
}

static weft_status_t *read_dense_form(const weft_shape_t *shape, int i, dense_form_t *out) {
  *out = (dense_form_t){.shape = shape, .stride = 1};
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

static int length_of(const weft_attr_t *list) { return list == NULL ? 0 : list->n; }

static weft_status_t *read_lengths(const weft_kernel_setup_t *setup, const example_form_t *form,
                                   example_plan_t *p) {
  const weft_attr_t *types = weft_knode_attr(setup, "Tdense"),
                    *sparse = weft_knode_attr(setup, "sparse_types"),
                    *ragged = weft_knode_attr(setup, "ragged_value_types"),
                    *splits = weft_knode_attr(setup, "ragged_split_types");
  int64_t num_sparse = weft_knode_int(setup, form->is_single || form->has_ragged ? "num_sparse" : "Nsparse");
  p->num_dense = length_of(types);
  p->num_sparse = length_of(sparse);
  p->num_ragged = length_of(ragged);
  if (p->num_sparse != num_sparse) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(sparse_keys) != len(sparse_types)");
  }
  if (!form->is_single && !form->has_ragged && weft_knode_int(setup, "Ndense") != p->num_dense) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(dense_keys) != len(dense_types)");
  }
  if (length_of(weft_knode_attr(setup, "dense_shapes")) != p->num_dense) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(dense_keys) != len(dense_shapes)");
  }
  if (length_of(splits) != p->num_ragged) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(ragged_keys) != len(ragged_split_types)");
  }
  if (!form->is_single) return NULL;
  const weft_attr_t *dense_keys = weft_knode_attr(setup, "dense_keys"),
                    *sparse_keys = weft_knode_attr(setup, "sparse_keys");
  if (length_of(sparse_keys) != p->num_sparse) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(sparse_keys) != len(sparse_types)");
  }
  if (length_of(dense_keys) != p->num_dense) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(dense_keys) != len(dense_types)");
  }
  if (p->num_dense > 0) p->dense_keys = dense_keys->list.strings;
  if (p->num_sparse > 0) p->sparse_keys = sparse_keys->list.strings;
  return NULL;
}

static weft_status_t *read_plan(const weft_kernel_setup_t *setup, example_plan_t *p) {
  WEFT_RETURN_IF_ERROR(read_lengths(setup, setup->node.param, p));
  const weft_attr_t *shapes = weft_knode_attr(setup, "dense_shapes");
  p->dense = weft_calloc((size_t)p->num_dense + 1, sizeof *p->dense);
  if (p->dense == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  for (int i = 0; i < p->num_dense; i++) {
    WEFT_RETURN_IF_ERROR(read_dense_form(&shapes->list.shapes[i], i, &p->dense[i]));
  }
  return NULL;
}

static weft_status_t *example_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  example_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_status_t *s = read_plan(setup, p);
  if (s != NULL) {
    example_plan_free(p);
    return s;
  }
  *out_state = p;
  return NULL;
}

/* ---- one run ---- */

/* A feature that is asked for. */
typedef struct wanted_feature {
  weft_str_t key;
  feature_kind_t kind;
  int i; /* among those of its kind */
  weft_dtype_t dtype;
  const dense_form_t *dense;     /* of a dense one */
  const weft_tensor_t *fallback; /* likewise */
  weft_tensor_t *out;            /* lent; of a dense one of fixed shape */
} wanted_feature_t;

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

typedef struct example_run {
  weft_kernel_ctx_t *ctx;
  const example_plan_t *plan;
  const example_form_t *form;
  const weft_tensor_t *serialized, *names; /* names: NULL without */
  bool is_scalar;
  wanted_feature_t *wanted; /* owned; dense, sparse, ragged */
  int num_wanted;
  weft_map_t by_key;
  example_piece_t *pieces; /* owned */
  int64_t num_pieces;
} example_run_t;

/* Where the inputs begin. */
static int first_default(const example_run_t *r) {
  if (r->form->is_single) return 1;
  return r->form->has_ragged ? 5 : 2 + r->plan->num_sparse + r->plan->num_dense;
}

static weft_status_t *check_keys(const weft_tensor_t *keys, int wanted, const char *what) {
  if (keys->count == wanted) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected len(%s) to match the attributes but got: %" PRId64 " vs. %d",
                    what, keys->count, wanted);
}

static weft_status_t *check_shapes(const example_run_t *r) {
  const weft_tensor_t *s = r->serialized;
  if (r->form->is_single    ? s->shape.rank != 0
      : r->form->has_ragged ? s->shape.rank > 1
                            : s->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected serialized to be a %s, got shape: %s",
                      r->form->is_single    ? "scalar"
                      : r->form->has_ragged ? "scalar or vector"
                                            : "vector",
                      WEFT_SHAPE_TEXT(&s->shape));
  }
  if (r->form->is_single) return NULL;
  if (r->names != NULL && !weft_shape_eq(&r->names->shape, &s->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected names have the same shape as serialized: name.shape=%s, serialized.shape=%s",
                      WEFT_SHAPE_TEXT(&r->names->shape), WEFT_SHAPE_TEXT(&s->shape));
  }
  if (!r->form->has_ragged) return NULL;
  WEFT_RETURN_IF_ERROR(check_keys(weft_in(r->ctx, 3), r->plan->num_dense, "dense_keys"));
  WEFT_RETURN_IF_ERROR(check_keys(weft_in(r->ctx, 2), r->plan->num_sparse, "sparse_keys"));
  return check_keys(weft_in(r->ctx, 4), r->plan->num_ragged, "ragged_keys");
}

static weft_status_t *check_default(const weft_tensor_t *t, const dense_form_t *form, int i) {
  if (form->is_variable && t->count != 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "dense_shape[%d] is a variable length shape: %s, therefore def_value[%d] must contain a "
        "single element (the padding element).  But its shape is: %s",
        i, WEFT_SHAPE_TEXT(form->shape), i, WEFT_SHAPE_TEXT(&t->shape));
  }
  if (!form->is_variable && t->count > 0 && !weft_shape_eq(&t->shape, form->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "def_value[%d].shape() == %s is not compatible with dense_shapes_[%d] == %s", i,
                      WEFT_SHAPE_TEXT(&t->shape), i, WEFT_SHAPE_TEXT(form->shape));
  }
  return NULL;
}

/* The key of feature i of a kind. */
static weft_status_t *key_of(const example_run_t *r, feature_kind_t kind, int i, weft_str_t *out) {
  if (r->form->is_single) {
    *out = kind == FEATURE_DENSE ? r->plan->dense_keys[i] : r->plan->sparse_keys[i];
    return NULL;
  }
  if (r->form->has_ragged) {
    *out = weft_tensor_str_at(weft_in(r->ctx, kind == FEATURE_DENSE ? 3 : kind == FEATURE_SPARSE ? 2 : 4), i);
    return NULL;
  }
  const weft_tensor_t *t = weft_in(r->ctx, 2 + (kind == FEATURE_DENSE ? r->plan->num_sparse : 0) + i);
  if (t->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected a key to be a scalar, got shape: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = weft_tensor_str_at(t, 0);
  return NULL;
}

/* The output of dense feature i, and the first of the values of sparse and ragged ones. */
static int dense_output(const example_run_t *r, int i) { return 3 * r->plan->num_sparse + i; }
static int values_output(const example_run_t *r, const wanted_feature_t *f) {
  if (f->kind == FEATURE_SPARSE) return r->plan->num_sparse + f->i;
  return dense_output(r, r->plan->num_dense) + f->i;
}

static weft_status_t *batch_shape(const example_run_t *r, const int64_t *dims, int rank, weft_shape_t *out) {
  int64_t all[WEFT_MAX_DIMS + 1] = {r->serialized->count};
  int extra = r->is_scalar ? 0 : 1;
  memcpy(all + extra, dims, (size_t)rank * sizeof *dims);
  return weft_shape_make(all, rank + extra, out);
}

static weft_status_t *want(example_run_t *r, feature_kind_t kind, int i) {
  wanted_feature_t *f = &r->wanted[r->num_wanted];
  *f = (wanted_feature_t){.kind = kind, .i = i};
  WEFT_RETURN_IF_ERROR(key_of(r, kind, i, &f->key));
  if (kind == FEATURE_DENSE) {
    f->dense = &r->plan->dense[i];
    f->fallback = weft_in(r->ctx, first_default(r) + i);
    WEFT_RETURN_IF_ERROR(check_default(f->fallback, f->dense, i));
  }
  int out = kind == FEATURE_DENSE ? dense_output(r, i) : values_output(r, f);
  f->dtype = (weft_dtype_t)r->ctx->node->output_types[out];
  WEFT_RETURN_IF_ERROR(weft_map_put(&r->by_key, f->key, f, NULL));
  r->num_wanted++;
  return NULL;
}

static weft_status_t *want_all(example_run_t *r) {
  const example_plan_t *p = r->plan;
  r->wanted = weft_calloc((size_t)(p->num_dense + p->num_sparse + p->num_ragged) + 1, sizeof *r->wanted);
  if (r->wanted == NULL) return WEFT_NO_MEMORY("the features of examples");
  for (int i = 0; i < p->num_dense; i++) WEFT_RETURN_IF_ERROR(want(r, FEATURE_DENSE, i));
  for (int i = 0; i < p->num_sparse; i++) WEFT_RETURN_IF_ERROR(want(r, FEATURE_SPARSE, i));
  for (int i = 0; i < p->num_ragged; i++) WEFT_RETURN_IF_ERROR(want(r, FEATURE_RAGGED, i));
  for (int i = 0; i < p->num_dense; i++) {
    weft_shape_t shape;
    if (r->wanted[i].dense->is_variable) continue;
    WEFT_RETURN_IF_ERROR(
        batch_shape(r, r->wanted[i].dense->shape->dims, r->wanted[i].dense->shape->rank, &shape));
    WEFT_RETURN_IF_ERROR(
        weft_out_new(r->ctx, dense_output(r, i), r->wanted[i].dtype, &shape, &r->wanted[i].out));
  }
  return NULL;
}

/* ---- reading ---- */

static weft_str_t name_of(const example_run_t *r, int64_t example) {
  return r->names == NULL ? WEFT_STR("<unknown>") : weft_tensor_str_at(r->names, example);
}

static weft_status_t *feature_error(const example_run_t *r, const wanted_feature_t *f, int64_t example,
                                    const char *what) {
  weft_str_t name = name_of(r, example);
  return WEFT_ERROR(INVALID_ARGUMENT, "Name: %.*s, Key: %.*s, Index: %" PRId64 ".  %s", WEFT_STR_ARGS(name),
                    WEFT_STR_ARGS(f->key), example, what);
}

static weft_status_t *size_error(const example_run_t *r, const wanted_feature_t *f, int64_t example,
                                 int64_t n) {
  weft_str_t name = name_of(r, example);
  const char *type = f->dtype == WEFT_STRING ? "bytes" : weft_dtype_name(f->dtype);
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Name: %.*s, Key: %.*s, Index: %" PRId64
                    ".  Number of %s values %s.  Values size: %" PRId64 " but output shape: %s",
                    WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key), example, type,
                    f->dense->is_variable ? "is not a multiple of stride length" : "!= expected", n,
                    WEFT_SHAPE_TEXT(f->dense->shape));
}

static bool is_fixed(const wanted_feature_t *f) { return f->kind == FEATURE_DENSE && !f->dense->is_variable; }

static weft_status_t *read_one(const example_run_t *r, const wanted_feature_t *f, collected_feature_t *c,
                               int64_t example, weft_str_t feature) {
  int dtype = 0;
  weft_str_t rest;
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(weft_feature_dtype(feature, &dtype, &rest));
  if (f->kind == FEATURE_DENSE && dtype == 0) return NULL;
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
  if (f->kind != FEATURE_DENSE) return NULL;
  if (f->dense->is_variable) {
    bool fits = f->dense->stride == 0 ? n == 0 : n % f->dense->stride == 0;
    return fits ? NULL : size_error(r, f, example, n);
  }
  if (n != f->dense->stride) return size_error(r, f, example, n);
  return weft_feature_copy(&c->values, 0, n, f->out, example * n);
}

static weft_status_t *put_default(const example_run_t *r, const wanted_feature_t *f, int64_t example) {
  weft_str_t name = name_of(r, example);
  if (f->fallback->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Name: %.*s, Feature: %.*s (data type: %s) is required but could not be found.",
                      WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key), weft_dtype_name(f->dtype));
  }
  return weft_cpu_copy(f->out, example * f->dense->stride, f->fallback, 0, f->dense->stride);
}

static weft_status_t *read_example(const example_run_t *r, const example_piece_t *p, int64_t example,
                                   weft_feature_entries_t *entries) {
  WEFT_RETURN_IF_ERROR(weft_example_read(weft_tensor_str_at(r->serialized, example), entries));
  for (int64_t i = entries->n - 1; i >= 0; i--) {
    const wanted_feature_t *f = weft_map_get(&r->by_key, entries->entries[i].key);
    if (f == NULL) continue;
    WEFT_RETURN_IF_ERROR(read_one(r, f, &p->collected[f - r->wanted], example, entries->entries[i].feature));
  }
  for (int k = 0; k < r->num_wanted; k++) {
    const wanted_feature_t *f = &r->wanted[k];
    collected_feature_t *c = &p->collected[k];
    if (!is_fixed(f)) {
      c->ends[example - p->begin] = c->values.n;
    } else if (c->last_seen != example) {
      WEFT_RETURN_IF_ERROR(put_default(r, f, example));
    }
  }
  return NULL;
}

static weft_status_t *begin_piece(const example_run_t *r, example_piece_t *p) {
  p->collected = weft_calloc((size_t)r->num_wanted + 1, sizeof *p->collected);
  for (int k = 0; p->collected != NULL && k < r->num_wanted; k++) {
    collected_feature_t *c = &p->collected[k];
    c->values.dtype = r->wanted[k].dtype;
    c->last_seen = -1;
    if (is_fixed(&r->wanted[k])) continue;
    c->ends = weft_calloc((size_t)(p->end - p->begin) + 1, sizeof *c->ends);
    if (c->ends == NULL) return WEFT_NO_MEMORY("the features of examples");
  }
  return p->collected == NULL ? WEFT_NO_MEMORY("the features of examples") : NULL;
}

static void read_pieces(void *arg, int64_t begin, int64_t end) {
  const example_run_t *r = arg;
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
static weft_status_t *divide(example_run_t *r) {
  int64_t n = r->serialized->count;
  for (int pass = 0; pass < 2; pass++) {
    size_t bytes = 0;
    int64_t begin = 0, pieces = 0;
    for (int64_t i = 0; i < n; i++) {
      bytes += weft_tensor_str_at(r->serialized, i).length + 1;
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
static weft_status_t *read_all(example_run_t *r) {
  weft_status_t *first = NULL;
  WEFT_RETURN_IF_ERROR(divide(r));
  weft_parallel_for(r->ctx->device->pool, r->num_pieces, 1, read_pieces, r);
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

static weft_status_t *for_each_example(const example_run_t *r, const wanted_feature_t *f, each_example_fn *fn,
                                       void *arg) {
  for (int64_t i = 0; i < r->num_pieces; i++) {
    const example_piece_t *p = &r->pieces[i];
    const collected_feature_t *c = &p->collected[f - r->wanted];
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

static weft_status_t *join_sparse(const example_run_t *r, const wanted_feature_t *f, joined_feature_t *j) {
  int num = r->plan->num_sparse;
  weft_shape_t indices = weft_shape_matrix(j->total, r->is_scalar ? 1 : 2),
               values = weft_shape_vector(j->total), shape = weft_shape_vector(r->is_scalar ? 1 : 2);
  weft_tensor_t *sizes = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, f->i, WEFT_I64, &indices, &j->indices));
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, num + f->i, f->dtype, &values, &j->values));
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, 2 * num + f->i, WEFT_I64, &shape, &sizes));
  int64_t *size = sizes->data;
  if (!r->is_scalar) size[0] = r->serialized->count;
  size[r->is_scalar ? 0 : 1] = j->longest;
  return for_each_example(r, f, put_values, j);
}

static weft_status_t *join_ragged(const example_run_t *r, const wanted_feature_t *f, joined_feature_t *j) {
  int out = values_output(r, f), splits_out = out + r->plan->num_ragged;
  weft_dtype_t dtype = (weft_dtype_t)r->ctx->node->output_types[splits_out];
  weft_shape_t values = weft_shape_vector(j->total),
               splits = weft_shape_vector(r->is_scalar ? 0 : r->serialized->count + 1);
  weft_tensor_t *ends = NULL;
  if (dtype == WEFT_I32 && j->total > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " values do not fit row splits of int32", j->total);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, out, f->dtype, &values, &j->values));
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, splits_out, dtype, &splits, &ends));
  weft_cpu_zero(ends);
  if (!r->is_scalar) j->splits = ends;
  return for_each_example(r, f, put_values, j);
}

static weft_status_t *join_variable(const example_run_t *r, const wanted_feature_t *f, joined_feature_t *j) {
  int64_t dims[WEFT_MAX_DIMS];
  weft_shape_t shape;
  memcpy(dims, f->dense->shape->dims, sizeof dims);
  dims[0] = f->dense->stride == 0 ? 0 : j->longest / f->dense->stride;
  WEFT_RETURN_IF_ERROR(batch_shape(r, dims, f->dense->shape->rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, dense_output(r, f->i), f->dtype, &shape, &j->values));
  j->row = j->longest;
  for (int64_t i = 0; j->total < j->values->count && i < j->values->count; i++) {
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(j->values, i, f->fallback, 0, 1));
  }
  return for_each_example(r, f, put_padded, j);
}

static weft_status_t *join_all(const example_run_t *r) {
  for (int k = 0; k < r->num_wanted; k++) {
    const wanted_feature_t *f = &r->wanted[k];
    joined_feature_t j = {.is_scalar = r->is_scalar};
    if (is_fixed(f)) continue;
    WEFT_RETURN_IF_ERROR(for_each_example(r, f, count_values, &j));
    switch (f->kind) {
      case FEATURE_DENSE: WEFT_RETURN_IF_ERROR(join_variable(r, f, &j)); break;
      case FEATURE_SPARSE: WEFT_RETURN_IF_ERROR(join_sparse(r, f, &j)); break;
      case FEATURE_RAGGED: WEFT_RETURN_IF_ERROR(join_ragged(r, f, &j)); break;
    }
  }
  return NULL;
}

/* ---- the kernel ---- */

static void example_run_deinit(example_run_t *r) {
  for (int64_t i = 0; i < r->num_pieces; i++) {
    collected_feature_t *c = r->pieces[i].collected;
    for (int k = 0; c != NULL && k < r->num_wanted; k++) {
      weft_feature_values_deinit(&c[k].values);
      weft_free(c[k].ends);
    }
    weft_free(c);
  }
  weft_free(r->pieces);
  weft_free(r->wanted);
  weft_map_deinit(&r->by_key);
}

static weft_status_t *parse_example(weft_kernel_ctx_t *ctx) {
  example_run_t r = {.ctx = ctx,
                     .plan = ctx->state,
                     .form = ctx->node->param,
                     .serialized = weft_in(ctx, 0),
                     .by_key = WEFT_MAP_INIT};
  r.is_scalar = r.serialized->shape.rank == 0;
  if (!r.form->is_single && weft_in(ctx, 1)->count > 0) r.names = weft_in(ctx, 1);
  weft_status_t *s = check_shapes(&r);
  if (s == NULL) s = want_all(&r);
  if (s == NULL) s = read_all(&r);
  if (s == NULL) s = join_all(&r);
  example_run_deinit(&r);
  return s;
}

#define PARSE_EXAMPLE(op_, ...)                                                                    \
  {                                                                                                \
    .op = op_, .prepare = example_prepare, .compute = parse_example, .destroy = example_plan_free, \
    .param = &(const example_form_t) {                                                             \
      .is_single = __VA_ARGS__                                                                     \
    }                                                                                              \
  }

const weft_kernel_t weft_cpu_parse_example_kernels[] = {
    PARSE_EXAMPLE("ParseExample", false),
    PARSE_EXAMPLE("ParseExampleV2", false, .has_ragged = true),
    PARSE_EXAMPLE("ParseSingleExample", true),
    {0},
};
