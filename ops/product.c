/* ops/product.c - see the header. */
#include "ops/product.h"

#include "ops/shape_inference.h"

static weft_status_t *check_ranks(bool broadcasts, const weft_shape_t *a, const weft_shape_t *b) {
  if (!broadcasts) {
    if (a->rank != b->rank) {
      return WEFT_ERROR(INVALID_ARGUMENT, "In[0] and In[1] has different ndims: %s vs. %s",
                        WEFT_SHAPE_TEXT(a), WEFT_SHAPE_TEXT(b));
    }
    for (int d = 0; d < a->rank - 2; d++) {
      if (a->dims[d] == b->dims[d]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT, "In[0].dim(%d) and In[1].dim(%d) must be the same: %s vs %s", d, d,
                        WEFT_SHAPE_TEXT(a), WEFT_SHAPE_TEXT(b));
    }
  }
  if (a->rank < 2) return WEFT_ERROR(INVALID_ARGUMENT, "In[0] ndims must be >= 2: %d", a->rank);
  if (b->rank < 2) return WEFT_ERROR(INVALID_ARGUMENT, "In[1] ndims must be >= 2: %d", b->rank);
  return NULL;
}

weft_status_t *weft_product_shape(bool broadcasts, bool turns_a, bool turns_b, const weft_shape_t *a,
                                  const weft_shape_t *b, weft_shape_t *out) {
  WEFT_RETURN_IF_ERROR(check_ranks(broadcasts, a, b));
  weft_shape_t a_batch = *a, b_batch = *b, shape;
  a_batch.rank -= 2;
  b_batch.rank -= 2;
  weft_status_t *s = weft_shape_broadcast(&a_batch, &b_batch, &shape);
  if (s != NULL) {
    weft_status_free(s);
    return WEFT_ERROR(INVALID_ARGUMENT, "In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                      WEFT_SHAPE_TEXT(a), WEFT_SHAPE_TEXT(b));
  }
  const int64_t *ad = &a->dims[a->rank - 2], *bd = &b->dims[b->rank - 2];
  if (bd[turns_b] != ad[!turns_a]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Matrix size-incompatible: In[0]: %s, In[1]: %s", WEFT_SHAPE_TEXT(a),
                      WEFT_SHAPE_TEXT(b));
  }
  shape.dims[shape.rank++] = ad[turns_a];
  shape.dims[shape.rank++] = bd[!turns_b];
  *out = shape;
  return NULL;
}
