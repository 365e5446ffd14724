/* kernels/cpu/array/slice.c - Slice, StridedSlice, its gradient, and a tensor with a slice replaced. */
#include <inttypes.h>

#include "kernels/cpu/array/strided_slice.h"

static weft_status_t *slice_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *begin = weft_in(ctx, 1), *size = weft_in(ctx, 2), *y = NULL;
  int rank = x->shape.rank;
  if (begin->shape.rank != 1 || size->shape.rank != 1 || begin->count != rank || size->count != rank) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Expected begin and size arguments to be 1-D tensors of size %d, but got shapes %s and %s instead.",
        rank, WEFT_SHAPE_TEXT(&begin->shape), WEFT_SHAPE_TEXT(&size->shape));
  }
  weft_slice_t s = {.full = {.rank = rank}};
  bool is_whole = true, is_rows = true;
  for (int d = 0; d < rank; d++) {
    int64_t dim = x->shape.dims[d], b = weft_cpu_int_at(begin, d), n = weft_cpu_int_at(size, d);
    if (b < 0 || b > dim) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Expected begin[%d] in [0, %" PRId64 "], but got %" PRId64, d, dim,
                        b);
    }
    if (n == -1) n = dim - b;
    if (n < 0 || n > dim - b) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Expected size[%d] in [0, %" PRId64 "], but got %" PRId64, d,
                        dim - b, n);
    }
    s.begin[d] = b;
    s.stride[d] = 1;
    s.size[d] = s.full.dims[d] = n;
    if (n != dim) {
      is_whole = false;
      if (d > 0) is_rows = false;
    }
  }
  if (is_whole) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  size_t row = rank > 0 && x->shape.dims[0] > 0 ? x->bytes / (size_t)x->shape.dims[0] : 0;
  if (is_rows && (size_t)s.begin[0] * row % WEFT_TENSOR_ALIGNMENT == 0) {
    WEFT_RETURN_IF_ERROR(weft_tensor_slice(x, s.begin[0], s.size[0], &y));
    weft_out_set(ctx, 0, y);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &s.full, &y));
  weft_move_t m;
  weft_slice_move(&s, &x->shape, false, &m);
  return weft_move_run(&m, ctx->device->pool, x, y);
}

WEFT_ATTRS_OF(strided_slice_compute, weft_slice)
static weft_status_t *strided_slice_compute(weft_kernel_ctx_t *ctx, const weft_slice_attrs_t *masks) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_slice_t s;
  WEFT_RETURN_IF_ERROR(
      weft_slice_decode(&x->shape, weft_in(ctx, 1), weft_in(ctx, 2), weft_in(ctx, 3), masks, &s));
  bool is_whole = true;
  for (int d = 0; d < x->shape.rank; d++)
    is_whole &= s.size[d] == x->shape.dims[d] && (s.stride[d] == 1 || s.size[d] <= 1);
  if (is_whole) return weft_cpu_out_view(ctx, 0, 0, &s.final);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &s.final, &y));
  if (y->count == 0) return NULL;
  weft_move_t m;
  weft_slice_move(&s, &x->shape, false, &m);
  return weft_move_run(&m, ctx->device->pool, x, y);
}

WEFT_ATTRS_OF(strided_slice_grad_compute, weft_slice)
static weft_status_t *strided_slice_grad_compute(weft_kernel_ctx_t *ctx, const weft_slice_attrs_t *masks) {
  weft_tensor_t *dy = weft_in(ctx, 4), *dx = NULL;
  weft_shape_t shape;
  if (weft_in(ctx, 0)->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape must be 1-D, got shape.shape = %s",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, 0)->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(weft_in(ctx, 0), "shape", &shape));
  weft_slice_t s;
  WEFT_RETURN_IF_ERROR(
      weft_slice_decode(&shape, weft_in(ctx, 1), weft_in(ctx, 2), weft_in(ctx, 3), masks, &s));
  if (!weft_shape_eq(&s.final, &dy->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape of dy was %s instead of %s", WEFT_SHAPE_TEXT(&dy->shape),
                      WEFT_SHAPE_TEXT(&s.final));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dy->dtype, &shape, &dx));
  weft_cpu_zero(dx);
  if (dy->count == 0) return NULL;
  weft_move_t m;
  weft_slice_move(&s, &shape, true, &m);
  return weft_move_run(&m, ctx->device->pool, dy, dx);
}

/* out = a copy of input, in which the slice is `value`, broadcast to its shape. */
WEFT_ATTRS_OF(slice_update_compute, weft_slice)
static weft_status_t *slice_update_compute(weft_kernel_ctx_t *ctx, const weft_slice_attrs_t *masks) {
  weft_tensor_t *x = weft_in(ctx, 0), *value = weft_in(ctx, 4), *y = NULL, *whole = NULL;
  weft_slice_t slice;
  weft_move_t m;
  WEFT_RETURN_IF_ERROR(
      weft_slice_decode(&x->shape, weft_in(ctx, 1), weft_in(ctx, 2), weft_in(ctx, 3), masks, &slice));
  weft_status_t *s = weft_slice_value(&slice, weft_out_allocator(ctx, true), value, &whole);
  if (s == NULL) s = weft_out_new(ctx, 0, x->dtype, &x->shape, &y);
  if (s == NULL) s = weft_cpu_copy(y, 0, x, 0, x->count);
  if (s == NULL && weft_shape_count(&slice.full) > 0) {
    weft_slice_move(&slice, &x->shape, true, &m);
    s = weft_move_run(&m, ctx->device->pool, whole, y);
  }
  weft_tensor_release(whole);
  return s;
}

const weft_kernel_t weft_cpu_slice_kernels[] = {
    WEFT_KERNEL("Slice", NULL, 0, NULL, slice_compute, NULL),
    WEFT_KERNEL_ATTRS("StridedSlice", NULL, 0, strided_slice_compute),
    WEFT_KERNEL_ATTRS("StridedSliceGrad", NULL, 0, strided_slice_grad_compute),
    WEFT_KERNEL_ATTRS("TensorStridedSliceUpdate", NULL, 0, slice_update_compute),
    {0},
};
