/* kernels/cpu/combine.h - folds one row into another: what scatters and segments do with rows that meet. */
#ifndef WEFT_KERNELS_CPU_COMBINE_H_
#define WEFT_KERNELS_CPU_COMBINE_H_

#include "kernels/cpu/common.h"

typedef enum weft_combine {
  WEFT_COMBINE_SET,
  WEFT_COMBINE_ADD,
  WEFT_COMBINE_SUB,
  WEFT_COMBINE_MUL,
  WEFT_COMBINE_MAX,
  WEFT_COMBINE_MIN,
  WEFT_COMBINE_COUNT
} weft_combine_t;

/* to[i] = to[i] (+) from[i] for n elements that do not overlap. Integers wrap. */
typedef void weft_combine_fn(int64_t n, const void *from, void *to);
/* NULL where it makes no sense: SET, complex maxima, strings. */
weft_combine_fn *weft_combine_loop(weft_combine_t how, weft_dtype_t dtype);
/* What a fold starts from: 0, 1, the lowest or the highest finite number; into n elements of `to`. */
void weft_combine_identity(weft_combine_t how, weft_dtype_t dtype, int64_t n, void *to);

#endif /* WEFT_KERNELS_CPU_COMBINE_H_ */
