/* resources/sparse_map.h - sparse tensors by number: where batches of them wait between AddSparseToTensorsMap
 * and TakeManySparseFromTensorsMap. */
#ifndef WEFT_RESOURCES_SPARSE_MAP_H_
#define WEFT_RESOURCES_SPARSE_MAP_H_

#include "resources/resource.h"
#include "tensor/tensor.h"

typedef struct weft_sparse_map weft_sparse_map_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_sparse_map_type;

/* The parts of one sparse tensor. */
typedef struct weft_sparse_parts {
  weft_tensor_t *indices, *values, *shape;
} weft_sparse_parts_t;
void weft_sparse_parts_release(weft_sparse_parts_t *p);

WEFT_MUST_CHECK weft_status_t *weft_sparse_map_create(weft_object_t **out);
/* The parts are retained; *out is the number that takes them out again: 0, 1, 2, ...
 * Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_map_add(weft_sparse_map_t *m, const weft_sparse_parts_t *parts,
                                                   int64_t *out);
/* Takes n tensors out, one after another; the caller owns out[0] to out[n - 1]. Errors: INVALID_ARGUMENT: no
 * such number; those before it are gone all the same, and *out owns nothing. */
WEFT_MUST_CHECK weft_status_t *weft_sparse_map_take(weft_sparse_map_t *m, const int64_t *numbers, int64_t n,
                                                    weft_sparse_parts_t *out);

#endif /* WEFT_RESOURCES_SPARSE_MAP_H_ */
