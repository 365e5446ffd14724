/* kernels/cpu/array/unravel.c - UnravelIndex: flat positions to coordinates. */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"

/* The product of the sizes, which are positive, as *out; it fits the type of the indices. */
static weft_status_t *read_sizes(const weft_tensor_t *dims, int64_t *out) {
  int64_t limit = dims->dtype == WEFT_I32 ? INT32_MAX : INT64_MAX;
  *out = 1;
  for (int64_t i = 0; i < dims->count; i++) {
    int64_t dim = weft_cpu_int_at(dims, i);
    if (dim == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input dims cannot contain a dim of zero, but dims contains zero at index %" PRId64,
                        i);
    }
    if (dim < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input dims cannot be negative. Got dim = %" PRId64 " at index %" PRId64, dim, i);
    }
    if (*out > limit / dim) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Input dims product is causing integer overflow");
    }
    *out *= dim;
  }
  return NULL;
}

/* Negative positions, which TensorFlow lets pass, have coordinates with the signs of C's remainders. */
static weft_status_t *unravel(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *indices = weft_in(ctx, 0), *dims = weft_in(ctx, 1);
  weft_tensor_t *out = NULL;
  if (indices->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The indices can only be scalar or vector, got \"%s\"",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (indices->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "received empty tensor indices");
  if (dims->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The indices can only be 1-D, got \"%s\"",
                      WEFT_SHAPE_TEXT(&dims->shape));
  }
  int64_t product = 0;
  WEFT_RETURN_IF_ERROR(read_sizes(dims, &product));
  for (int64_t i = 0; i < indices->count; i++) {
    if (weft_cpu_int_at(indices, i) >= product)
      return WEFT_ERROR(INVALID_ARGUMENT, "index is out of bound as with dims");
  }
  weft_shape_t shape = weft_shape_matrix(dims->count, indices->count);
  if (indices->shape.rank == 0) shape.rank = 1;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, indices->dtype, &shape, &out));
  int64_t stride = product;
  for (int64_t d = 0; d < dims->count; d++) {
    int64_t whole = stride;
    stride /= weft_cpu_int_at(dims, d);
    for (int64_t i = 0; i < indices->count; i++) {
      int64_t at = weft_cpu_int_at(indices, i) % whole / stride;
      if (out->dtype == WEFT_I32) ((int32_t *)out->data)[d * indices->count + i] = (int32_t)at;
      if (out->dtype == WEFT_I64) ((int64_t *)out->data)[d * indices->count + i] = at;
    }
  }
  return NULL;
}

const weft_kernel_t weft_cpu_unravel_kernels[] = {
    WEFT_KERNEL("UnravelIndex", "Tidx", WEFT_SET_INDEX, NULL, unravel, NULL),
    {0},
};
