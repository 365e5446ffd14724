/* kernels/cpu/random/random_gamma_grad.c - RandomGammaGrad: how a sample of the gamma distribution changes
 * with alpha. */
#define _DEFAULT_SOURCE /* special.h */
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/math/special.h"
#include "kernels/formulas/gamma_slope.h"

#define MAP_STEM random_gamma_grad
#define MAP_EXPR(a, x) \
  weft_gamma_slope((double)(a), (double)(x), sizeof(a) == sizeof(float) ? -87.33654475 : -708.3964185322641)
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"

const weft_kernel_t weft_cpu_random_gamma_grad_kernels[] = {
    WEFT_MAP2("RandomGammaGrad", WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64), random_gamma_grad,
              WEFT_MAP_COSTLY),
    {0},
};
