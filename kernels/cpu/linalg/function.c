/* kernels/cpu/linalg/function.c - functions of matrices: exponential, logarithm, square root. */
#include "kernels/cpu/linalg/schur.h"

#define EACH_FILE "kernels/cpu/linalg/function.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

#define COMPLEX_ROW(op_, stem)                                                                  \
  {                                                                                             \
    .op = op_, .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128), \
    .prepare = weft_linalg_prepare, .compute = weft_linalg_compute, .destroy = weft_free,       \
    .param = &(const weft_linalg_t) {                                                           \
      1, weft_linalg_square, { NULL, NULL, stem##_c64, stem##_c128 }                            \
    }                                                                                           \
  }

const weft_kernel_t weft_cpu_function_kernels[] = {
    WEFT_LINALG_ROW("MatrixExponential", WEFT_LINALG_TYPES, 1, weft_linalg_square, exponential_one),
    COMPLEX_ROW("MatrixLogarithm", logarithm_one),
    WEFT_LINALG_ROW("MatrixSquareRoot", WEFT_LINALG_TYPES, 1, weft_linalg_square, square_root_one),
    {0},
};
