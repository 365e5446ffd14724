/* tensor/tensor.h - the one tensor type.
 *
 * A tensor is a dtype, a fully known shape and dense row-major bytes. It is
 * reference-counted and immutable once its producer has passed it on; a kernel
 * may write into an input only if weft_tensor_is_exclusive(). Several tensors
 * may share bytes: a view (reshape, slice of the first dimension) keeps the
 * tensor that owns the bytes alive. Small tensors hold their bytes inline.
 *
 * The bytes lie in the host's memory or in a device's (`space`), and may be read once `fence` has passed.
 * Kernels get tensors in the memory that they compute in; all others ask for them with weft_tensor_at()
 * (device/transfer.h).
 */
#ifndef WEFT_TENSOR_TENSOR_H_
#define WEFT_TENSOR_TENSOR_H_

#include <stdatomic.h>

#include "tensor/allocator.h"
#include "tensor/dtype.h"
#include "tensor/handle.h"
#include "tensor/shape.h"
#include "tensor/tstring.h"

typedef struct weft_tensor
    weft_tensor_t; /* Its count is thread-safe; its bytes are while no thread writes. */
typedef void weft_dealloc_fn(void *data, size_t bytes, void *arg);

/* Read the fields freely; change only `data`'s bytes, and only as said above. */
struct weft_tensor {
  atomic_int refs;
  weft_dtype_t dtype;               /* a base type */
  void *data;                       /* NULL only if bytes is 0 */
  size_t bytes;                     /* count * weft_dtype_size(dtype) */
  int64_t count;                    /* number of elements */
  weft_tensor_t *owner;             /* of the bytes, retained; NULL: this one */
  weft_allocator_t *allocator;      /* of the bytes; NULL: inline, a view, or `dealloc` */
  const weft_memory_space_t *space; /* where the bytes lie; NULL: in the host's memory */
  weft_fence_t fence; /* after which they may be read; of a new tensor: after which they may be written */
  weft_dealloc_fn *dealloc; /* for bytes that came from outside; may be NULL */
  void *dealloc_arg;
  weft_shape_t shape;
};

/* A new tensor. Plain bytes are not initialised; strings are empty, handles and variants NULL.
 * `shape` must be fully known. `allocator` NULL is the CPU's. The caller owns one reference.
 * Errors: INVALID_ARGUMENT (shape unknown or too large), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_new(weft_dtype_t dtype, const weft_shape_t *shape,
                                               weft_allocator_t *allocator, weft_tensor_t **out);
/* Wraps bytes that belong to the caller until dealloc(data, bytes, arg) is called. `bytes` must
 * fit the shape. Errors as above; on failure dealloc is not called. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_wrap(weft_dtype_t dtype, const weft_shape_t *shape, void *data,
                                                size_t bytes, weft_dealloc_fn *dealloc, void *arg,
                                                weft_tensor_t **out);
/* Same bytes under another shape and (for plain types of equal total size) dtype. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_view(weft_tensor_t *t, weft_dtype_t dtype,
                                                const weft_shape_t *shape, weft_tensor_t **out);
/* Rows [begin, begin+rows) of the first dimension, sharing bytes. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_slice(weft_tensor_t *t, int64_t begin, int64_t rows,
                                                 weft_tensor_t **out);
/* A deep copy in the same kind of memory (host only). */
WEFT_MUST_CHECK weft_status_t *weft_tensor_copy(const weft_tensor_t *t, weft_tensor_t **out);

weft_tensor_t *weft_tensor_retain(weft_tensor_t *t); /* NULL is fine */
void weft_tensor_release(weft_tensor_t *t);          /* NULL is fine */
/* Is the caller's reference the only way to the tensor's bytes? Then the caller may write them. */
bool weft_tensor_is_exclusive(const weft_tensor_t *t);

/* One element; for tests and small host tensors. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_scalar(weft_dtype_t dtype, const void *value, weft_tensor_t **out);
WEFT_MUST_CHECK weft_status_t *weft_tensor_string(weft_str_t text, weft_tensor_t **out);
static inline weft_str_t weft_tensor_str_at(const weft_tensor_t *t, int64_t i) {
  return weft_tstring_get((const weft_tstring_t *)t->data + i);
}
WEFT_MUST_CHECK weft_status_t *weft_tensor_set_str(weft_tensor_t *t, int64_t i, weft_str_t text);
/* Copies `n` elements, also of strings, handles and variants; dst and src do not overlap. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_copy_elements(weft_tensor_t *dst, int64_t dst_at,
                                                         const weft_tensor_t *src, int64_t src_at, int64_t n);

#endif /* WEFT_TENSOR_TENSOR_H_ */
