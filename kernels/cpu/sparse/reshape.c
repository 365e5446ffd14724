/* kernels/cpu/sparse/reshape.c - SparseReshape, SparseReorder. */
#include <inttypes.h>

#include "kernels/cpu/sparse/sparse.h"

/* ---- SparseReshape ---- */

/* The wanted shape, with the -1 in it replaced by what the others leave of `size`. */
static weft_status_t *target(const weft_tensor_t *wanted, int64_t size, weft_shape_t *out) {
  int64_t product = 1, dims[WEFT_MAX_DIMS];
  int unknown = -1;
  if (wanted->count > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "too many dimensions");
  for (int d = 0; d < wanted->count; d++) {
    dims[d] = weft_cpu_int_at(wanted, d);
    if (dims[d] == -1) {
      if (unknown >= 0) {
        return WEFT_ERROR(INVALID_ARGUMENT, "only one output dimension may be -1, not both %d and %d",
                          unknown, d);
      }
      unknown = d;
      dims[d] = 1;
    } else if (dims[d] < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "size %d must be non-negative, not %" PRId64, d, dims[d]);
    }
  }
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, (int)wanted->count, out));
  product = weft_shape_count(out);
  if (unknown >= 0) {
    if (product <= 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "reshape cannot infer the missing input size for an empty tensor unless all "
                        "specified input sizes are non-zero");
    }
    if (size % product != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input to reshape is a SparseTensor with %" PRId64
                        " dense values, but the requested shape requires a multiple of %" PRId64 ".",
                        size, product);
    }
    out->dims[unknown] = size / product;
    product = size;
  }
  if (product != size) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input to reshape is a tensor with %" PRId64
                      " dense values, but the requested shape has %" PRId64 ".",
                      size, product);
  }
  return NULL;
}

void weft_sparse_reshape_indices(const int64_t *at, int64_t n, const weft_shape_t *from,
                                 const weft_shape_t *to, int64_t *out) {
  int64_t strides[WEFT_MAX_DIMS] = {0};
  int64_t stride = 1;
  for (int d = to->rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= to->dims[d];
  }
  for (int64_t i = 0; i < n; i++) {
    uint64_t position = 0;
    for (int d = 0; d < from->rank; d++) {
      position = position * (uint64_t)from->dims[d] + (uint64_t)at[i * from->rank + d];
    }
    int64_t rest = (int64_t)position;
    for (int d = 0; d < to->rank; d++) {
      out[i * to->rank + d] = rest / strides[d];
      rest %= strides[d];
    }
  }
}

static weft_status_t *reshape_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *indices = weft_in(ctx, 0), *old = weft_in(ctx, 1), *wanted = weft_in(ctx, 2);
  weft_shape_t from, to;
  if (!weft_is_matrix(indices)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices should be a matrix but received shape %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (!weft_is_vector(old)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input shape should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&old->shape));
  }
  if (!weft_is_vector(wanted)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Target shape should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&wanted->shape));
  }
  if (indices->shape.dims[1] != old->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor rank must match input shape length.");
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(old, "input_shape", &from));
  int64_t size = weft_shape_count(&from), n = indices->shape.dims[0];
  WEFT_RETURN_IF_ERROR(target(wanted, size, &to));
  if (weft_shape_eq(&from, &to)) {
    weft_cpu_out_same(ctx, 0, 0);
    weft_cpu_out_same(ctx, 1, 1);
    return NULL;
  }
  if (n > 0 && size <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input tensor has %" PRId64
                      " non zero elements but input shape (%s) or output shape (%s) is empty",
                      n, WEFT_SHAPE_TEXT(&from), WEFT_SHAPE_TEXT(&to));
  }
  int64_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_sparse_put_shape(ctx, 1, to.dims, to.rank));
  WEFT_RETURN_IF_ERROR(weft_sparse_new_indices(ctx, 0, n, to.rank, &out));
  weft_sparse_reshape_indices(indices->data, n, &from, &to, out);
  return NULL;
}

/* ---- SparseReorder ---- */

static weft_status_t *reorder_check_shape(const weft_tensor_t *shape) {
  int64_t total = 1;
  for (int64_t d = 0; d < shape->count; d++) {
    int32_t dim = (int32_t)weft_cpu_int_at(shape, d); /* TensorFlow looks at 32 bits of it */
    if (dim < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %d must be >= 0", dim);
    if (!weft_cpu_mul(total, dim, &total))
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape would have more than 2**63 - 1 elements");
  }
  return NULL;
}

static weft_status_t *reorder_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  WEFT_RETURN_IF_ERROR(weft_sparse_read(ctx, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(reorder_check_shape(x.shape));
  bool is_ordered = true;
  for (int64_t i = 1; is_ordered && i < x.n; i++) {
    is_ordered = weft_coordinates_compare(weft_sparse_at(&x, i - 1), weft_sparse_at(&x, i), x.rank) < 0;
  }
  if (is_ordered) {
    weft_cpu_out_same(ctx, 0, 0);
    weft_cpu_out_same(ctx, 1, 1);
    return NULL;
  }
  int64_t *order = NULL;
  WEFT_RETURN_IF_ERROR(weft_sparse_sort(x.at, x.n, x.rank, &order));
  weft_status_t *s = weft_sparse_put_picked(ctx, 0, 1, &x, order, x.n);
  weft_free(order);
  return s;
}

const weft_kernel_t weft_cpu_sparse_reshape_kernels[] = {
    WEFT_KERNEL("SparseReorder", NULL, 0, NULL, reorder_compute, NULL),
    WEFT_KERNEL("SparseReshape", NULL, 0, NULL, reshape_compute, NULL),
    {0},
};
