/* kernels/cuda/segment.h - rows that are folded out of other rows, by a plan of the host. */
#ifndef WEFT_KERNELS_CUDA_SEGMENT_H_
#define WEFT_KERNELS_CUDA_SEGMENT_H_

#include "kernels/cuda/common.h"
#include "kernels/cuda/segment_args.h"

/* In the host's memory: row r of `num` is made of the entries from starts[r] to starts[r + 1]. */
typedef struct weft_cuda_segment_plan {
  int64_t num, n;
  int64_t *starts; /* owned; num + 1 */
  int64_t *rows;   /* n: of each entry the row of the data; !has_rows: entry i is row i */
  double *factors; /* n, if has_factors, and then has_rows */
  bool has_rows, has_factors;
} weft_cuda_segment_plan_t;

/* All zeros, for `num` rows out of n entries. Failures: RESOURCE_EXHAUSTED. */
WEFT_Failure *weft_cuda_segment_plan_init(weft_cuda_segment_plan_t *p, int64_t num, int64_t n);
void weft_cuda_segment_plan_deinit(weft_cuda_segment_plan_t *p);
/* Sends the plan to the device and folds rows of `inner` elements of x to y [num, inner]. `how`:
 * WEFT_CUDA_FOLD_..., complex numbers are only added; `divide`: WEFT_CUDA_UNDIVIDED, ...; rounds: each step
 * is rounded to the type. A row of no entries is 0, but 1 for a product. */
WEFT_Failure *weft_cuda_segment_plan_run(WEFT_KernelContext *c, const weft_cuda_segment_plan_t *p, int how,
                                         int divide, int dtype, const void *x, void *y, int64_t inner,
                                         bool rounds);

#endif /* WEFT_KERNELS_CUDA_SEGMENT_H_ */
