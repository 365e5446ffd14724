/* collectives/reduce.h - the arithmetic of reductions, elementwise over plain memory.
 *
 * f16 and bf16 are computed in float and rounded after each step, so that a result
 * depends only on the order of the steps. Integers wrap. A NaN on either side of min
 * and max gives NaN. All functions are thread-safe and do not allocate.
 */
#ifndef WEFT_COLLECTIVES_REDUCE_H_
#define WEFT_COLLECTIVES_REDUCE_H_

#include "collectives/collectives.h"

/* to[i] = a[i] op b[i] for n elements. `to` may be `a`; `b` does not overlap `to`. All are aligned for their
 * dtype. */
typedef void weft_reduce_fn(void *to, const void *a, const void *b, size_t n);
/* x[i] = x[i] / divisor; integers truncate, as TensorFlow's Div. */
typedef void weft_divide_fn(void *x, int64_t divisor, size_t n);

/* NULL if `dtype` has no such reduction: strings, handles, bool, quantized; min and max of complex. */
weft_reduce_fn *weft_reduce_kernel(weft_reduction_t op, weft_dtype_t dtype);
weft_divide_fn *weft_divide_kernel(weft_dtype_t dtype);
const char *weft_reduction_name(weft_reduction_t op); /* "sum", "prod", "min", "max" */

#endif /* WEFT_COLLECTIVES_REDUCE_H_ */
