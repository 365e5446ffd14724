/* kernels/cuda/bins_args.h - values that are counted in bins. */
#ifndef WEFT_KERNELS_CUDA_BINS_ARGS_H_
#define WEFT_KERNELS_CUDA_BINS_ARGS_H_

#include "kernels/cuda/args.h"

/* n values in rows of `width`, each row with `size` bins of its own. */
typedef struct weft_cuda_bins {
  int64_t n, width, size;
  int32_t value_bytes; /* 4 or 8: int32 or int64 */
  int32_t is_binary;   /* whether a value occurs, not how often */
} weft_cuda_bins_t;

/* `size` bins of equal width from `low` on; of the values' type in its first bytes. */
typedef struct weft_cuda_range {
  uint64_t low;
  double step; /* the width of a bin */
  int64_t size;
} weft_cuda_range_t;

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_bins_t &, F) {}
template <class F>
void weft_visit_pointers(weft_cuda_range_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_BINS_ARGS_H_ */
