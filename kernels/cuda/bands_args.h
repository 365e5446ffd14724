/* kernels/cuda/bands_args.h - equations whose matrices have few diagonals. */
#ifndef WEFT_KERNELS_CUDA_BANDS_ARGS_H_
#define WEFT_KERNELS_CUDA_BANDS_ARGS_H_

#include "kernels/cuda/args.h"

/* How a tridiagonal matrix is eliminated. */
enum {
  WEFT_CUDA_NOT_PIVOTED,
  WEFT_CUDA_PIVOTED,  /* neighbouring rows are exchanged where the lower one has the larger element */
  WEFT_CUDA_PERTURBED /* and a pivot that is too small is made larger */
};

/* Matrices [n, n], `batch` of them, given by their diagonals, and right sides [n, m]. */
typedef struct weft_cuda_bands {
  int64_t batch, n, m, bands; /* bands: diagonals of a triangular matrix */
  int32_t pivoting;           /* WEFT_CUDA_NOT_PIVOTED, ... */
  int32_t is_lower, is_adjoint;
} weft_cuda_bands_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_bands_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_BANDS_ARGS_H_ */
