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
  weft_broadcast_t batch;
  (void)weft_broadcast_init(&batch, batches, 2); /* they fit: they have a product's shape */
  out->ldc = out->n;
  out->count = batch.count;
  out->rank = batch.rank;
  uint64_t step = (uint64_t)out->m * (uint64_t)out->n; /* wraps only where there are no elements */
  for (int d = batch.rank - 1; d >= 0; d--) {
    out->dims[d] = batch.dims[d];
    out->steps[0][d] = (int64_t)((uint64_t)batch.strides[0][d] * (uint64_t)out->m * (uint64_t)out->k);
    out->steps[1][d] = (int64_t)((uint64_t)batch.strides[1][d] * (uint64_t)out->k * (uint64_t)out->n);
    out->steps[2][d] = (int64_t)step;
    step *= (uint64_t)batch.dims[d];
  }
  return NULL;
}

void weft_batch_product_place(const void *product, int64_t i, int64_t places[3]) {
  const weft_batch_product_t *p = product;
  int64_t rest = i;
  places[0] = places[1] = places[2] = 0;
  for (int d = p->rank - 1; d >= 0; d--) {
    const int64_t index = rest % p->dims[d];
    rest /= p->dims[d];
    for (int k = 0; k < 3; k++) places[k] += index * p->steps[k][d];
  }
}

weft_status_t *weft_batch_product_run(const weft_batch_product_t *p, weft_thread_pool_t *pool,
                                      weft_dtype_t dtype, const void *a, const void *b, void *c) {
  if (p->m == 0 || p->n == 0 || p->count == 0) return NULL;
  return weft_gemm_many(pool, dtype, p->op_a, p->op_b, p->m, p->n, p->k, a, p->lda, b, p->ldb, c, p->ldc,
                        false, p->count, weft_batch_product_place, p);
}
