/* kernels/cpu/math/batch_product.c - see the header. */
#include "kernels/cpu/math/batch_product.h"

#include "ops/product.h"

weft_status_t *weft_batch_product_plan(weft_gemm_op_t op_a, weft_gemm_op_t op_b, bool broadcasts,
                                       const weft_shape_t *a, const weft_shape_t *b,
                                       weft_batch_product_t *out) {
  const bool ta = op_a != WEFT_GEMM_PLAIN, tb = op_b != WEFT_GEMM_PLAIN;
  *out = (weft_batch_product_t){.op_a = op_a, .op_b = op_b};
  WEFT_RETURN_IF_ERROR(weft_product_shape(broadcasts, ta, tb, a, b, &out->shape));
  const int64_t *ad = &a->dims[a->rank - 2], *bd = &b->dims[b->rank - 2];
  out->m = ad[ta];
  out->k = ad[!ta];
  out->n = bd[!tb];
  out->lda = ad[1];
  out->ldb = bd[1];
  weft_shape_t a_batch = *a, b_batch = *b;
  a_batch.rank -= 2;
  b_batch.rank -= 2;
  const weft_shape_t *batches[2] = {&a_batch, &b_batch};
  (void)weft_broadcast_init(&out->batch, batches, 2); /* they fit: they have a product's shape */
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
