/* kernels/cpu/math/sum.h - the sum of several operands, element by element: AddN. */
#ifndef WEFT_KERNELS_CPU_MATH_SUM_H_
#define WEFT_KERNELS_CPU_MATH_SUM_H_

#include <stdint.h>

#include "tensor/dtype.h"

/* As many operands as a caller that has them one by one should give at once: the sum of further ones begins
 * with y. */
enum { WEFT_SUM_AT_ONCE = 32 };

/* y[i] = x[0][i] + x[1][i] + ... for n elements of `num` >= 1 operands, in that order; each partial sum is
 * rounded to the element type, integers wrap. y may be one of the operands. */
typedef void weft_sum_fn(int64_t n, int num, const void *const *x, void *y);

/* NULL unless the type is one of numbers. */
weft_sum_fn *weft_sum_of(weft_dtype_t dtype);

#endif /* WEFT_KERNELS_CPU_MATH_SUM_H_ */
