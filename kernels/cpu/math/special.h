/* kernels/cpu/math/special.h - kernels/formulas/special.h for files of C. They define _DEFAULT_SOURCE. */
#ifndef WEFT_KERNELS_CPU_MATH_SPECIAL_H_
#define WEFT_KERNELS_CPU_MATH_SPECIAL_H_

#include <math.h>

#define WEFT_FORMULA static inline
WEFT_FORMULA double weft_lgamma(double x) { /* lgamma() writes a global */
  int sign = 0;
  return lgamma_r(x, &sign);
}

#include "kernels/formulas/special.h"

#endif /* WEFT_KERNELS_CPU_MATH_SPECIAL_H_ */
