/* kernels/cuda/segment_args.h - which rows of a tensor each row of another one is made of. */
#ifndef WEFT_KERNELS_CUDA_SEGMENT_ARGS_H_
#define WEFT_KERNELS_CUDA_SEGMENT_ARGS_H_

#include "kernels/cuda/index_args.h"

enum { WEFT_CUDA_UNDIVIDED, WEFT_CUDA_BY_COUNT, WEFT_CUDA_BY_ROOT };

/* Row r of `num` is folded out of the entries from starts[r] to starts[r + 1], in their order. */
typedef struct weft_cuda_segments {
  const int64_t *starts; /* num + 1 */
  const int64_t *rows;   /* of each entry the row of the data; NULL: entry i is row i */
  const double *factors; /* of each entry; NULL: 1 */
  int64_t num, inner;    /* inner: elements of a row */
  int32_t how;           /* WEFT_CUDA_FOLD_... */
  int32_t divide;        /* by the number of entries, or its square root */
  int32_t rounds;        /* each step is rounded to the type */
} weft_cuda_segments_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_segments_t &s, F f) {
  f(s.starts);
  f(s.rows);
  f(s.factors);
}
#endif

#endif /* WEFT_KERNELS_CUDA_SEGMENT_ARGS_H_ */
