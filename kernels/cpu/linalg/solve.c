/* kernels/cpu/linalg/solve.c - linear equations: by LU, by least squares; inverses and determinants. */
#define EACH_FILE "kernels/cpu/linalg/solve.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

static weft_status_t *solve_shapes(weft_linalg_call_t *c) {
  if (c->in[0].rows != c->in[0].cols)
    return WEFT_ERROR(INVALID_ARGUMENT, "First input (lhs) must be a square matrix.");
  if (c->in[0].rows != c->in[1].rows)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input matrix and rhs are incompatible.");
  c->out[0] = c->in[1];
  return NULL;
}

static weft_status_t *solve_ls_shapes(weft_linalg_call_t *c) {
  if (c->in[0].rows != c->in[1].rows)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input matrix and rhs are incompatible.");
  c->out[0] = (weft_linalg_shape_t){2, c->in[0].cols, c->in[1].cols};
  return NULL;
}

static weft_status_t *determinant_shapes(weft_linalg_call_t *c) {
  return weft_linalg_check_square(c); /* results are scalars */
}

const weft_kernel_t weft_cpu_solve_kernels[] = {
    WEFT_LINALG_ROW("BatchMatrixDeterminant", WEFT_LINALG_TYPES, 1, determinant_shapes, determinant_one),
    WEFT_LINALG_ROW("BatchMatrixInverse", WEFT_LINALG_REAL, 1, weft_linalg_square, inverse_one),
    WEFT_LINALG_ROW("BatchMatrixSolve", WEFT_LINALG_REAL, 2, solve_shapes, solve_one),
    WEFT_LINALG_ROW("BatchMatrixSolveLs", WEFT_LINALG_REAL, 2, solve_ls_shapes, solve_ls_one),
    WEFT_LINALG_ROW("LogMatrixDeterminant", WEFT_LINALG_TYPES, 1, determinant_shapes, log_determinant_one),
    WEFT_LINALG_ROW("MatrixDeterminant", WEFT_LINALG_TYPES, 1, determinant_shapes, determinant_one),
    WEFT_LINALG_ROW("MatrixInverse", WEFT_LINALG_HALF, 1, weft_linalg_square, inverse_one),
    WEFT_LINALG_ROW("MatrixSolve", WEFT_LINALG_TYPES, 2, solve_shapes, solve_one),
    WEFT_LINALG_ROW("MatrixSolveLs", WEFT_LINALG_TYPES, 2, solve_ls_shapes, solve_ls_one),
    {0},
};
