/* kernels/cpu/linalg/factor.c - Cholesky and its gradient, LU, QR. */
#define EACH_FILE "kernels/cpu/linalg/factor.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

static weft_status_t *cholesky_grad_shapes(weft_linalg_call_t *c) {
  if (c->in[0].rows != c->in[1].rows || c->in[0].cols != c->in[1].cols)
    return WEFT_ERROR(INVALID_ARGUMENT, "Inputs (L and grad) must have the same shape.");
  if (c->in[0].rows != c->in[0].cols)
    return WEFT_ERROR(INVALID_ARGUMENT, "Inputs must be a square matrices.");
  c->out[0] = c->in[0];
  return NULL;
}

static weft_status_t *lu_shapes(weft_linalg_call_t *c) {
  WEFT_RETURN_IF_ERROR(weft_linalg_square(c));
  c->out[1] = (weft_linalg_shape_t){1, c->in[0].rows, 1};
  return NULL;
}

static weft_status_t *qr_shapes(weft_linalg_call_t *c) {
  int64_t m = c->in[0].rows, n = c->in[0].cols, least = m < n ? m : n,
          inner = c->flags->full_matrices ? m : least;
  c->out[0] = (weft_linalg_shape_t){2, m, inner};
  c->out[1] = (weft_linalg_shape_t){2, inner, n};
  return NULL;
}

const weft_kernel_t weft_cpu_factor_kernels[] = {
    WEFT_LINALG_ROW("BatchCholesky", WEFT_LINALG_REAL, 1, weft_linalg_square, cholesky_one),
    WEFT_LINALG_ROW("BatchCholeskyGrad", WEFT_LINALG_REAL, 2, cholesky_grad_shapes, cholesky_grad_one),
    WEFT_LINALG_ROW("Cholesky", WEFT_LINALG_TYPES, 1, weft_linalg_square, cholesky_one),
    WEFT_LINALG_ROW("CholeskyGrad", WEFT_LINALG_REAL, 2, cholesky_grad_shapes, cholesky_grad_one),
    WEFT_LINALG_ROW("Lu", WEFT_LINALG_TYPES, 1, lu_shapes, lu_one),
    WEFT_LINALG_ROW("Qr", WEFT_LINALG_HALF, 1, qr_shapes, qr_one),
    {0},
};
