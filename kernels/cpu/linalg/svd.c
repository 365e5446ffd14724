/* kernels/cpu/linalg/svd.c - singular values and vectors.
 *
 * Up to 15 columns by two-sided Jacobi rotations, with Eigen's signs; larger ones by LAPACK's divide and
 * conquer, whose vectors may have other signs than Eigen's.
 */
/* LAPACK (in OpenBLAS): A = U diag(s) VT, by columns. */
void sgesdd_(const char *jobz, const int *m, const int *n, float *a, const int *lda, float *s, float *u,
             const int *ldu, float *vt, const int *ldvt, float *work, const int *lwork, int *iwork,
             int *info);
void dgesdd_(const char *jobz, const int *m, const int *n, double *a, const int *lda, double *s, double *u,
             const int *ldu, double *vt, const int *ldvt, double *work, const int *lwork, int *iwork,
             int *info);
void cgesdd_(const char *jobz, const int *m, const int *n, void *a, const int *lda, float *s, void *u,
             const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, float *rwork,
             int *iwork, int *info);
void zgesdd_(const char *jobz, const int *m, const int *n, void *a, const int *lda, double *s, void *u,
             const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, double *rwork,
             int *iwork, int *info);

#include <limits.h>

#include "kernels/cpu/blas/blas.h"

#define gesdd_f32 sgesdd_
#define gesdd_f64 dgesdd_
#define gesdd_c64 cgesdd_
#define gesdd_c128 zgesdd_
#define EACH_FILE "kernels/cpu/linalg/svd.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

static weft_status_t *svd_shapes(weft_linalg_call_t *c) {
  int64_t m = c->in[0].rows, n = c->in[0].cols, least = m < n ? m : n;
  bool is_full = c->flags->full_matrices;
  c->out[0] = (weft_linalg_shape_t){1, least, 1};
  c->out[1] = (weft_linalg_shape_t){2, m, is_full ? m : least};
  c->out[2] = (weft_linalg_shape_t){2, n, is_full ? n : least};
  c->num_out = c->flags->vectors ? 3 : 1;
  return NULL;
}

const weft_kernel_t weft_cpu_svd_kernels[] = {
    WEFT_LINALG_ROW("BatchSvd", WEFT_LINALG_TYPES, 1, svd_shapes, svd_one),
    WEFT_LINALG_ROW("Svd", WEFT_LINALG_TYPES, 1, svd_shapes, svd_one),
    {0},
};
