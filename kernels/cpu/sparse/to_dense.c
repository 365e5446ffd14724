/* kernels/cpu/sparse/to_dense.c - SparseToDense, SparseTensorDenseAdd: sparse elements into dense tensors.
 *
 * Indices may be int32 or int64, and of rank 0 or 1 where an element has one coordinate.
 */
#include <inttypes.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/indices.h"
#include "kernels/cpu/loops/move.h"
#include "kernels/cpu/sparse/sparse.h"
#include "tensor/update.h"

/* Where element i of `indices` ([n, rank], int32 or int64) lies in a dense tensor; -1: outside. */
static int64_t position(const weft_tensor_t *indices, int64_t i, const weft_shape_t *shape) {
  int64_t at = 0;
  return weft_index_flatten(indices, i, shape->rank, shape, &at) ? at : -1;
}

/* ---- SparseToDense ---- */

static weft_status_t *to_dense_check(const weft_kernel_ctx_t *ctx, int64_t n, int64_t rank) {
  const weft_tensor_t *indices = weft_in(ctx, 0), *shape = weft_in(ctx, 1), *values = weft_in(ctx, 2);
  if (indices->shape.rank > 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse_indices should be a scalar, vector, or matrix, got shape %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (!weft_is_vector(shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "output_shape must be rank 1, got shape %s",
                      WEFT_SHAPE_TEXT(&shape->shape));
  }
  if (shape->count != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "output_shape has incorrect number of elements: %" PRId64 " should be: %" PRId64,
                      shape->count, rank);
  }
  if (!weft_is_scalar(values) && !(weft_is_vector(values) && values->count == n)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse_values has incorrect shape %s, should be [] or [%" PRId64 "]",
                      WEFT_SHAPE_TEXT(&values->shape), n);
  }
  if (!weft_is_scalar(weft_in(ctx, 3)))
    return WEFT_ERROR(INVALID_ARGUMENT, "default_value should be a scalar.");
  return NULL;
}

/* Row i of `indices` ([n, rank], int32 or int64). */
static void read_row(const weft_tensor_t *indices, int64_t i, int rank, int64_t *out) {
  for (int d = 0; d < rank; d++) out[d] = weft_cpu_int_at(indices, i * rank + d);
}

/* What is wrong with row i, which is outside or not behind row i - 1. */
static weft_status_t *bad_row(const weft_tensor_t *indices, int64_t i, const weft_shape_t *shape) {
  int64_t before[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS];
  if (i > 0) read_row(indices, i - 1, shape->rank, before);
  read_row(indices, i, shape->rank, at);
  return weft_sparse_check_next(i, i > 0 ? before : NULL, at, shape->rank, shape->dims);
}

/* All coordinates, before memory is taken; in ascending order if `in_order`. */
static weft_status_t *check_positions(const weft_tensor_t *indices, int64_t n, const weft_shape_t *shape,
                                      bool in_order) {
  int64_t last = -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = position(indices, i, shape);
    if (in_order && at <= last) return bad_row(indices, i, shape);
    if (at < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Indices are not valid (out of bounds).  Shape: %s",
                        WEFT_SHAPE_TEXT(shape));
    }
    last = at;
  }
  return NULL;
}

static weft_status_t *fill(weft_thread_pool_t *pool, weft_tensor_t *t, const weft_tensor_t *value) {
  if (!weft_dtype_is_plain(t->dtype)) {
    for (int64_t i = 0; i < t->count; i++) {
      WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(t, i, value, 0, 1));
    }
    return NULL;
  }
  weft_move_fill(pool, t->data, value->data, weft_dtype_size(t->dtype), t->count);
  return NULL;
}

WEFT_ATTRS(to_dense_compute, (BOOL, validate_indices))
static weft_status_t *to_dense_compute(weft_kernel_ctx_t *ctx, const to_dense_compute_attrs_t *attrs) {
  const weft_tensor_t *indices = weft_in(ctx, 0), *values = weft_in(ctx, 2);
  int64_t n = indices->shape.rank > 0 ? indices->shape.dims[0] : 1;
  int64_t rank = indices->shape.rank > 1 ? indices->shape.dims[1] : 1;
  WEFT_RETURN_IF_ERROR(to_dense_check(ctx, n, rank));
  weft_shape_t shape;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(weft_in(ctx, 1), "output_shape", &shape));
  WEFT_RETURN_IF_ERROR(check_positions(indices, n, &shape, attrs->validate_indices));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, values->dtype, &shape, &out));
  WEFT_RETURN_IF_ERROR(fill(ctx->device->pool, out, weft_in(ctx, 3)));
  for (int64_t i = 0; i < n; i++) {
    int64_t from = weft_is_scalar(values) ? 0 : i;
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, position(indices, i, &shape), values, from, 1));
  }
  return NULL;
}

/* ---- SparseTensorDenseAdd ---- */

static weft_status_t *dense_add_check(const weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *indices = weft_in(ctx, 0), *values = weft_in(ctx, 1), *shape = weft_in(ctx, 2),
                      *b = weft_in(ctx, 3);
  if (!weft_is_matrix(indices) || !weft_is_vector(values) || !weft_is_vector(shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Input a_indices should be a matrix, a_values and a_shape vectors; received shapes: %s, "
        "%s, %s",
        WEFT_SHAPE_TEXT(&indices->shape), WEFT_SHAPE_TEXT(&values->shape), WEFT_SHAPE_TEXT(&shape->shape));
  }
  if (values->count != indices->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimensions %" PRId64 " and %" PRId64 " are not compatible",
                      indices->shape.dims[0], values->count);
  }
  if (shape->count != indices->shape.dims[1] || shape->count != b->shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Two operands have different ranks; received: %" PRId64 " and %d",
                      shape->count, b->shape.rank);
  }
  for (int d = 0; d < b->shape.rank; d++) {
    int64_t size = weft_cpu_int_at(shape, d);
    if (size == b->shape.dims[d]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimension %d does not equal (no broadcasting is supported): sparse side %" PRId64
                      " vs dense side %" PRId64,
                      d, size, b->shape.dims[d]);
  }
  return NULL;
}

static weft_status_t *dense_add_compute(weft_kernel_ctx_t *ctx) {
  WEFT_RETURN_IF_ERROR(dense_add_check(ctx));
  const weft_tensor_t *indices = weft_in(ctx, 0), *values = weft_in(ctx, 1);
  weft_shape_t shape = weft_in(ctx, 3)->shape;
  for (int64_t i = 0; i < values->count; i++) {
    if (position(indices, i, &shape) < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "Sparse tensor index %" PRId64 " is out of bounds.", i);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_copy(weft_in(ctx, 3), &ctx->outputs[0].tensor));
  weft_tensor_t *out = ctx->outputs[0].tensor;
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, out->dtype);
  size_t size = weft_dtype_size(out->dtype);
  for (int64_t i = 0; i < values->count; i++) {
    char *to = (char *)out->data + (size_t)position(indices, i, &shape) * size;
    add(to, (const char *)values->data + (size_t)i * size, 1, false);
  }
  return NULL;
}

const weft_kernel_t weft_cpu_sparse_to_dense_kernels[] = {
    WEFT_KERNEL("SparseTensorDenseAdd", "T", WEFT_SET_NUMBERS, NULL, dense_add_compute, NULL),
    WEFT_KERNEL_ATTRS("SparseToDense", "T",
                      WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL) | WEFT_DTYPE_BIT(WEFT_STRING) |
                          (WEFT_SET_QUANTIZED & ~WEFT_DTYPE_BIT(WEFT_QINT32)),
                      to_dense_compute),
    {0},
};
