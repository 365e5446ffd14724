/* kernels/cpu/sparse/rows.c - see the header. */
#include "kernels/cpu/sparse/rows.h"

#include <inttypes.h>

/* ---- apart ---- */

weft_status_t *weft_sparse_read_rows(const weft_kernel_ctx_t *ctx, weft_sparse_t *out) {
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, out));
  if (out->rank <= 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Rank of input SparseTensor should be > 1, but saw rank: %d",
                      out->rank);
  }
  WEFT_RETURN_IF_ERROR(weft_sparse_dense_shape(out, &shape));
  return weft_sparse_check_order(out);
}

weft_status_t *weft_sparse_row_shape(const weft_sparse_t *x, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_vector(x->rank - 1);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &shape, NULL, out));
  memcpy((*out)->data, x->dims + 1, (*out)->bytes);
  return NULL;
}

weft_status_t *weft_sparse_take_row(const weft_sparse_t *x, int64_t row, int64_t *next,
                                    weft_sparse_parts_t *out) {
  int64_t begin = *next, end = begin;
  while (end < x->n && weft_sparse_at(x, end)[0] == row) end++;
  weft_shape_t of_indices = weft_shape_matrix(end - begin, x->rank - 1),
               of_values = weft_shape_vector(end - begin);
  *out = (weft_sparse_parts_t){0};
  weft_status_t *s = weft_tensor_new(WEFT_I64, &of_indices, NULL, &out->indices);
  if (s == NULL) s = weft_tensor_new(x->values->dtype, &of_values, NULL, &out->values);
  if (s == NULL) s = weft_cpu_copy(out->values, 0, x->values, begin, end - begin);
  if (s != NULL) {
    weft_sparse_parts_release(out);
    return s;
  }
  for (int64_t i = begin; i < end; i++) {
    int64_t *to = (int64_t *)out->indices->data + (i - begin) * (x->rank - 1);
    for (int d = 1; d < x->rank; d++) to[d - 1] = weft_sparse_at(x, i)[d];
  }
  *next = end;
  return NULL;
}

/* ---- together ---- */

weft_status_t *weft_sparse_check_parts(const weft_sparse_parts_t *row, weft_dtype_t dtype, int64_t i) {
  const weft_tensor_t *indices = row->indices, *values = row->values, *shape = row->shape;
  if (indices->dtype != WEFT_I64 || !weft_is_matrix(indices)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected serialized_sparse[%" PRId64
                      ", 0] to represent an index matrix of int64 but received %s of shape %s",
                      i, weft_dtype_name(indices->dtype), WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (!weft_is_vector(values)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected serialized_sparse[%" PRId64
                      ", 1] to represent a values vector but received shape %s",
                      i, WEFT_SHAPE_TEXT(&values->shape));
  }
  if (values->dtype != dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Requested SparseTensor of type %s but SparseTensor[%" PRId64 "].values.dtype() == %s",
                      weft_dtype_name(dtype), i, weft_dtype_name(values->dtype));
  }
  if (indices->shape.dims[0] != values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected row counts of SparseTensor[%" PRId64 "].indices and SparseTensor[%" PRId64
                      "].values to match but they do not: %" PRId64 " vs. %" PRId64,
                      i, i, indices->shape.dims[0], values->count);
  }
  if (shape->dtype != WEFT_I64 || !weft_is_vector(shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected serialized_sparse[%" PRId64
                      ", 2] to be a shape vector of int64 but it is %s of shape %s",
                      i, weft_dtype_name(shape->dtype), WEFT_SHAPE_TEXT(&shape->shape));
  }
  if (indices->shape.dims[1] != shape->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected column counts of SparseTensor[%" PRId64
                      "].indices to match size of SparseTensor[%" PRId64 "].shape but they do not: %" PRId64
                      " vs. %" PRId64,
                      i, i, indices->shape.dims[1], shape->count);
  }
  return NULL;
}

/* The dimensions of the result; *out_dims: owned by the caller. */
static weft_status_t *stack_dims(const weft_sparse_parts_t *rows, int64_t n, const weft_shape_t *leads,
                                 int64_t **out_dims, int *out_rank) {
  int64_t rank = n == 0 ? 0 : rows[0].shape->count;
  if (rank > INT32_MAX / 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "a sparse tensor of %" PRId64 " dimensions", rank);
  int64_t *dims = weft_calloc((size_t)rank + WEFT_MAX_DIMS + 1, sizeof *dims);
  if (dims == NULL) return WEFT_NO_MEMORY("a sparse tensor of %" PRId64 " dimensions", rank);
  for (int d = 0; d < leads->rank; d++) dims[d] = leads->dims[d];
  for (int64_t i = 0; i < n; i++) {
    if (rows[i].shape->count != rank) {
      weft_free(dims);
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Inconsistent shape across SparseTensors: rank prior to SparseTensor[%" PRId64
                        "] was: %" PRId64 " but rank of SparseTensor[%" PRId64 "] is: %" PRId64,
                        i, rank, i, rows[i].shape->count);
    }
    const int64_t *of_row = rows[i].shape->data;
    for (int64_t d = 0; d < rank; d++) {
      int64_t *dim = &dims[leads->rank + d];
      if (i == 0 || of_row[d] > *dim) *dim = of_row[d];
    }
  }
  *out_dims = dims;
  *out_rank = (int)rank + leads->rank;
  return NULL;
}

/* Coordinates and values of row i, behind `at` elements. */
static weft_status_t *put_row(const weft_sparse_parts_t *row, int64_t i, const weft_shape_t *leads, int rank,
                              int64_t *indices, weft_tensor_t *values, int64_t at) {
  int64_t lead[WEFT_MAX_DIMS], rest = i, n = row->values->count;
  int own = rank - leads->rank;
  for (int d = leads->rank - 1; d >= 0; d--) {
    lead[d] = rest % leads->dims[d];
    rest /= leads->dims[d];
  }
  for (int64_t k = 0; k < n; k++) {
    int64_t *to = indices + (at + k) * rank;
    const int64_t *from = (const int64_t *)row->indices->data + k * own;
    for (int d = 0; d < leads->rank; d++) *to++ = lead[d];
    for (int d = 0; d < own; d++) *to++ = from[d];
  }
  return weft_cpu_copy(values, at, row->values, 0, n);
}

weft_status_t *weft_sparse_stack(weft_kernel_ctx_t *ctx, weft_dtype_t dtype, const weft_sparse_parts_t *rows,
                                 int64_t n, const weft_shape_t *leads) {
  int64_t *dims = NULL, *indices = NULL, total = 0;
  int rank = 0;
  weft_tensor_t *values = NULL;
  for (int64_t i = 0; i < n; i++) {
    if (__builtin_add_overflow(total, rows[i].values->count, &total))
      return WEFT_ERROR(RESOURCE_EXHAUSTED, "Too many sparse entries");
  }
  WEFT_RETURN_IF_ERROR(stack_dims(rows, n, leads, &dims, &rank));
  weft_status_t *s = weft_sparse_put_shape(ctx, 2, dims, rank);
  weft_free(dims);
  if (s == NULL) s = weft_sparse_new_indices(ctx, 0, total, rank, &indices);
  if (s == NULL) s = weft_sparse_new_values(ctx, 1, dtype, total, &values);
  for (int64_t i = 0, at = 0; i < n && s == NULL; i++) {
    s = put_row(&rows[i], i, leads, rank, indices, values, at);
    at += rows[i].values->count;
  }
  return s;
}
