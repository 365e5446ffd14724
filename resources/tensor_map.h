/* resources/tensor_map.h - a map from tensors to tensors inside a variant: TensorMapInsert and its kin. */
#ifndef WEFT_RESOURCES_TENSOR_MAP_H_
#define WEFT_RESOURCES_TENSOR_MAP_H_

#include "tensor/tensor.h"

typedef struct weft_tensor_map_entry {
  uint64_t hash; /* of the key */
  weft_tensor_t *key, *value;
} weft_tensor_map_entry_t;

/* Immutable once it is in a tensor, except for a sole holder. */
typedef struct weft_tensor_map {
  weft_variant_t variant; /* first */
  int64_t count, capacity;
  weft_tensor_map_entry_t *entries; /* in no order; own their tensors */
} weft_tensor_map_t;

extern const weft_variant_type_t weft_tensor_map_type;

/* An empty map; a map of the same entries. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_map_create(weft_tensor_map_t **out);
WEFT_MUST_CHECK weft_status_t *weft_tensor_map_copy(const weft_tensor_map_t *from, weft_tensor_map_t **out);
/* The map in a scalar variant tensor, lent. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_map_of(const weft_tensor_t *t, const weft_tensor_map_t **out);
/* Where the key is: a tensor of the same dtype, shape and bytes; -1: nowhere. */
int64_t weft_tensor_map_find(const weft_tensor_map_t *m, const weft_tensor_t *key);
/* Adds or replaces; both are retained. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_map_put(weft_tensor_map_t *m, weft_tensor_t *key,
                                                   weft_tensor_t *value);
void weft_tensor_map_erase(weft_tensor_map_t *m, int64_t at);

#endif /* WEFT_RESOURCES_TENSOR_MAP_H_ */
