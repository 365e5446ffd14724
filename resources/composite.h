/* resources/composite.h - the tensors that a composite one is made of (a sparse or a ragged tensor, a data
 * set), inside a variant. */
#ifndef WEFT_RESOURCES_COMPOSITE_H_
#define WEFT_RESOURCES_COMPOSITE_H_

#include "tensor/tensor.h"

/* Immutable once it is in a tensor. */
typedef struct weft_composite {
  weft_variant_t variant; /* first */
  int64_t type_class;     /* TypeSpecProto.type_spec_class */
  int count;
  weft_tensor_t *items[]; /* owned references */
} weft_composite_t;

extern const weft_variant_type_t weft_composite_type;

/* With room for `count` items, all NULL. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_composite_create(int64_t type_class, int count, weft_composite_t **out);

#endif /* WEFT_RESOURCES_COMPOSITE_H_ */
