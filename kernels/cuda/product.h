/* kernels/cuda/product.h - products of the matrices of two tensors, batch by batch. */
#ifndef WEFT_KERNELS_CUDA_PRODUCT_H_
#define WEFT_KERNELS_CUDA_PRODUCT_H_

#include "device/cuda/blas.h"
#include "kernels/cuda/common.h"

enum { WEFT_CUDA_PRODUCT_OPERANDS = 3 };

/* The batch dimensions of tensors, lined up at the right and broadcast. */
typedef struct weft_cuda_batches {
  int rank, num_operands;
  int64_t dims[WEFT_CUDA_DIMS]; /* with room for those of a matrix */
  /* Of each operand, in matrices; 0 where it repeats. */
  int64_t steps[WEFT_CUDA_PRODUCT_OPERANDS][WEFT_CUDA_DIMS];
} weft_cuda_batches_t;

/* Of num_operands tensors of rank 2 at least, but for the last two dimensions. False: they do not fit. */
bool weft_cuda_batches_line_up(const WEFT_TensorView *operands, int num_operands, weft_cuda_batches_t *out);

/* The last dimensions that each operand walks in one way, densely or not at all, are one run of matrices:
 * returns where they begin. */
int weft_cuda_batches_run(const weft_cuda_batches_t *b);
/* Where each operand's matrices of run i of the dimensions [0, end) are. */
void weft_cuda_batches_place(const weft_cuda_batches_t *b, int end, int64_t i,
                             int64_t at[WEFT_CUDA_PRODUCT_OPERANDS]);
/* Do the matrices of operand k repeat in the dimensions from `end` on? */
bool weft_cuda_batches_repeat(const weft_cuda_batches_t *b, int end, int k);

/* All products of two operands, whose sizes *p has, in dense memory. *p is changed. Failures: as of
 * weft_cuda_multiply(). */
WEFT_Failure *weft_cuda_multiply_batches(WEFT_KernelContext *c, const weft_cuda_batches_t *b,
                                         weft_cuda_product_t *p, const char *x, const char *y, char *out);

#endif /* WEFT_KERNELS_CUDA_PRODUCT_H_ */
