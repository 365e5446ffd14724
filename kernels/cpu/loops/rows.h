/* kernels/cpu/loops/rows.h - ops whose result has, for each row of the operand's last dimension, a row that
 * follows from that one alone: Softmax, LogSoftmax.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_ROWS_H_
#define WEFT_KERNELS_CPU_LOOPS_ROWS_H_

#include <stdint.h>

#include "tensor/dtype.h"

/* y[rows, n] from x[rows, n], n > 0; y may be x. On the calling thread. */
typedef void weft_rows_fn(int64_t rows, int64_t n, const void *x, void *y);

/* The param of such an op's kernel, or what it begins with: loops by dtype. */
typedef struct weft_rows {
  weft_rows_fn *fns[WEFT_DTYPE_COUNT];
} weft_rows_t;

#endif /* WEFT_KERNELS_CPU_LOOPS_ROWS_H_ */
