/* tensor/handle.h - elements of resource and variant tensors: references to things that are not numbers.
 *
 * A handle names a resource (device, container, name, type) and travels between
 * tasks as that name alone. On its own device it may also hold the object, so
 * that a kernel need not look it up by name on every step.
 */
#ifndef WEFT_TENSOR_HANDLE_H_
#define WEFT_TENSOR_HANDLE_H_

#include <stdatomic.h>

#include "tensor/dtype.h"
#include "tensor/shape.h"

/* What a resource or a variant's payload has in front: a count and a destructor. Thread-safe. */
typedef struct weft_object weft_object_t;
struct weft_object {
  atomic_int refs;
  void (*destroy)(weft_object_t *self); /* called once, when the last reference goes */
};
weft_object_t *weft_object_retain(weft_object_t *o);
void weft_object_release(weft_object_t *o); /* NULL is fine */

/* Immutable once made. Thread-safe. */
typedef struct weft_handle {
  atomic_int refs;
  weft_str_t device, container, name,
      type_name;      /* owned copies; type_name as in ResourceHandleProto.maybe_type_name */
  uint64_t hash_code; /* of the type */
  weft_dtype_t dtype; /* of a variable; WEFT_DTYPE_INVALID if not known */
  weft_shape_t shape;
  weft_object_t
      *object; /* retained; NULL when the handle came from elsewhere or names a thing by name only */
} weft_handle_t;

/* Copies the texts, retains `object` (may be NULL). NULL when there is no memory. */
weft_handle_t *weft_handle_create(weft_str_t device, weft_str_t container, weft_str_t name,
                                  weft_str_t type_name, uint64_t hash_code, weft_object_t *object);
weft_handle_t *weft_handle_retain(weft_handle_t *h);
void weft_handle_release(weft_handle_t *h); /* NULL is fine */

/* A variant: a typed object (a tensor list, an optional, ...). Immutable once produced. */
typedef struct weft_variant weft_variant_t;
typedef struct weft_variant_type {
  const char *name; /* as in VariantTensorDataProto.type_name */
  void (*destroy)(weft_variant_t *self);
} weft_variant_type_t;
struct weft_variant {
  atomic_int refs;
  const weft_variant_type_t *type;
  weft_variant_t *next_dead; /* handle.c's, once the last reference is gone */
};
weft_variant_t *weft_variant_retain(weft_variant_t *v);
/* NULL is fine. A list in a list in a list ..., however deep, is destroyed with a bounded stack. */
void weft_variant_release(weft_variant_t *v);

#endif /* WEFT_TENSOR_HANDLE_H_ */
