/* tensor/pack.h - a variant that is some tensors: a tensor in a box, a ragged tensor, a sparse matrix in
 * compressed rows.
 *
 * All travel between tasks as TensorFlow encodes them: a name, a few bytes of metadata, and the tensors. What
 * came from elsewhere may be any tensors at all; kernels check what they take out.
 */
#ifndef WEFT_TENSOR_PACK_H_
#define WEFT_TENSOR_PACK_H_

#include "tensor/tensor.h"

/* Immutable once it is in a tensor. */
typedef struct weft_pack {
  weft_variant_t variant; /* first */
  int count;
  weft_tensor_t *items[]; /* owned references; never NULL once it is in a tensor */
} weft_pack_t;

enum { WEFT_PACK_METADATA = 8 }; /* bytes that `metadata` appends */

typedef struct weft_pack_type {
  weft_variant_type_t variant;                                /* first */
  void (*metadata)(const weft_pack_t *p, weft_strbuf_t *out); /* NULL: none */
} weft_pack_type_t;

extern const weft_pack_type_t weft_boxed_type;  /* one tensor */
extern const weft_pack_type_t weft_ragged_type; /* row splits, outermost first, then the values */
/* Dense shape, batch pointers, row pointers, column numbers, values. */
extern const weft_pack_type_t weft_csr_type;

/* With room for `count` items, all NULL. The caller owns one reference. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pack_create(const weft_pack_type_t *type, int count, weft_pack_t **out);
/* The same around items, which are retained. */
WEFT_MUST_CHECK weft_status_t *weft_pack_of(const weft_pack_type_t *type, weft_tensor_t *const *items,
                                            int count, weft_pack_t **out);
/* `v` as a pack of that type, or NULL; lent. `v` may be NULL. */
const weft_pack_t *weft_pack_in(const weft_variant_t *v, const weft_pack_type_t *type);
/* Element i of a variant tensor as such. */
static inline const weft_pack_t *weft_pack_at(const weft_tensor_t *t, int64_t i,
                                              const weft_pack_type_t *type) {
  return weft_pack_in(((weft_variant_t *const *)t->data)[i], type);
}
/* The type of that name, or of that variant; NULL if it is no pack. */
const weft_pack_type_t *weft_pack_type_named(weft_str_t name);
const weft_pack_type_t *weft_pack_type_of(const weft_variant_t *v);
/* A new scalar variant tensor with `p`, whose reference it takes, also on failure. */
WEFT_MUST_CHECK weft_status_t *weft_pack_scalar(weft_pack_t *p, weft_tensor_t **out);

#endif /* WEFT_TENSOR_PACK_H_ */
