/* kernels/cpu/math/batch_product.c - see the header. */
#include "kernels/cpu/math/batch_product.h"

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

weft_status_t *weft_batch_product_plan(weft_gemm_op_t op_a, weft_gemm_op_t op_b, bool broadcasts,
                                       const weft_shape_t *a, const weft_shape_t *b,
                                       weft_batch_product_t *out) {
  WEFT_RETURN_IF_ERROR(check_ranks(broadcasts, a, b));
  const int64_t *ad = &a->dims[a->rank - 2], *bd = &b->dims[b->rank - 2];
  const bool ta = op_a != WEFT_GEMM_PLAIN, tb = op_b != WEFT_GEMM_PLAIN;
  const int64_t m = ad[ta], k = ad[!ta], n = bd[!tb];
  weft_shape_t a_batch = *a, b_batch = *b;
  a_batch.rank -= 2;
  b_batch.rank -= 2;
  const weft_shape_t *batches[2] = {&a_batch, &b_batch};
  *out =
      (weft_batch_product_t){.op_a = op_a, .op_b = op_b, .m = m, .n = n, .k = k, .lda = ad[1], .ldb = bd[1]};
  if (!weft_broadcast_init(&out->batch, batches, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                      WEFT_SHAPE_TEXT(a), WEFT_SHAPE_TEXT(b));
  }
  if (bd[tb] != k) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Matrix size-incompatible: In[0]: %s, In[1]: %s", WEFT_SHAPE_TEXT(a),
                      WEFT_SHAPE_TEXT(b));
  }
  out->shape = out->batch.shape;
  if (out->shape.rank + 2 > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "too many dimensions");
  out->shape.dims[out->shape.rank++] = m;
  out->shape.dims[out->shape.rank++] = n;
  return NULL;
}

void weft_batch_product_place(const void *product, int64_t i, int64_t places[3]) {
  const weft_batch_product_t *p = product;
  int64_t rest = i;
  places[0] = places[1] = 0;
  for (int d = p->batch.rank - 1; d >= 0; d--) {
    const int64_t index = rest % p->batch.dims[d];
    rest /= p->batch.dims[d];
    places[0] += index * p->batch.strides[0][d];
    places[1] += index * p->batch.strides[1][d];
  }
  places[0] *= p->m * p->k; /* a tensor has so many elements */
  places[1] *= p->k * p->n;
  places[2] = i * p->m * p->n;
}

weft_status_t *weft_batch_product_run(const weft_batch_product_t *p, weft_thread_pool_t *pool,
                                      weft_dtype_t dtype, const void *a, const void *b, void *c) {
  if (p->m == 0 || p->n == 0 || p->batch.count == 0) return NULL;
  return weft_gemm_many(pool, dtype, p->op_a, p->op_b, p->m, p->n, p->k, a, p->lda, b, p->ldb, c, p->n, false,
                        p->batch.count, weft_batch_product_place, p);
}
