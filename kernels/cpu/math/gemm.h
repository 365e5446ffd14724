/* kernels/cpu/math/gemm.h - matrix products of every number type.
 *
 * float, half and bfloat16 go to tiles.h on the levels that have its instruction; else float, as double and
 * complex, goes to OpenBLAS, and half and bfloat16 through float. Integers have a plain loop. OpenBLAS is
 * told once to use one thread: a large product is cut into blocks of rows and columns that run on the
 * device's own threads, so that kernels never compete with a second pool.
 */
#ifndef WEFT_KERNELS_CPU_MATH_GEMM_H_
#define WEFT_KERNELS_CPU_MATH_GEMM_H_

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/math/kept.h"

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

/* The same for c[M,N] = op(a)[M,K] . op(b), without accumulation, where b is a whole tensor of rank 2 and
 * dense. Panels of it are kept while b stays the same, if `kept` is not NULL; no bit differs. */
WEFT_MUST_CHECK weft_status_t *weft_gemm_kept(weft_thread_pool_t *pool, weft_dtype_t dtype,
                                              weft_gemm_op_t op_a, weft_gemm_op_t op_b, int64_t m, int64_t n,
                                              int64_t k, const void *a, int64_t lda, weft_tensor_t *b,
                                              void *c, int64_t ldc, weft_kept_t *kept);

/* Where the matrices of product i begin: elements from a, b and c. Pure, and called from several threads. */
typedef void weft_gemm_place_fn(const void *arg, int64_t i, int64_t places[3]);
/* The same for `count` products of one size, each at its own place; no element of c is in two of them. Small
 * products run side by side, large ones one after the other on all threads. */
WEFT_MUST_CHECK weft_status_t *weft_gemm_many(weft_thread_pool_t *pool, weft_dtype_t dtype,
                                              weft_gemm_op_t op_a, weft_gemm_op_t op_b, int64_t m, int64_t n,
                                              int64_t k, const void *a, int64_t lda, const void *b,
                                              int64_t ldb, void *c, int64_t ldc, bool accumulate,
                                              int64_t count, weft_gemm_place_fn *place,
                                              const void *place_arg);

#endif /* WEFT_KERNELS_CPU_MATH_GEMM_H_ */
