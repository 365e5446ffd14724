/* kernels/cuda/walk.cuh - where an element of a weft_cuda_walk_t lies in each tensor. */
#ifndef WEFT_KERNELS_CUDA_WALK_CUH_
#define WEFT_KERNELS_CUDA_WALK_CUH_

#include "kernels/cuda/kernel.cuh"

namespace weft {

/* I: uint32_t where n fits, because a division of 64 bits costs many times as much. */
template <class I, int K>
WEFT_FN void locate_as(const weft_cuda_walk_t &w, I i, int64_t (&at)[K]) {
  for (int k = 0; k < K; k++) at[k] = 0;
  for (int d = w.rank - 1; d > 0; d--) {
    const I dim = (I)w.dims[d], rest = i / dim, index = i - rest * dim;
    WEFT_UNROLL
    for (int k = 0; k < K; k++) at[k] += (int64_t)index * w.steps[k][d];
    i = rest;
  }
  if (w.rank > 0) {
    WEFT_UNROLL
    for (int k = 0; k < K; k++) at[k] += (int64_t)i * w.steps[k][0];
  }
}

template <int K>
WEFT_FN void locate(const weft_cuda_walk_t &w, int64_t i, int64_t (&at)[K]) {
  if (w.n <= 0x7fffffff) {
    locate_as<uint32_t, K>(w, (uint32_t)i, at);
  } else {
    locate_as<uint64_t, K>(w, (uint64_t)i, at);
  }
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_WALK_CUH_ */
