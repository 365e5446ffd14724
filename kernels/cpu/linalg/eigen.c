/* kernels/cpu/linalg/eigen.c - eigenvalues and eigenvectors. */
#define EACH_FILE "kernels/cpu/linalg/eigen.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"
#include "kernels/cpu/linalg/schur.h"

static weft_status_t *eig_shapes(weft_linalg_call_t *c) {
  WEFT_RETURN_IF_ERROR(weft_linalg_check_square(c));
  c->out[0] = (weft_linalg_shape_t){1, c->in[0].rows, 1};
  c->out[1] = c->in[0];
  c->num_out = c->flags->vectors ? 2 : 1;
  return NULL;
}

static weft_status_t *packed_shapes(weft_linalg_call_t *c) {
  c->out[0] = (weft_linalg_shape_t){2, c->in[0].rows + 1, c->in[0].cols};
  return weft_linalg_check_square(c);
}

/* The result has the precision of the matrix. */
#define EIG_ROW(real_, complex_)                                                              \
  {                                                                                           \
    .op = "Eig", .type_attr = "T", .types = WEFT_DTYPE_BIT(real_) | WEFT_DTYPE_BIT(complex_), \
    .type_attr2 = "Tout", .types2 = WEFT_DTYPE_BIT(complex_), .prepare = weft_linalg_prepare, \
    .compute = weft_linalg_compute, .destroy = weft_free, .param = &(const weft_linalg_t) {   \
      1, eig_shapes, WEFT_LINALG_FNS(weft_linalg_eig)                                         \
    }                                                                                         \
  }

const weft_kernel_t weft_cpu_eigen_kernels[] = {
    WEFT_LINALG_ROW("BatchSelfAdjointEig", WEFT_LINALG_REAL, 1, packed_shapes, packed_eig_one),
    WEFT_LINALG_ROW("BatchSelfAdjointEigV2", WEFT_LINALG_REAL, 1, eig_shapes, self_adjoint_eig_one),
    EIG_ROW(WEFT_F32, WEFT_C64),
    EIG_ROW(WEFT_F64, WEFT_C128),
    WEFT_LINALG_ROW("SelfAdjointEig", WEFT_LINALG_REAL, 1, packed_shapes, packed_eig_one),
    WEFT_LINALG_ROW("SelfAdjointEigV2", WEFT_LINALG_TYPES, 1, eig_shapes, self_adjoint_eig_one),
    {0},
};
