/* device/cuda/blas.h - products of matrices, by cuBLASLt.
 *
 * The library is opened at the first product: WEFT_CUBLASLT names it, else it is libcublasLt.so.13 or .12, of
 * the loader's path or of /usr/local/cuda. What it chooses for a product of given sizes is kept for each
 * device.
 */
#ifndef WEFT_DEVICE_CUDA_BLAS_H_
#define WEFT_DEVICE_CUDA_BLAS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/device.h"

/* Scratch memory that products of one run have one after the other. {0} at first. */
typedef struct weft_cuda_workspace {
  void *at;
  size_t bytes;
} weft_cuda_workspace_t;

/* out [m, n] = a [m, k] · b [k, n], `batch` times. Elements of a row are neighbours. */
typedef struct weft_cuda_product {
  int dtype; /* TF_HALF, TF_BFLOAT16, TF_FLOAT, TF_DOUBLE, TF_COMPLEX64 or TF_COMPLEX128; the first two are
                summed in float */
  int64_t m, n, k;
  bool transpose_a, transpose_b; /* a lies as [k, m], b as [n, k] */
  bool is_adjoint;               /* of complex numbers: what is transposed is conjugated, too */
  int64_t batch;
  bool same_a, same_b; /* all products have the first a, or b */
  /* Elements from a row to the next as they lie in memory, and from a matrix to the next. 0: rows and
   * matrices lie one behind the other. Matrices may be mixed, but no element is in two of `out`. */
  int64_t a_row, b_row, out_row, a_step, b_step, out_step;
  weft_cuda_workspace_t *workspace; /* NULL: its own */
} weft_cuda_product_t;

/* What becomes of each element of a product. */
typedef enum weft_cuda_epilogue_kind {
  WEFT_CUDA_EPILOGUE_IDENTITY,
  WEFT_CUDA_EPILOGUE_RELU,
  WEFT_CUDA_EPILOGUE_GELU /* by the hyperbolic tangent */
} weft_cuda_epilogue_kind_t;
typedef struct weft_cuda_epilogue {
  weft_cuda_epilogue_kind_t kind;
  const void *bias; /* n elements of the product's type, added to each row before; NULL: none */
} weft_cuda_epilogue_t;

/* Enqueues it on the context's compute queue. m, n, k and batch may be 0. float is multiplied in TF32, as
 * TensorFlow does, unless the variable NVIDIA_TF32_OVERRIDE or WEFT_TF32 is 0. Errors: UNAVAILABLE where
 * there is no cuBLASLt; UNIMPLEMENTED for another type; RESOURCE_EXHAUSTED; INTERNAL, the library's.
 * Thread-safe. */
WEFT_Failure *weft_cuda_multiply(WEFT_KernelContext *c, const weft_cuda_product_t *p, const void *a,
                                 const void *b, void *out);

/* The same, with an epilogue of a product of float, half or bfloat16, which the product computes before it
 * rounds to the type. *out_done: false where the library has no algorithm for that: then only the product is
 * enqueued. */
WEFT_Failure *weft_cuda_multiply_finished(WEFT_KernelContext *c, const weft_cuda_product_t *p,
                                          const weft_cuda_epilogue_t *epilogue, const void *a, const void *b,
                                          void *out, bool *out_done);

#endif /* WEFT_DEVICE_CUDA_BLAS_H_ */
