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
