/* kernels/cpu/loops/broadcast.h - walks up to three operands that are broadcast against each other.
 *
 * Dimensions that all operands step through alike are merged, so equal shapes are one run, and a scalar, a
 * row or a column operand cost no index arithmetic inside a run.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_BROADCAST_H_
#define WEFT_KERNELS_CPU_LOOPS_BROADCAST_H_

#include "kernels/cpu/loops/common.h"

enum { WEFT_BROADCAST_MAX = 3 };

typedef struct weft_broadcast {
  weft_shape_t shape; /* of the result */
  int64_t count;      /* its elements */
  int num_operands;
  int rank; /* after merging; at least 1 */
  int64_t dims[WEFT_MAX_DIMS];
  int64_t strides[WEFT_BROADCAST_MAX][WEFT_MAX_DIMS]; /* in elements; 0 where the operand repeats */
} weft_broadcast_t;

/* False if the shapes do not fit together (or the result is too large); *out then holds nothing. */
bool weft_broadcast_init(weft_broadcast_t *out, const weft_shape_t *const *shapes, int n);

/* A run of n elements: the result at out_at, operand k at at[k], stepping by step[k] (0 or 1). */
typedef void weft_broadcast_fn(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step);
/* Calls fn for the runs that make up elements [begin, end) of the result, in order. */
void weft_broadcast_walk(const weft_broadcast_t *b, int64_t begin, int64_t end, weft_broadcast_fn *fn,
                         void *arg);
/* The same for the whole result, on several threads where it has more than `grain` elements. */
void weft_broadcast_run(const weft_broadcast_t *b, weft_thread_pool_t *pool, int64_t grain,
                        weft_broadcast_fn *fn, void *arg);

#endif /* WEFT_KERNELS_CPU_LOOPS_BROADCAST_H_ */
