/* kernels/cuda/chain.cuh - what the source of a chain's kernel is made of, which chain.c writes. */
#ifndef WEFT_KERNELS_CUDA_CHAIN_CUH_
#define WEFT_KERNELS_CUDA_CHAIN_CUH_

#include "kernels/cuda/binary_functions.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/unary_functions.cuh"

namespace weft {

template <class T, class U>
WEFT_FN comp_t<U> converted(comp_t<T> v) {
  U to;
  convert(&to, v);
  return load(to);
}

/* I: uint32_t where units fit, because a division of 64 bits costs many times as much. */
template <class I, int K>
WEFT_FN void locate_in_chain_as(const weft_cuda_chain_t &c, I i, int64_t (&at)[K]) {
  WEFT_UNROLL
  for (int k = 0; k < K; k++) at[k] = c.starts[k];
  for (int d = c.rank - 1; d > 0; d--) {
    const I dim = (I)c.dims[d], rest = i / dim, index = i - rest * dim;
    WEFT_UNROLL
    for (int k = 0; k < K; k++) at[k] += (int64_t)index * c.steps[k][d];
    i = rest;
  }
  WEFT_UNROLL
  for (int k = 0; k < K; k++) at[k] += (int64_t)i * c.steps[k][0];
}

/* Where unit i of the n lies in each input. */
template <int K>
WEFT_FN void locate_in_chain(const weft_cuda_chain_t &c, int64_t i, int64_t (&at)[K]) {
  if (c.first + c.n <= 0x7fffffff) {
    locate_in_chain_as<uint32_t, K>(c, (uint32_t)(c.first + i), at);
  } else {
    locate_in_chain_as<uint64_t, K>(c, (uint64_t)(c.first + i), at);
  }
}

/* The row that link `link` computes with, at its operand v. */
template <class C>
WEFT_FN softmax_row<C> row_at(const weft_cuda_chain_t &c, int link, C v, const softmax_row<C> &r) {
  return (c.singles >> link & 1) != 0 ? softmax_row_of(v) : r;
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_CHAIN_CUH_ */
