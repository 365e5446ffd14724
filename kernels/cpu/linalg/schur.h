/* kernels/cpu/linalg/schur.h - Schur decompositions, and eigenvalues of any matrix by them. */
#ifndef WEFT_KERNELS_CPU_LINALG_SCHUR_H_
#define WEFT_KERNELS_CPU_LINALG_SCHUR_H_

#include <complex.h>

#include "kernels/cpu/linalg/linalg.h"

/* t[n, n] becomes upper triangular, but for blocks of 2x2 on the diagonal of a real matrix, one for each pair
 * of complex eigenvalues; u[n, n] orthogonal or unitary: what t was is u t u*. u NULL: not wanted. *converged
 * is false if the QR algorithm gave up, as it does with NaN. Errors: RESOURCE_EXHAUSTED. Source: Golub, Van
 * Loan, "Matrix Computations", 7.5; shifts, signs and phases are Eigen's. */
WEFT_MUST_CHECK weft_status_t *weft_linalg_schur_f32(int64_t n, float *t, float *u, bool *converged);
WEFT_MUST_CHECK weft_status_t *weft_linalg_schur_f64(int64_t n, double *t, double *u, bool *converged);
WEFT_MUST_CHECK weft_status_t *weft_linalg_schur_c64(int64_t n, float complex *t, float complex *u,
                                                     bool *converged);
WEFT_MUST_CHECK weft_status_t *weft_linalg_schur_c128(int64_t n, double complex *t, double complex *u,
                                                      bool *converged);

/* Eigenvalues, and vectors of length 1 if c->flags says so; complex also of real matrices. Those of a complex
 * matrix are sorted by absolute value, those of a real one are as they come. */
weft_linalg_fn weft_linalg_eig_f32, weft_linalg_eig_f64, weft_linalg_eig_c64, weft_linalg_eig_c128;

#endif /* WEFT_KERNELS_CPU_LINALG_SCHUR_H_ */
