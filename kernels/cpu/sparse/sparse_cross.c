/* kernels/cpu/sparse/sparse_cross.c - SparseCross, SparseCrossV2, SparseCrossHashed. */
#include <inttypes.h>

#include "kernels/cpu/sparse/cross.h"
#include "kernels/cpu/sparse/sparse.h"

/* Inputs: N indices, N values, N shapes, dense columns, and what the op has behind them. */
typedef struct cross_inputs {
  int sparse, dense;
  int64_t rows;
} cross_inputs_t;

static weft_status_t *check_sparse(const weft_kernel_ctx_t *ctx, int n, int i) {
  const weft_tensor_t *indices = weft_in(ctx, i), *values = weft_in(ctx, n + i),
                      *shape = weft_in(ctx, 2 * n + i);
  if (!weft_is_matrix(indices) || indices->shape.dims[1] != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input indices should be a matrix of two columns, but are %s at position %d",
                      WEFT_SHAPE_TEXT(&indices->shape), i);
  }
  if (!weft_is_vector(values)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input values should be a vector but received shape %s at position %d",
                      WEFT_SHAPE_TEXT(&values->shape), i);
  }
  if (values->count != indices->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected size of values to be %" PRId64 " got %" PRId64 " at position %d",
                      indices->shape.dims[0], values->count, i);
  }
  if (!weft_is_vector(shape) || shape->count != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input shapes should be a vector of two sizes, but are %s at position %d",
                      WEFT_SHAPE_TEXT(&shape->shape), i);
  }
  return NULL;
}

static weft_status_t *check_rows(int64_t rows, int64_t wanted, const char *what, int i) {
  if (rows == wanted) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected batch size %" PRId64 " got %" PRId64 " at %s %d", wanted,
                    rows, what, i);
}

static weft_status_t *check(const weft_kernel_ctx_t *ctx, cross_inputs_t *in) {
  int n = in->sparse;
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(check_sparse(ctx, n, i));
  for (int i = 0; i < in->dense; i++) {
    const weft_tensor_t *t = weft_in(ctx, 3 * n + i);
    if (!weft_is_matrix(t)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Dense inputs should be a matrix but received shape %s at position %d",
                        WEFT_SHAPE_TEXT(&t->shape), i);
    }
  }
  if (n > 0) {
    in->rows = weft_cpu_int_at(weft_in(ctx, 2 * n), 0);
  } else if (in->dense > 0) {
    in->rows = weft_in(ctx, 0)->shape.dims[0];
  }
  if (in->rows < 0) return WEFT_ERROR(INVALID_ARGUMENT, "the batch size is %" PRId64, in->rows);
  for (int i = 0; i < n; i++)
    WEFT_RETURN_IF_ERROR(check_rows(weft_cpu_int_at(weft_in(ctx, 2 * n + i), 0), in->rows, "position", i));
  for (int i = 0; i < in->dense; i++)
    WEFT_RETURN_IF_ERROR(check_rows(weft_in(ctx, 3 * n + i)->shape.dims[0], in->rows, "dense tensor", i));
  return NULL;
}

/* Outputs 0 to 2. */
static weft_status_t *put(weft_kernel_ctx_t *ctx, weft_cross_t *c, int64_t rows) {
  int64_t total = 0, most = 0, n = 0, *indices = NULL;
  weft_tensor_t *values = NULL;
  for (int64_t b = 0; b < rows; b++) {
    WEFT_RETURN_IF_ERROR(weft_cross_next_row(c, b, &n));
    if (n > most) most = n;
    if (__builtin_add_overflow(total, n, &total)) return WEFT_ERROR(INVALID_ARGUMENT, "too many crosses");
  }
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, 0, total, 2, &indices));
  WEFT_RETURN_IF_ERROR(
      weft_sparse_new_values(ctx, 1, weft_dtype_base(ctx->node->output_types[1]), total, &values));
  weft_cross_rewind(c);
  for (int64_t b = 0, at = 0; b < rows; b++, at += n) {
    WEFT_RETURN_IF_ERROR(weft_cross_next_row(c, b, &n));
    for (int64_t k = 0; k < n; k++) {
      indices[2 * (at + k)] = b;
      indices[2 * (at + k) + 1] = k;
    }
    WEFT_RETURN_IF_ERROR(weft_cross_put(c, n, values, at));
  }
  return weft_sparse_put_shape(ctx, 2, (int64_t[]){rows, most}, 2);
}

/* The columns of `c`, which has as many as there are inputs. */
static weft_status_t *cross(weft_kernel_ctx_t *ctx, const cross_inputs_t *in, weft_cross_t *c) {
  int n = in->sparse;
  for (int i = 0; i < n; i++) {
    c->columns[i] = (weft_cross_column_t){
        .by = WEFT_CROSS_SPARSE, .values = weft_in(ctx, n + i), .places = weft_in(ctx, i)};
  }
  for (int i = 0; i < in->dense; i++)
    c->columns[n + i] = (weft_cross_column_t){.by = WEFT_CROSS_DENSE, .values = weft_in(ctx, 3 * n + i)};
  return put(ctx, c, in->rows);
}

/* ---- SparseCross ---- */

WEFT_ATTRS(cross_compute, (INT, N), (INT, num_buckets), (INT, hash_key), (TYPE, internal_type))
static weft_status_t *cross_compute(weft_kernel_ctx_t *ctx, const cross_compute_attrs_t *attrs) {
  cross_inputs_t in = {.sparse = (int)attrs->N, .dense = ctx->node->num_inputs - 3 * (int)attrs->N};
  weft_cross_t c;
  WEFT_RETURN_IF_ERROR(check(ctx, &in));
  for (int i = in.sparse; i < ctx->node->num_inputs && attrs->internal_type == WEFT_STRING; i++) {
    bool is_value = i < 2 * in.sparse || i >= 3 * in.sparse;
    if (!is_value || weft_in(ctx, i)->dtype == WEFT_STRING) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Input values should be of internal type string but received int64");
  }
  weft_status_t *s = weft_cross_init(&c, in.sparse + in.dense);
  c.separator = WEFT_STR("_X_");
  c.has_seed = true;
  c.seed = (uint64_t)attrs->hash_key;
  c.buckets = attrs->num_buckets;
  if (s == NULL) s = cross(ctx, &in, &c);
  weft_cross_deinit(&c);
  return s;
}

/* ---- SparseCrossV2: texts ---- */

WEFT_ATTRS_STRUCT(crosses, (INT, N))
WEFT_ATTRS_OF(texts_compute, crosses)
static weft_status_t *texts_compute(weft_kernel_ctx_t *ctx, const crosses_attrs_t *attrs) {
  int last = ctx->node->num_inputs - 1;
  cross_inputs_t in = {.sparse = (int)attrs->N, .dense = last - 3 * (int)attrs->N};
  weft_cross_t c;
  WEFT_RETURN_IF_ERROR(check(ctx, &in));
  if (!weft_is_scalar(weft_in(ctx, last))) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input separator should be a scalar. Received: %s",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, last)->shape));
  }
  weft_status_t *s = weft_cross_init(&c, in.sparse + in.dense);
  c.separator = weft_tensor_str_at(weft_in(ctx, last), 0);
  if (s == NULL) s = cross(ctx, &in, &c);
  weft_cross_deinit(&c);
  return s;
}

/* ---- SparseCrossHashed: numbers ---- */

enum { BEHIND = 3 }; /* num_buckets, strong_hash, salt */

WEFT_ATTRS_OF(hashes_compute, crosses)
static weft_status_t *hashes_compute(weft_kernel_ctx_t *ctx, const crosses_attrs_t *attrs) {
  int first = ctx->node->num_inputs - BEHIND;
  cross_inputs_t in = {.sparse = (int)attrs->N, .dense = first - 3 * (int)attrs->N};
  const weft_tensor_t *buckets = weft_in(ctx, first), *strong = weft_in(ctx, first + 1),
                      *salt = weft_in(ctx, first + 2);
  weft_cross_t c;
  WEFT_RETURN_IF_ERROR(check(ctx, &in));
  if (buckets->count != 1 || strong->count != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "num_buckets and strong_hash must be scalars");
  if (salt->count != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input \"salt\" must have length 2 but has length %" PRId64,
                      salt->count);
  }
  weft_status_t *s = weft_cross_init(&c, in.sparse + in.dense);
  c.hash = *(const bool *)strong->data ? WEFT_CROSS_STRONG : WEFT_CROSS_WEAK;
  memcpy(c.key, salt->data, sizeof c.key);
  c.buckets = weft_cpu_int_at(buckets, 0);
  if (s == NULL) s = cross(ctx, &in, &c);
  weft_cross_deinit(&c);
  return s;
}

const weft_kernel_t weft_cpu_sparse_cross_kernels[] = {
    {.op = "SparseCross", WEFT_COMPUTE(cross_compute)},
    {.op = "SparseCrossHashed", WEFT_COMPUTE(hashes_compute)},
    {.op = "SparseCrossV2", WEFT_COMPUTE(texts_compute)},
    {0},
};
