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

/* The positions of a block of rows from `begin` on; how many. */
static int64_t block_at(const weft_tensor_t *indices, int64_t begin, int64_t n, const weft_shape_t *shape,
                        int64_t at[WEFT_INDEX_BLOCK], int64_t *out_bad) {
  const int64_t m = n - begin < WEFT_INDEX_BLOCK ? n - begin : WEFT_INDEX_BLOCK;
  *out_bad = weft_index_positions(indices, begin, m, shape->rank, shape, at);
  return m;
}

/* The first of m positions that is not behind the one before it, which is `last` in front of them; m: none.
 */
static int64_t first_descent(const int64_t *at, int64_t m, int64_t last) {
  bool ascends = at[0] > last;
  for (int64_t i = 1; i < m; i++) ascends &= at[i] > at[i - 1];
  for (int64_t i = 0; !ascends && i < m; i++) {
    if (at[i] <= last) return i;
    last = at[i];
  }
  return m;
}

/* All coordinates, before memory is taken; in ascending order if `in_order`. */
static weft_status_t *check_positions(const weft_tensor_t *indices, int64_t n, const weft_shape_t *shape,
                                      bool in_order) {
  int64_t at[WEFT_INDEX_BLOCK], last = -1, bad = -1;
  for (int64_t begin = 0, m = 0; begin < n; begin += m) {
    m = block_at(indices, begin, n, shape, at, &bad);
    if (in_order) {
      int64_t i = first_descent(at, m, last);
      if (i < m) return bad_row(indices, begin + i, shape);
      last = at[m - 1];
    }
    if (bad >= 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Indices are not valid (out of bounds).  Shape: %s",
                        WEFT_SHAPE_TEXT(shape));
    }
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

/* m elements of `values` from `from` on, `step` apart, to the positions `at`. */
static weft_status_t *put(const weft_tensor_t *values, int64_t from, int64_t step, const int64_t *at,
                          int64_t m, weft_tensor_t *out) {
  if (!weft_dtype_is_plain(out->dtype)) {
    for (int64_t i = 0; i < m; i++)
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, at[i], values, from + i * step, 1));
    return NULL;
  }
#define PUT(type) \
  for (int64_t i = 0; i < m; i++) ((type *)out->data)[at[i]] = ((const type *)values->data)[from + i * step]
  switch (weft_dtype_size(out->dtype)) {
    case 1: PUT(uint8_t); break;
    case 2: PUT(uint16_t); break;
    case 4: PUT(uint32_t); break;
    case 8: PUT(uint64_t); break;
    default: PUT(weft_c128_t); break;
  }
#undef PUT
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
  int64_t at[WEFT_INDEX_BLOCK], bad = -1;
  for (int64_t begin = 0, m = 0; begin < n; begin += m) {
    m = block_at(indices, begin, n, &shape, at, &bad);
    WEFT_RETURN_IF_ERROR(
        put(values, weft_is_scalar(values) ? 0 : begin, !weft_is_scalar(values), at, m, out));
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
  const int64_t n = values->count;
  int64_t at[WEFT_INDEX_BLOCK], bad = -1;
  for (int64_t begin = 0, m = 0; begin < n; begin += m) {
    m = block_at(indices, begin, n, &shape, at, &bad);
    for (int64_t i = 0; bad >= 0 && i < m; i++) {
      if (at[i] < 0)
        return WEFT_ERROR(INVALID_ARGUMENT, "Sparse tensor index %" PRId64 " is out of bounds.", begin + i);
    }
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_copy(weft_in(ctx, 3), &ctx->outputs[0].tensor));
  weft_tensor_t *out = ctx->outputs[0].tensor;
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, out->dtype);
  const size_t size = weft_dtype_size(out->dtype);
  for (int64_t begin = 0, m = 0; begin < n; begin += m) {
    m = block_at(indices, begin, n, &shape, at, &bad);
    for (int64_t i = 0; i < m; i++) {
      char *to = (char *)out->data + (size_t)at[i] * size;
      add(to, (const char *)values->data + (size_t)(begin + i) * size, 1, false);
    }
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
