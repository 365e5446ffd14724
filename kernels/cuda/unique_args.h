/* kernels/cuda/unique_args.h - rows of a tensor, and the hash table that finds equal ones. */
#ifndef WEFT_KERNELS_CUDA_UNIQUE_ARGS_H_
#define WEFT_KERNELS_CUDA_UNIQUE_ARGS_H_

#include "kernels/cuda/args.h"

/* A tensor [outer, n, inner], whose row i is all of its elements [., i, .]. */
typedef struct weft_cuda_unique {
  int64_t n, outer, inner;
  uint64_t mask; /* slots of the table, a power of two that is at least 2 n, less one */
} weft_cuda_unique_t;

/* Elements that are compared by their bits, by size. */
#define WEFT_CUDA_WORDS(m, f) m(f, u8) m(f, u16) m(f, u32) m(f, u64)

#ifdef __cplusplus
template <class F>
void weft_visit_pointers(weft_cuda_unique_t &, F) {}
#endif

#endif /* WEFT_KERNELS_CUDA_UNIQUE_ARGS_H_ */
