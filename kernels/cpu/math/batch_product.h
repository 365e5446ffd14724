/* kernels/cpu/math/batch_product.h - products of the matrices of two tensors: what BatchMatMul computes, and
 * Einsum, where it needs no copy of an operand (einsum.h).
 */
#ifndef WEFT_KERNELS_CPU_MATH_BATCH_PRODUCT_H_
#define WEFT_KERNELS_CPU_MATH_BATCH_PRODUCT_H_

#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/math/gemm.h"

/* c[B..., M, N] = op(a)[B..., M, K] . op(b)[B..., K, N]. */
typedef struct weft_batch_product {
  weft_gemm_op_t op_a, op_b;
  int64_t m, n, k, lda, ldb, ldc; /* of each product; ld: elements from one stored row to the next */
  int64_t count;                  /* of products */
  int rank;                       /* of the batch */
  int64_t dims[WEFT_MAX_DIMS], steps[3][WEFT_MAX_DIMS]; /* of the batch; steps: elements of a, b and c */
  weft_shape_t shape;                                   /* of c */
} weft_batch_product_t;

/* The products of tensors of these shapes. `broadcasts`: the batch dimensions need not be equal, as of
 * BatchMatMulV2. Errors: INVALID_ARGUMENT in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_batch_product_plan(weft_gemm_op_t op_a, weft_gemm_op_t op_b,
                                                       bool broadcasts, const weft_shape_t *a,
                                                       const weft_shape_t *b, weft_batch_product_t *out);
/* Where the matrices of product i begin: elements from a, b and c. A weft_gemm_place_fn. */
void weft_batch_product_place(const void *product, int64_t i, int64_t places[3]);
/* All of them. pool and errors as weft_gemm_many's. */
WEFT_MUST_CHECK weft_status_t *weft_batch_product_run(const weft_batch_product_t *p, weft_thread_pool_t *pool,
                                                      weft_dtype_t dtype, const void *a, const void *b,
                                                      void *c);

#endif /* WEFT_KERNELS_CPU_MATH_BATCH_PRODUCT_H_ */
