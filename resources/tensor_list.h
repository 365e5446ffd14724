/* resources/tensor_list.h - a list of tensors inside a variant: what the loops of second-generation control
 * flow keep. */
#ifndef WEFT_RESOURCES_TENSOR_LIST_H_
#define WEFT_RESOURCES_TENSOR_LIST_H_

#include "tensor/tensor.h"

/* Immutable once it is in a tensor, except for a sole holder. */
typedef struct weft_tensor_list {
  weft_variant_t variant;     /* first */
  weft_dtype_t dtype;         /* of the elements */
  weft_shape_t element_shape; /* may be partly unknown */
  int64_t max_elements;       /* -1: no limit */
  int64_t count, capacity;
  weft_tensor_t **items; /* owned references; NULL: not initialised, zeros */
} weft_tensor_list_t;

extern const weft_variant_type_t weft_tensor_list_type;

/* A list of `count` elements that are not initialised. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_list_create(weft_dtype_t dtype, const weft_shape_t *element_shape,
                                                       int64_t max_elements, int64_t count,
                                                       weft_tensor_list_t **out);
/* The list in a scalar variant tensor, lent. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_list_of(const weft_tensor_t *t, const weft_tensor_list_t **out);

/* Elements that are added are not initialised. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_list_resize(weft_tensor_list_t *l, int64_t count);
/* Another list of the same elements. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_list_copy(const weft_tensor_list_t *from,
                                                     weft_tensor_list_t **out);

#endif /* WEFT_RESOURCES_TENSOR_LIST_H_ */
