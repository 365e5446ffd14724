/* kernels/cpu/sparse/sparse_count.c - DenseCountSparseOutput, SparseCountSparseOutput,
 * RaggedCountSparseOutput: how often, or with what weight, each number occurs in each row.
 *
 * The pairs of row and number are sorted; equal ones follow each other then, in the order in which they came,
 * so that weights are added up as upstream adds them.
 */
#include <inttypes.h>

#include "kernels/cpu/sparse/sparse.h"
#include "tensor/update.h"

WEFT_ATTRS_STRUCT(count, (INT, minlength), (INT, maxlength), (BOOL, binary_output))

typedef struct counter {
  const weft_tensor_t *values, *weights;
  int64_t num_rows;
  bool is_flat;   /* one row, which the result's coordinates do not mention */
  int64_t *pairs; /* owned; row and number of each value that counts */
  int64_t *from;  /* owned; which value that is */
  int64_t n, highest;
} counter_t;

static weft_status_t *check_weights(const counter_t *c) {
  if (c->weights->count == 0 || weft_shape_eq(&c->weights->shape, &c->values->shape)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Weights and values must have the same shape. Weight shape: %s; values shape: %s",
                    WEFT_SHAPE_TEXT(&c->weights->shape), WEFT_SHAPE_TEXT(&c->values->shape));
}

static weft_status_t *start(counter_t *c) {
  for (int64_t i = 0; i < c->values->count; i++) {
    if (weft_cpu_int_at(c->values, i) < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "Input values must all be non-negative");
  }
  size_t n = (size_t)c->values->count + 1;
  c->pairs = weft_malloc(n * 2 * sizeof *c->pairs);
  c->from = weft_malloc(n * sizeof *c->from);
  return c->pairs == NULL || c->from == NULL ? WEFT_NO_MEMORY("%" PRId64 " values", c->values->count) : NULL;
}

/* Value i is in that row. */
static void note(counter_t *c, const count_attrs_t *attrs, int64_t row, int64_t i) {
  int64_t number = weft_cpu_int_at(c->values, i);
  if (attrs->maxlength >= 0 && number >= attrs->maxlength) return;
  c->pairs[2 * c->n] = row;
  c->pairs[2 * c->n + 1] = number;
  c->from[c->n++] = i;
  if (number > c->highest) c->highest = number;
}

static bool is_same(const counter_t *c, int64_t a, int64_t b) {
  return weft_coordinates_compare(c->pairs + 2 * a, c->pairs + 2 * b, 2) == 0;
}

static weft_status_t *put_shape(weft_kernel_ctx_t *ctx, const counter_t *c, const count_attrs_t *attrs) {
  int64_t size = attrs->maxlength;
  if (size < 0) {
    if (c->highest == INT64_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "the value %" PRId64, c->highest);
    size = c->highest + 1 > attrs->minlength ? c->highest + 1 : attrs->minlength;
  }
  return weft_sparse_put_shape(ctx, 2, (int64_t[]){c->num_rows, size} + c->is_flat, c->is_flat ? 1 : 2);
}

static weft_status_t *put_counts(weft_kernel_ctx_t *ctx, const counter_t *c, const count_attrs_t *attrs,
                                 const int64_t *order) {
  int64_t groups = 0, *at = NULL;
  for (int64_t i = 0; i < c->n; i++) groups += i == 0 || !is_same(c, order[i - 1], order[i]);
  weft_tensor_t *sums = NULL;
  weft_dtype_t dtype = c->weights->dtype;
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, 0, groups, c->is_flat ? 1 : 2, &at));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_values(ctx, 1, dtype, groups, &sums));
  weft_cpu_zero(sums);
  uint64_t one[2] = {0};
  weft_update_identity(WEFT_UPDATE_MUL, dtype, 1, one);
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, dtype);
  size_t size = weft_dtype_size(dtype);
  char *sum = sums->data;
  for (int64_t i = 0; i < c->n; i++) {
    const int64_t *pair = c->pairs + 2 * order[i];
    bool is_new = i == 0 || !is_same(c, order[i - 1], order[i]);
    if (is_new) {
      if (i > 0) sum += size;
      if (!c->is_flat) *at++ = pair[0];
      *at++ = pair[1];
    }
    if (attrs->binary_output && !is_new) continue;
    bool is_weighted = c->weights->count > 0 && !attrs->binary_output;
    add(sum,
        is_weighted ? (const char *)c->weights->data + (size_t)c->from[order[i]] * size : (const char *)one,
        1, false);
  }
  return put_shape(ctx, c, attrs);
}

/* Ends the count, whose rows are noted if `s` is NULL. */
static weft_status_t *finish(weft_kernel_ctx_t *ctx, counter_t *c, const count_attrs_t *attrs,
                             weft_status_t *s) {
  int64_t *order = NULL;
  if (s == NULL) s = weft_sparse_sort(c->pairs, c->n, 2, &order);
  if (s == NULL) s = put_counts(ctx, c, attrs, order);
  weft_free(order);
  weft_free(c->pairs);
  weft_free(c->from);
  return s;
}

WEFT_ATTRS_OF(dense_compute, count)
static weft_status_t *dense_compute(weft_kernel_ctx_t *ctx, const count_attrs_t *attrs) {
  counter_t c = {.values = weft_in(ctx, 0), .weights = weft_in(ctx, 1)};
  const weft_shape_t *shape = &c.values->shape;
  if (shape->rank != 1 && shape->rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must be a 1 or 2-dimensional tensor. Got: %s",
                      WEFT_SHAPE_TEXT(shape));
  }
  WEFT_RETURN_IF_ERROR(check_weights(&c));
  c.is_flat = shape->rank == 1;
  c.num_rows = c.is_flat ? 1 : shape->dims[0];
  if (c.num_rows == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Invalid input: Shapes dimension cannot be 0.");
  int64_t width = shape->dims[shape->rank - 1];
  weft_status_t *s = start(&c);
  for (int64_t i = 0; s == NULL && i < c.values->count; i++) note(&c, attrs, i / width, i);
  return finish(ctx, &c, attrs, s);
}

WEFT_ATTRS_OF(sparse_compute, count)
static weft_status_t *sparse_compute(weft_kernel_ctx_t *ctx, const count_attrs_t *attrs) {
  weft_sparse_t x;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  counter_t c = {.values = x.values, .weights = weft_in(ctx, 3)};
  if (x.rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "The shape argument requires at least one element.");
  WEFT_RETURN_IF_ERROR(weft_sparse_check_inside(&x));
  WEFT_RETURN_IF_ERROR(check_weights(&c));
  c.is_flat = x.rank == 1;
  c.num_rows = c.is_flat ? 1 : x.dims[0];
  if (c.num_rows <= 0 || c.num_rows >= INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot allocate %" PRId64 " batches, is the dense shape too wide?",
                      c.num_rows);
  }
  weft_status_t *s = start(&c);
  for (int64_t i = 0; s == NULL && i < x.n; i++) note(&c, attrs, c.is_flat ? 0 : weft_sparse_at(&x, i)[0], i);
  return finish(ctx, &c, attrs, s);
}

/* Each row ends where the next split that is greater than the value's number says, in whatever order the
 * splits are. */
WEFT_ATTRS_OF(ragged_compute, count)
static weft_status_t *ragged_compute(weft_kernel_ctx_t *ctx, const count_attrs_t *attrs) {
  const weft_tensor_t *splits = weft_in(ctx, 0);
  counter_t c = {.values = weft_in(ctx, 1), .weights = weft_in(ctx, 2), .num_rows = splits->count - 1};
  const int64_t *ends = splits->data;
  WEFT_RETURN_IF_ERROR(check_weights(&c));
  if (c.num_rows <= 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Must provide at least 2 elements for the splits argument");
  if (ends[0] != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Splits must start with 0, not with %" PRId64, ends[0]);
  if (ends[c.num_rows] != c.values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Splits must end with the number of values, got %" PRId64 " instead of %" PRId64,
                      ends[c.num_rows], c.values->count);
  }
  weft_status_t *s = start(&c);
  for (int64_t i = 0, row = 0; s == NULL && i < c.values->count; i++) {
    while (i >= ends[row]) row++;
    note(&c, attrs, row - 1, i);
  }
  return finish(ctx, &c, attrs, s);
}

#define COUNT(op_, fn)                  \
  WEFT_KERNEL_ATTRS(op_, "output_type", \
                    WEFT_SET_INDEX | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64), fn)
const weft_kernel_t weft_cpu_sparse_count_kernels[] = {
    COUNT("DenseCountSparseOutput", dense_compute),
    COUNT("RaggedCountSparseOutput", ragged_compute),
    COUNT("SparseCountSparseOutput", sparse_compute),
    {0},
};
