/* client/tensor.c - TF_Tensor: a box, so that the tensor in it can be exchanged.
 *
 * Bytes are never copied between a box and the runtime: the box holds a reference
 * to the very tensor that a step reads or has made. What the caller wrapped is
 * copied only if it is not aligned as its elements need.
 */
#include "client/tensor.h"

#include "base/alloc.h"
#include "client/buffer.h"
#include "client/status.h"
#include "tensor/shape_proto.h"
#include "tensor/tensor_proto.h"
#include "tensorflow/c/c_api.h"

enum { DEFAULT_ALIGNMENT = 64 };

struct TF_Tensor {
  weft_tensor_t *tensor; /* one reference; for a resource, a vector of bytes */
  size_t length;         /* bytes that the caller gave or asked for; may exceed tensor->bytes */
  bool is_resource;
  weft_shape_t resource_shape;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a tensor"); }

weft_status_t *weft_client_shape(const int64_t *dims, int num_dims, weft_shape_t *out) {
  *out = WEFT_UNKNOWN_SHAPE;
  if (num_dims < 0) return NULL;
  if (num_dims > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a shape of %d dimensions; at most %d are supported", num_dims,
                      WEFT_MAX_DIMS);
  }
  for (int i = 0; i < num_dims; i++) {
    if (dims[i] < -1) return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %lld must be >= -1", (long long)dims[i]);
    out->dims[i] = dims[i];
  }
  out->rank = num_dims;
  return NULL;
}

/* ---- boxes ---- */

static TF_Tensor *box(weft_tensor_t *t) {
  TF_Tensor *b = weft_malloc(sizeof *b);
  if (b == NULL) {
    weft_tensor_release(t);
    return NULL;
  }
  b->tensor = t;
  b->length = t->bytes;
  b->is_resource = false;
  return b;
}

static weft_status_t *resource_bytes(weft_tensor_t *t, weft_tensor_t **out) {
  if (t->shape.rank != 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Unexpected non-scalar DT_RESOURCE tensor seen (shape: %s). Please file a bug at "
        "https://github.com/tensorflow/tensorflow/issues/new, ideally with a short code snippet that "
        "reproduces this error.",
        WEFT_SHAPE_TEXT(&t->shape));
  }
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_handle_to_proto(((weft_handle_t **)t->data)[0], &text);
  weft_status_t *s = text.failed ? no_memory() : NULL;
  const weft_shape_t shape = weft_shape_vector((int64_t)text.length);
  if (s == NULL) s = weft_tensor_new(WEFT_U8, &shape, NULL, out);
  if (s == NULL && text.length > 0) memcpy((*out)->data, text.data, text.length);
  weft_strbuf_deinit(&text);
  return s;
}

weft_status_t *weft_client_tensor_new(weft_tensor_t *t, TF_Tensor **out) {
  bool is_resource = t->dtype == WEFT_RESOURCE;
  if (is_resource) {
    weft_tensor_t *bytes = NULL;
    weft_status_t *s = resource_bytes(t, &bytes);
    weft_tensor_release(t);
    if (s != NULL) return s;
    t = bytes;
  }
  TF_Tensor *b = box(t);
  if (b == NULL) return no_memory();
  b->is_resource = is_resource;
  b->resource_shape = WEFT_SCALAR;
  *out = b;
  return NULL;
}

weft_status_t *weft_client_tensor_get(const TF_Tensor *b, weft_tensor_t **out) {
  if (!b->is_resource) {
    *out = weft_tensor_retain(b->tensor);
    return NULL;
  }
  weft_handle_t *h = NULL;
  weft_tensor_t *t = NULL;
  if (b->resource_shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Malformed TF_RESOURCE tensor: expected a scalar, got a tensor with shape %s",
                      WEFT_SHAPE_TEXT(&b->resource_shape));
  }
  weft_status_t *s = weft_handle_from_proto(weft_str_of(b->tensor->data, b->tensor->bytes), &h);
  if (s != NULL) {
    weft_status_free(s);
    return WEFT_ERROR(INVALID_ARGUMENT, "Malformed TF_RESOURCE tensor: unable to parse resource handle");
  }
  s = weft_tensor_new(WEFT_RESOURCE, &WEFT_SCALAR, NULL, &t);
  if (s != NULL) {
    weft_handle_release(h);
    return s;
  }
  ((weft_handle_t **)t->data)[0] = h;
  *out = t;
  return NULL;
}

/* ---- making ---- */

size_t TF_DataTypeSize(TF_DataType dt) {
  if (dt >= TF_FLOAT8_E5M2 && dt <= TF_UINT4) return 1;
  return weft_dtype_is_plain(dt) && !weft_dtype_is_ref(dt) ? weft_dtype_size(dt) : 0;
}

size_t TF_TensorDefaultAlignment(void) { return DEFAULT_ALIGNMENT; }

static void do_nothing(void *data, size_t bytes, void *arg) {
  (void)data;
  (void)bytes;
  (void)arg;
}

static void free_bytes(void *data, size_t bytes, void *arg) {
  (void)bytes;
  (void)arg;
  weft_free(data);
}

/* Remembers the length that the caller's deallocator must be told. */
typedef struct longer {
  void (*fn)(void *data, size_t len, void *arg);
  void *arg;
  size_t len;
} longer_t;

static void free_longer(void *data, size_t bytes, void *arg) {
  longer_t *l = arg;
  (void)bytes;
  l->fn(data, l->len, l->arg);
  weft_free(l);
}

static bool is_aligned(const void *data, size_t element) {
  size_t alignment = element < 8 ? element : 8; /* the parts of a complex number */
  return alignment == 0 || (uintptr_t)data % alignment == 0;
}

static weft_status_t *wrap(weft_dtype_t dtype, const weft_shape_t *shape, void *data, size_t len,
                           weft_dealloc_fn *fn, void *arg, weft_tensor_t **out) {
  int64_t count = weft_shape_count(shape);
  size_t bytes = 0;
  if (count < 0 || !weft_mul_size((size_t)count, weft_dtype_size(dtype), &bytes) || bytes > len) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%zu bytes are too few for a tensor of shape %s", len,
                      WEFT_SHAPE_TEXT(shape));
  }
  if (bytes == len) return weft_tensor_wrap(dtype, shape, data, bytes, fn, arg, out);
  longer_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return no_memory();
  *l = (longer_t){fn, arg, len};
  weft_status_t *s = weft_tensor_wrap(dtype, shape, data, bytes, free_longer, l, out);
  if (s != NULL) weft_free(l);
  return s;
}

static weft_status_t *copy_in(weft_dtype_t dtype, const weft_shape_t *shape, const void *data, size_t len,
                              weft_tensor_t **out) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, shape, NULL, &t));
  if (t->bytes > len) {
    weft_tensor_release(t);
    return WEFT_ERROR(INVALID_ARGUMENT, "%zu bytes are too few for a tensor of shape %s", len,
                      WEFT_SHAPE_TEXT(shape));
  }
  if (t->bytes > 0) memcpy(t->data, data, t->bytes);
  *out = t;
  return NULL;
}

static TF_Tensor *finish(weft_tensor_t *t, size_t len, bool is_resource, const weft_shape_t *shape) {
  TF_Tensor *b = box(t);
  if (b == NULL) return NULL;
  b->length = len;
  b->is_resource = is_resource;
  b->resource_shape = *shape;
  return b;
}

TF_Tensor *TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims, void *data, size_t len,
                        void (*deallocator)(void *data, size_t len, void *arg), void *deallocator_arg) {
  if (deallocator == NULL) deallocator = do_nothing;
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  bool is_resource = dtype == TF_RESOURCE, is_copied = false;
  weft_dtype_t held = is_resource ? WEFT_U8 : (weft_dtype_t)dtype;
  weft_status_t *s = weft_client_shape(dims, num_dims, &shape);
  const weft_shape_t held_shape = is_resource ? weft_shape_vector((int64_t)len) : shape;
  if (s == NULL && !weft_dtype_is_valid((int)held)) s = WEFT_ERROR(INVALID_ARGUMENT, "no such type");
  if (s == NULL && dtype == TF_VARIANT) s = WEFT_ERROR(INVALID_ARGUMENT, "variants have no bytes");
  if (s == NULL) {
    is_copied = !is_aligned(data, dtype == TF_STRING ? 8 : weft_dtype_size((int)held)) && dtype != TF_STRING;
    s = is_copied ? copy_in(held, &held_shape, data, len, &t)
                  : wrap(held, &held_shape, data, len, deallocator, deallocator_arg, &t);
  }
  if (s != NULL || is_copied) deallocator(data, len, deallocator_arg);
  if (s != NULL) {
    weft_status_free(s); /* the interface has no other answer than NULL */
    return NULL;
  }
  return finish(t, len, is_resource, &shape);
}

TF_Tensor *TF_AllocateTensor(TF_DataType dtype, const int64_t *dims, int num_dims, size_t len) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  bool is_resource = dtype == TF_RESOURCE;
  weft_dtype_t held = is_resource ? WEFT_U8 : (weft_dtype_t)dtype;
  weft_status_t *s = weft_client_shape(dims, num_dims, &shape);
  const weft_shape_t held_shape = is_resource ? weft_shape_vector((int64_t)len) : shape;
  if (s == NULL) s = weft_tensor_new(held, &held_shape, NULL, &t);
  bool is_aligned =
      s != NULL || (uintptr_t)t->data % DEFAULT_ALIGNMENT == 0; /* bytes in the tensor are not */
  if (s == NULL && weft_dtype_is_plain((int)held) && (len != t->bytes || !is_aligned)) {
    bool is_too_small = len < t->bytes;
    weft_tensor_release(t);
    t = NULL;
    void *data = is_too_small ? NULL : weft_aligned_alloc(DEFAULT_ALIGNMENT, len);
    s = data == NULL ? no_memory() : wrap(held, &held_shape, data, len, free_bytes, NULL, &t);
    if (s != NULL) weft_free(data);
  }
  if (s != NULL) {
    weft_status_free(s); /* the interface has no other answer than NULL */
    return NULL;
  }
  return finish(t, len > t->bytes ? len : t->bytes, is_resource, &shape);
}

/* The bytes are the library's own, and nothing else holds them. */
TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor) {
  const weft_tensor_t *t = tensor->tensor;
  bool is_allocated = t->dealloc == free_bytes && atomic_load_explicit(&t->refs, memory_order_acquire) == 1;
  return is_allocated || weft_tensor_is_exclusive(t) ? tensor : NULL;
}

void TF_DeleteTensor(TF_Tensor *t) {
  if (t == NULL) return;
  weft_tensor_release(t->tensor);
  weft_free(t);
}

/* ---- looking ---- */

static const weft_shape_t *shape_of(const TF_Tensor *t) {
  return t->is_resource ? &t->resource_shape : &t->tensor->shape;
}

TF_DataType TF_TensorType(const TF_Tensor *t) {
  return t->is_resource ? TF_RESOURCE : (TF_DataType)t->tensor->dtype;
}
int TF_NumDims(const TF_Tensor *t) { return shape_of(t)->rank; }

int64_t TF_Dim(const TF_Tensor *tensor, int dim_index) {
  const weft_shape_t *s = shape_of(tensor);
  return dim_index < 0 || dim_index >= s->rank ? -1 : s->dims[dim_index];
}

size_t TF_TensorByteSize(const TF_Tensor *t) { return t->length; }
/* Of no bytes, but not NULL: clients make a slice of it, for which NULL is not allowed in Rust. */
void *TF_TensorData(const TF_Tensor *t) {
  static _Alignas(DEFAULT_ALIGNMENT) char nothing[1];
  return t->tensor->data == NULL && t->tensor->bytes == 0 ? nothing : t->tensor->data;
}

int64_t TF_TensorElementCount(const TF_Tensor *tensor) { return weft_shape_count(shape_of(tensor)); }
bool TF_TensorIsAligned(const TF_Tensor *t) { return (uintptr_t)t->tensor->data % DEFAULT_ALIGNMENT == 0; }

/* ---- changing ---- */

static void put(TF_Tensor *b, weft_tensor_t *t) {
  weft_tensor_release(b->tensor);
  b->tensor = t;
  b->length = t->bytes;
  b->is_resource = false;
}

void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims) {
  weft_shape_t shape;
  weft_tensor_t *view = NULL;
  weft_status_t *s = weft_client_shape(dims, num_dims, &shape);
  if (s == NULL && tensor->is_resource) {
    tensor->resource_shape = shape;
  } else if (s == NULL) {
    s = weft_tensor_view(tensor->tensor, tensor->tensor->dtype, &shape, &view);
    if (s == NULL) put(tensor, view);
  }
  weft_status_free(s); /* the C API's function cannot report it: a shape that does not fit changes nothing */
}

static weft_status_t *bitcast(weft_tensor_t *from, int type, const weft_shape_t *shape, weft_tensor_t **out) {
  if (!weft_dtype_is_plain((int)from->dtype))
    return WEFT_ERROR(INVALID_ARGUMENT, "other tensor has zero-sized data type");
  if (!weft_dtype_is_plain(type)) return WEFT_ERROR(INVALID_ARGUMENT, "specified output type is zero-sized");
  int64_t count = weft_shape_count(shape);
  size_t bytes = 0;
  if (count < 0 || !weft_mul_size((size_t)count, weft_dtype_size(type), &bytes) || bytes != from->bytes) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input and output shapes/data type sizes are not compatible");
  }
  return weft_tensor_view(from, (weft_dtype_t)type, shape, out);
}

void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to, const int64_t *new_dims,
                          int num_new_dims, TF_Status *status) {
  weft_shape_t shape;
  weft_tensor_t *view = NULL;
  weft_status_t *s = weft_client_shape(new_dims, num_new_dims, &shape);
  if (s == NULL && from->is_resource)
    s = WEFT_ERROR(INVALID_ARGUMENT, "other tensor has zero-sized data type");
  if (s == NULL) s = bitcast(from->tensor, (int)type, &shape, &view);
  if (weft_client_end(status, s)) put(to, view);
}

void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to, TF_Status *status) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_from_proto(weft_client_bytes(from), &t);
  if (weft_client_end(status, s)) put(to, t);
}
