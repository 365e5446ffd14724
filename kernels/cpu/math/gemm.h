/* kernels/cpu/math/gemm.h - matrix products of every number type.
 *
 * float, double and complex go to OpenBLAS, half and bfloat16 through float, integers to a plain loop.
 * OpenBLAS is told once to use one thread: a large product is cut into blocks of rows that run on the
 * device's own threads, so that kernels never compete with a second pool.
 */
#ifndef WEFT_KERNELS_CPU_MATH_GEMM_H_
#define WEFT_KERNELS_CPU_MATH_GEMM_H_

#include "kernels/cpu/loops/common.h"

typedef enum weft_gemm_op { WEFT_GEMM_PLAIN, WEFT_GEMM_TRANSPOSED, WEFT_GEMM_ADJOINT } weft_gemm_op_t;

/* c[M,N] = op(a)[M,K] . op(b)[K,N], or added to c if `accumulate`.
 *   lda, ldb, ldc   elements from one row to the next as stored; a stored [M,K] (or [K,M] if transposed)
 * M, N or K may be 0: with K 0, c becomes zeros (unless accumulate). dtype: any number type; with
 * `accumulate` and half or bfloat16 the sum is rounded once more. pool NULL: on the calling thread alone.
 * Errors: RESOURCE_EXHAUSTED, INVALID_ARGUMENT (a dimension beyond what BLAS can count). Thread-safe.
 * Source of the blocked integer loop: order i-k-j, so that both inner streams are contiguous. */
WEFT_MUST_CHECK weft_status_t *weft_gemm(weft_thread_pool_t *pool, weft_dtype_t dtype, weft_gemm_op_t op_a,
                                         weft_gemm_op_t op_b, int64_t m, int64_t n, int64_t k, const void *a,
                                         int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc,
                                         bool accumulate);

/* Keeps OpenBLAS on the calling thread; for code that calls its LAPACK, before the first call. Thread-safe.
 */
void weft_blas_init(void);

#endif /* WEFT_KERNELS_CPU_MATH_GEMM_H_ */
