/* kernels/cpu/loops/common.c - see the header. */
#include "kernels/cpu/loops/common.h"

#include <inttypes.h>

int64_t weft_cpu_int_at(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_I8: return ((const int8_t *)t->data)[i];
    case WEFT_U8: return ((const uint8_t *)t->data)[i];
    case WEFT_I16: return ((const int16_t *)t->data)[i];
    case WEFT_U16: return ((const uint16_t *)t->data)[i];
    case WEFT_I32: return ((const int32_t *)t->data)[i];
    case WEFT_U32: return ((const uint32_t *)t->data)[i];
    case WEFT_I64: return ((const int64_t *)t->data)[i];
    case WEFT_U64: return (int64_t)((const uint64_t *)t->data)[i];
    default: return 0;
  }
}

weft_status_t *weft_cpu_int_scalar(const weft_tensor_t *t, const char *what, int64_t *out) {
  if (t->count != 1 || !weft_dtype_is_integer(t->dtype)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, but received tensor of shape: %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = weft_cpu_int_at(t, 0);
  return NULL;
}

weft_status_t *weft_cpu_shape_from(const weft_tensor_t *t, const char *what, weft_shape_t *out) {
  if (t->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a vector of {int32,int64}, got shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  if (t->count > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s has %" PRId64 " dimensions, more than %d", what, t->count,
                      (int)WEFT_MAX_DIMS);
  }
  int64_t dims[WEFT_MAX_DIMS];
  for (int64_t i = 0; i < t->count; i++) {
    dims[i] = weft_cpu_int_at(t, i);
    if (dims[i] < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", dims[i]);
    }
  }
  return weft_shape_make(dims, (int)t->count, out);
}

weft_status_t *weft_cpu_out_view(weft_kernel_ctx_t *c, int i, int o, const weft_shape_t *shape) {
  weft_tensor_t *in = weft_in(c, i), *out = NULL;
  if (weft_shape_eq(&in->shape, shape)) {
    weft_cpu_out_same(c, i, o);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_view(in, in->dtype, shape, &out));
  weft_out_set(c, o, out);
  return NULL;
}

void weft_cpu_out_same(weft_kernel_ctx_t *c, int i, int o) {
  weft_out_set(c, o, weft_tensor_retain(weft_in(c, i)));
}

weft_status_t *weft_cpu_copy(weft_tensor_t *dst, int64_t dst_at, const weft_tensor_t *src, int64_t src_at,
                             int64_t n) {
  if (!weft_dtype_is_plain(dst->dtype)) return weft_tensor_copy_elements(dst, dst_at, src, src_at, n);
  size_t size = weft_dtype_size(dst->dtype);
  if (n > 0) {
    memcpy((char *)dst->data + (size_t)dst_at * size, (const char *)src->data + (size_t)src_at * size,
           (size_t)n * size);
  }
  return NULL;
}

void weft_cpu_zero(weft_tensor_t *t) {
  /* New tensors of other types are empty already. */
  if (weft_dtype_is_plain(t->dtype) && t->bytes > 0) memset(t->data, 0, t->bytes);
}

weft_status_t *weft_cpu_concat_shape(const weft_kernel_ctx_t *ctx, int first, int n,
                                     const weft_tensor_t *axis_tensor, const char *axis_name, int *out_at,
                                     weft_shape_t *out) {
  if (axis_tensor->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s tensor should be a scalar integer, but got shape %s", axis_name,
                      WEFT_SHAPE_TEXT(&axis_tensor->shape));
  }
  const weft_tensor_t *x = weft_in(ctx, first);
  int rank = x->shape.rank, at = 0;
  int64_t axis = weft_cpu_int_at(axis_tensor, 0);
  if (rank == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "ConcatOp : Can't concatenate scalars (use tf.stack instead)");
  }
  if (!weft_cpu_wrap_axis(axis, rank, &at)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "ConcatOp : Expected concatenating dimensions in the range [-%d, %d), but got %" PRId64,
                      rank, rank, axis);
  }
  weft_shape_t shape = x->shape;
  for (int i = 1; i < n; i++) {
    const weft_tensor_t *t = weft_in(ctx, first + i);
    if (t->shape.rank != rank) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. shape[%d] = %s",
          WEFT_SHAPE_TEXT(&x->shape), i, WEFT_SHAPE_TEXT(&t->shape));
    }
    for (int d = 0; d < rank; d++) {
      if (d == at || t->shape.dims[d] == shape.dims[d]) continue;
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "ConcatOp : Dimension %d in both shapes must be equal: shape[0] = %s vs. shape[%d] = %s", d,
          WEFT_SHAPE_TEXT(&x->shape), i, WEFT_SHAPE_TEXT(&t->shape));
    }
    if (__builtin_add_overflow(shape.dims[at], t->shape.dims[at], &shape.dims[at])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "ConcatOp : the result is too large");
    }
  }
  *out_at = at;
  *out = shape;
  return NULL;
}

weft_status_t *weft_cpu_reshaped(const weft_tensor_t *x, const weft_tensor_t *sizes, weft_shape_t *out) {
  if (sizes->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "sizes input must be 1-D, not %s", WEFT_SHAPE_TEXT(&sizes->shape));
  }
  if (sizes->count > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Reshape to more than %d dimensions", (int)WEFT_MAX_DIMS);
  }
  weft_shape_t shape = {.rank = (int)sizes->count};
  int unknown = -1;
  int64_t known = 1, product = 1; /* of all sizes, and of those that are not 0 */
  bool has_zero = false;
  for (int d = 0; d < shape.rank; d++) {
    int64_t size = shape.dims[d] = weft_cpu_int_at(sizes, d);
    if (size == -1) {
      if (unknown >= 0) {
        return WEFT_ERROR(INVALID_ARGUMENT, "Only one input size may be -1, not both %d and %d", unknown, d);
      }
      unknown = d;
      continue;
    }
    if (size < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Size %d must be non-negative, not %" PRId64, d, size);
    if (size == 0) has_zero = true;
    if (!weft_cpu_mul(product, size == 0 ? 1 : size, &product)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s has too many elements", WEFT_SHAPE_TEXT(&shape));
    }
  }
  if (unknown >= 0) {
    /* A wanted size of 0 stands for the input's own dimensions of 0; the -1 takes the rest. */
    int64_t values = 1;
    bool skipped = false;
    for (int d = 0; d < x->shape.rank; d++) {
      bool skip = x->shape.dims[d] == 0 && has_zero;
      skipped |= skip;
      if (!skip && !weft_cpu_mul(values, x->shape.dims[d], &values)) values = 0;
    }
    shape.dims[unknown] = values / product;
    if (!skipped && values % product != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Input to reshape is a tensor with %" PRId64
                        " values, but the requested shape requires a multiple of %" PRId64,
                        values, product);
    }
  }
  known = weft_shape_count(&shape);
  if (known != x->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input to reshape is a tensor with %" PRId64
                      " values, but the requested shape has %" PRId64,
                      x->count, known);
  }
  *out = shape;
  return NULL;
}
