/* kernels/cuda/linalg_args.h - batches of matrices, step by step.
 *
 * A factorisation or a solution takes one launch, or two, for each column; all matrices of the batch take
 * that step together. So a launch has work for the whole device both where there are many small matrices and
 * where there is one large matrix, and none waits for another within a launch.
 */
#ifndef WEFT_KERNELS_CUDA_LINALG_ARGS_H_
#define WEFT_KERNELS_CUDA_LINALG_ARGS_H_

#include "kernels/cuda/args.h"

/* Step k over matrices [n, n] or, of right sides, [n, m], `batch` of them one behind the other, by rows. */
typedef struct weft_cuda_matrices {
  int64_t batch, n, m, k;
  int32_t forward;    /* of triangular equations: from the first row on */
  int32_t is_adjoint; /* the matrix is read as its adjoint */
  int32_t is_unit;    /* and has ones on its diagonal, which is not read */
} weft_cuda_matrices_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_matrices_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_LINALG_ARGS_H_ */
