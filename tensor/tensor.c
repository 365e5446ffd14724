/* tensor/tensor.c - life and sharing of tensors.
 *
 * A tensor and up to INLINE_MAX bytes of data are one block, so that a scalar
 * costs one allocation. Larger data come from the device's allocator.
 */
#include "tensor/tensor.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "tensor/memory_accounts.h"
#include "tensor/memory_holders.h"

enum { INLINE_MAX = 256 };

static size_t header_size(void) {
  return (sizeof(weft_tensor_t) + 15) & ~(size_t)15; /* malloc's own alignment */
}

static weft_status_t *size_of(weft_dtype_t dtype, const weft_shape_t *shape, int64_t *count, size_t *bytes) {
  *count = weft_shape_count(shape);
  if (*count < 0 || !weft_dtype_is_valid(dtype) || weft_dtype_is_ref(dtype)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "cannot make a tensor of type %s and shape %s",
                      weft_dtype_name(dtype), WEFT_SHAPE_TEXT(shape));
  }
  if (!weft_mul_size((size_t)*count, weft_dtype_size(dtype), bytes) || *bytes > (size_t)PTRDIFF_MAX / 2) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "a tensor of type %s and shape %s is too large",
                      weft_dtype_name(dtype), WEFT_SHAPE_TEXT(shape));
  }
  return NULL;
}

static void init(weft_tensor_t *t, weft_dtype_t dtype, const weft_shape_t *shape, int64_t count,
                 size_t bytes) {
  atomic_init(&t->refs, 1);
  t->dtype = dtype;
  t->data = NULL;
  t->bytes = bytes;
  t->count = count;
  t->owner = NULL;
  t->allocator = NULL;
  t->space = NULL;
  t->fence = (weft_fence_t){NULL, 0};
  t->dealloc = NULL;
  t->dealloc_arg = NULL;
  t->shape.rank = shape->rank;
  if (shape->rank > 0) memcpy(t->shape.dims, shape->dims, (size_t)shape->rank * sizeof shape->dims[0]);
}

static weft_status_t *no_memory(weft_dtype_t dtype, const weft_shape_t *shape) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "OOM when allocating tensor with shape%s and type %s",
                    WEFT_SHAPE_TEXT(shape), weft_dtype_name(dtype));
}

/* The allocator has none. Of a device's the failure says what holds it. */
static weft_status_t *used_up(weft_dtype_t dtype, const weft_shape_t *shape,
                              const weft_allocator_t *allocator) {
  weft_strbuf_t held = WEFT_STRBUF_INIT;
  weft_memory_explain(allocator, &held);
  weft_status_t *s =
      held.failed || held.length == 0
          ? no_memory(dtype, shape)
          : WEFT_ERROR(RESOURCE_EXHAUSTED, "OOM when allocating tensor with shape%s and type %s%s",
                       WEFT_SHAPE_TEXT(shape), weft_dtype_name(dtype), held.data);
  weft_strbuf_deinit(&held);
  return s;
}

weft_status_t *weft_tensor_new(weft_dtype_t dtype, const weft_shape_t *shape, weft_allocator_t *allocator,
                               weft_tensor_t **out) {
  int64_t count = 0;
  size_t bytes = 0;
  WEFT_RETURN_IF_ERROR(size_of(dtype, shape, &count, &bytes));
  if (allocator == NULL) allocator = weft_cpu_allocator();
  bool is_inline = bytes <= INLINE_MAX && allocator->space == NULL;
  weft_tensor_t *t = weft_malloc(header_size() + (is_inline ? bytes : 0));
  if (t == NULL) return no_memory(dtype, shape);
  init(t, dtype, shape, count, bytes);
  if (is_inline) {
    if (bytes > 0) t->data = (char *)t + header_size();
  } else {
    t->data = allocator->allocate(allocator, bytes, &t->fence);
    t->allocator = allocator;
    t->space = allocator->space;
    if (t->data == NULL) {
      weft_free(t);
      return used_up(dtype, shape, allocator);
    }
  }
  if (!weft_dtype_is_plain(dtype) && bytes > 0) memset(t->data, 0, bytes);
  *out = t;
  return NULL;
}

weft_status_t *weft_tensor_wrap(weft_dtype_t dtype, const weft_shape_t *shape, void *data, size_t bytes,
                                weft_dealloc_fn *dealloc, void *arg, weft_tensor_t **out) {
  int64_t count = 0;
  size_t need = 0;
  WEFT_RETURN_IF_ERROR(size_of(dtype, shape, &count, &need));
  if (need != bytes) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%zu bytes given for a tensor of type %s and shape %s, which needs %zu", bytes,
                      weft_dtype_name(dtype), WEFT_SHAPE_TEXT(shape), need);
  }
  weft_tensor_t *t = weft_malloc(sizeof *t);
  if (t == NULL) return no_memory(dtype, shape);
  init(t, dtype, shape, count, bytes);
  t->data = data;
  t->dealloc = dealloc;
  t->dealloc_arg = arg;
  *out = t;
  return NULL;
}

static weft_status_t *share(weft_tensor_t *t, weft_dtype_t dtype, const weft_shape_t *shape, size_t offset,
                            weft_tensor_t **out) {
  int64_t count = 0;
  size_t bytes = 0;
  WEFT_RETURN_IF_ERROR(size_of(dtype, shape, &count, &bytes));
  if (offset > t->bytes || bytes > t->bytes - offset) {
    return WEFT_ERROR(INTERNAL, "a view of %zu bytes at %zu does not fit a tensor of %zu bytes", bytes,
                      offset, t->bytes);
  }
  weft_tensor_t *v = weft_malloc(sizeof *v);
  if (v == NULL) return no_memory(dtype, shape);
  init(v, dtype, shape, count, bytes);
  v->data = bytes == 0 ? NULL : (char *)t->data + offset;
  v->owner = weft_tensor_retain(t->owner != NULL ? t->owner : t);
  v->space = t->space;
  v->fence = t->fence;
  *out = v;
  return NULL;
}

weft_status_t *weft_tensor_view(weft_tensor_t *t, weft_dtype_t dtype, const weft_shape_t *shape,
                                weft_tensor_t **out) {
  int64_t count = weft_shape_count(shape);
  bool fits = dtype == t->dtype
                  ? count == t->count
                  : weft_dtype_is_plain(dtype) && weft_dtype_is_plain(t->dtype) && count >= 0 &&
                        (size_t)count <= t->bytes && (size_t)count * weft_dtype_size(dtype) == t->bytes;
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a tensor of type %s and shape %s cannot be seen as %s of shape %s",
                      weft_dtype_name(t->dtype), WEFT_SHAPE_TEXT(&t->shape), weft_dtype_name(dtype),
                      WEFT_SHAPE_TEXT(shape));
  }
  return share(t, dtype, shape, 0, out);
}

weft_status_t *weft_tensor_slice(weft_tensor_t *t, int64_t begin, int64_t rows, weft_tensor_t **out) {
  if (t->shape.rank < 1 || begin < 0 || rows < 0 || rows > t->shape.dims[0] - begin) {
    return WEFT_ERROR(INVALID_ARGUMENT, "rows %" PRId64 "+%" PRId64 " are not in a tensor of shape %s", begin,
                      rows, WEFT_SHAPE_TEXT(&t->shape));
  }
  weft_shape_t shape = t->shape;
  size_t row_bytes = t->shape.dims[0] == 0 ? 0 : t->bytes / (size_t)t->shape.dims[0];
  shape.dims[0] = rows;
  return share(t, t->dtype, &shape, (size_t)begin * row_bytes, out);
}

weft_tensor_t *weft_tensor_retain(weft_tensor_t *t) {
  if (t != NULL) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}

static void destroy_elements(weft_tensor_t *t) {
  for (int64_t i = 0; i < t->count; i++) {
    if (t->dtype == WEFT_STRING) weft_tstring_clear((weft_tstring_t *)t->data + i);
    if (t->dtype == WEFT_RESOURCE) weft_handle_release(((weft_handle_t **)t->data)[i]);
    if (t->dtype == WEFT_VARIANT) weft_variant_release(((weft_variant_t **)t->data)[i]);
  }
}

void weft_tensor_release(weft_tensor_t *t) {
  if (t == NULL) return;
  /* A sole owner needs no read-modify-write: no other thread can raise the count. The acquire pairs with the
   * release of each reference that was dropped. */
  if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  if (t->owner != NULL) {
    weft_tensor_release(t->owner);
  } else if (t->dealloc != NULL) {
    t->dealloc(t->data, t->bytes, t->dealloc_arg);
  } else {
    if (!weft_dtype_is_plain(t->dtype)) destroy_elements(t);
    if (t->allocator != NULL) t->allocator->deallocate(t->allocator, t->data, t->bytes);
  }
  weft_free(t);
}

bool weft_tensor_is_exclusive(const weft_tensor_t *t) {
  if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1 || t->dealloc != NULL) return false;
  if (t->owner == NULL) return true;
  return atomic_load_explicit(&t->owner->refs, memory_order_acquire) == 1 && t->owner->dealloc == NULL;
}

weft_status_t *weft_tensor_copy_elements(weft_tensor_t *dst, int64_t dst_at, const weft_tensor_t *src,
                                         int64_t src_at, int64_t n) {
  size_t size = weft_dtype_size(src->dtype);
  if (dst->dtype != src->dtype || n < 0 || dst_at < 0 || src_at < 0 || n > dst->count - dst_at ||
      n > src->count - src_at) {
    return WEFT_ERROR(INTERNAL, "copying %" PRId64 " elements of %s to %s out of bounds", n,
                      weft_dtype_name(src->dtype), weft_dtype_name(dst->dtype));
  }
  if (weft_dtype_is_plain(src->dtype)) {
    if (n > 0)
      memcpy((char *)dst->data + (size_t)dst_at * size, (const char *)src->data + (size_t)src_at * size,
             (size_t)n * size);
    return NULL;
  }
  for (int64_t i = 0; i < n; i++) {
    if (src->dtype == WEFT_STRING) {
      WEFT_RETURN_IF_ERROR(weft_tensor_set_str(dst, dst_at + i, weft_tensor_str_at(src, src_at + i)));
    } else if (src->dtype == WEFT_RESOURCE) {
      weft_handle_t **to = (weft_handle_t **)dst->data + dst_at + i;
      weft_handle_t *from = weft_handle_retain(((weft_handle_t **)src->data)[src_at + i]);
      weft_handle_release(*to);
      *to = from;
    } else {
      weft_variant_t **to = (weft_variant_t **)dst->data + dst_at + i;
      weft_variant_t *from = weft_variant_retain(((weft_variant_t **)src->data)[src_at + i]);
      weft_variant_release(*to);
      *to = from;
    }
  }
  return NULL;
}

weft_status_t *weft_tensor_copy(const weft_tensor_t *t, weft_tensor_t **out) {
  weft_tensor_t *copy = NULL;
  weft_status_t *s = weft_tensor_new(t->dtype, &t->shape, weft_memory_account_of(t), &copy);
  if (s == NULL) s = weft_tensor_copy_elements(copy, 0, t, 0, t->count);
  if (s != NULL) {
    weft_tensor_release(copy);
    return s;
  }
  *out = copy;
  return NULL;
}

weft_status_t *weft_tensor_scalar(weft_dtype_t dtype, const void *value, weft_tensor_t **out) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &WEFT_SCALAR, NULL, &t));
  memcpy(t->data, value, t->bytes);
  *out = t;
  return NULL;
}

weft_status_t *weft_tensor_string(weft_str_t text, weft_tensor_t **out) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_STRING, &WEFT_SCALAR, NULL, &t);
  if (s == NULL) s = weft_tensor_set_str(t, 0, text);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  *out = t;
  return NULL;
}

weft_status_t *weft_tensor_set_str(weft_tensor_t *t, int64_t i, weft_str_t text) {
  return weft_tstring_set((weft_tstring_t *)t->data + i, text);
}
