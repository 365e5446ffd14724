/* kernels/cuda/chain.cuh - what the source of a chain's kernel is made of, which chain.c writes. */
#ifndef WEFT_KERNELS_CUDA_CHAIN_CUH_
#define WEFT_KERNELS_CUDA_CHAIN_CUH_

#include "kernels/cuda/binary_functions.cuh"
#include "kernels/cuda/unary_functions.cuh"

namespace weft {

template <class T, class U>
WEFT_FN comp_t<U> converted(comp_t<T> v) {
  U to;
  convert(&to, v);
  return load(to);
}

/* I: uint32_t where n fits, because a division of 64 bits costs many times as much. */
template <class I, int K>
WEFT_FN void locate_in_chain_as(const weft_cuda_chain_t &c, I i, int64_t (&at)[K]) {
  WEFT_UNROLL
  for (int k = 0; k < K; k++) at[k] = 0;
  for (int d = c.rank - 1; d > 0; d--) {
    const I dim = (I)c.dims[d], rest = i / dim, index = i - rest * dim;
    WEFT_UNROLL
    for (int k = 0; k < K; k++) at[k] += (int64_t)index * c.steps[k][d];
    i = rest;
  }
  WEFT_UNROLL
  for (int k = 0; k < K; k++) at[k] += (int64_t)i * c.steps[k][0];
}

/* Where element i of the result's shape lies in each input. */
template <int K>
WEFT_FN void locate_in_chain(const weft_cuda_chain_t &c, int64_t i, int64_t (&at)[K]) {
  if (c.n <= 0x7fffffff) {
    locate_in_chain_as<uint32_t, K>(c, (uint32_t)i, at);
  } else {
    locate_in_chain_as<uint64_t, K>(c, (uint64_t)i, at);
  }
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_CHAIN_CUH_ */
