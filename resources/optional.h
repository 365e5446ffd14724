/* resources/optional.h - some tensors or nothing, inside a variant: what a branch that was not taken leaves
 * for its gradient. */
#ifndef WEFT_RESOURCES_OPTIONAL_H_
#define WEFT_RESOURCES_OPTIONAL_H_

#include "tensor/tensor.h"

/* Immutable once it is in a tensor. */
typedef struct weft_optional {
  weft_variant_t variant; /* first */
  int count;              /* 0: it has no value */
  weft_tensor_t *items[]; /* owned references */
} weft_optional_t;

extern const weft_variant_type_t weft_optional_type;

/* With room for `count` items, all NULL. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_optional_create(int count, weft_optional_t **out);

#endif /* WEFT_RESOURCES_OPTIONAL_H_ */
