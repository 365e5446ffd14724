/* kernels/cpu/loops/cast.h - conversion between element types, for the Cast op and for kernels that compute
 * in another type. */
#ifndef WEFT_KERNELS_CPU_LOOPS_CAST_H_
#define WEFT_KERNELS_CPU_LOOPS_CAST_H_

#include "kernels/cpu/loops/common.h"

#define WEFT_SET_QUANTIZED                                                                  \
  (WEFT_DTYPE_BIT(WEFT_QINT8) | WEFT_DTYPE_BIT(WEFT_QUINT8) | WEFT_DTYPE_BIT(WEFT_QINT16) | \
   WEFT_DTYPE_BIT(WEFT_QUINT16) | WEFT_DTYPE_BIT(WEFT_QINT32))

/* The integers of a quantised type; all other types are themselves. */
weft_dtype_t weft_cpu_stored_as(weft_dtype_t dtype);

/* y[i] = x[i] for n elements; x and y do not overlap. */
typedef void weft_cpu_cast_fn(int64_t n, const void *x, void *y);
/* NULL unless both are numbers or bool; quantised ones are their integers. */
weft_cpu_cast_fn *weft_cpu_cast_loop(weft_dtype_t from, weft_dtype_t to);
/* A new tensor of the same shape; the caller owns it. Uses several threads where large.
 * Errors: UNIMPLEMENTED, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_cast(weft_kernel_ctx_t *ctx, const weft_tensor_t *x, weft_dtype_t to,
                                             weft_tensor_t **out);

#endif /* WEFT_KERNELS_CPU_LOOPS_CAST_H_ */
