/* kernels/cpu/linalg/tridiagonal.c - tridiagonal equations and products. */
#define EACH_FILE "kernels/cpu/linalg/tridiagonal.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

static weft_status_t *solve_shapes(weft_linalg_call_t *c) {
  if (c->flags->perturb_singular && !c->flags->partial_pivoting)
    return WEFT_ERROR(INVALID_ARGUMENT, "Setting perturb_singular requires also setting partial_pivoting.");
  if (c->in[0].rows != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected diagonals to be provided as a matrix with 3 rows, got %lld rows.",
                      (long long)c->in[0].rows);
  }
  if (c->in[0].cols != c->in[1].rows) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected the same number of left-hand sides and right-hand sides, got %lld and %lld.",
                      (long long)c->in[0].cols, (long long)c->in[1].rows);
  }
  c->out[0] = c->in[1];
  return NULL;
}

static weft_status_t *product_shapes(weft_linalg_call_t *c) {
  static const char *const names[3] = {"superdiagonal", "main diagonal", "subdiagonal"};
  for (int i = 0; i < 3; i++) {
    if (c->in[i].rows != 1 || c->in[i].cols != c->in[3].rows)
      return WEFT_ERROR(INVALID_ARGUMENT, "Invalid %s shape.", names[i]);
  }
  c->out[0] = c->in[3];
  return NULL;
}

const weft_kernel_t weft_cpu_tridiagonal_kernels[] = {
    WEFT_LINALG_ROW("TridiagonalMatMul", WEFT_LINALG_TYPES, 4, product_shapes, tridiagonal_product_one),
    WEFT_LINALG_ROW("TridiagonalSolve", WEFT_LINALG_TYPES, 2, solve_shapes, tridiagonal_solve_one),
    {0},
};
