/* kernels/cuda/collective.cu - collectives between the logical devices of one card: one launch reads the
 * inputs of all ranks and writes all outputs.
 *
 * A block has a piece (blockIdx.y). The order of a reduction is the host's ring, which rounds to the
 * element's type at each step (collectives/algorithms.h): so the bits are the host's.
 */
#include "device/cuda/collective_args.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* The other way round, a NaN of either side would not stay. */
template <class C>
WEFT_FN C combine(int reduction, C x, C acc) {
  switch (reduction) {
    case 0: return wrap_add(x, acc);
    case 1: return wrap_mul(x, acc);
    case 2: return x < acc || x != x ? x : acc;
    default: return x > acc || x != x ? x : acc;
  }
}

template <class T>
WEFT_FN void reduce(const weft_cuda_ranks_t &r) {
  typedef comp_t<T> acc_t;
  const int piece = (int)blockIdx.y, first = (piece + r.shift) % r.n;
  const int64_t begin = r.bounds[piece], end = r.bounds[piece + 1];
  for (int64_t i = begin + first_index(); i < end; i += index_step()) {
    acc_t acc = load(((const T *)r.in[first])[i]);
    for (int j = 1; j < r.n; j++) {
      const int k = first + j < r.n ? first + j : first + j - r.n;
      acc = rounded<T>(combine<acc_t>(r.reduction, load(((const T *)r.in[k])[i]), acc));
    }
    if (r.is_divided) acc = rounded<T>(acc / (acc_t)r.n);
    if (r.shift != 0) {
      store((T *)r.out[piece] + (i - begin), acc);
    } else {
      for (int k = 0; k < r.n; k++) store((T *)r.out[k] + i, acc);
    }
  }
}

template <class W>
WEFT_FN void copy(const char *from, char *to, int64_t bytes) {
  const int64_t words = bytes / (int64_t)sizeof(W);
  for (int64_t i = first_index(); i < words; i += index_step()) ((W *)to)[i] = ((const W *)from)[i];
  const int64_t at = words * (int64_t)sizeof(W) + first_index();
  if (at < bytes) to[at] = from[at]; /* there are more threads than bytes that are left */
}

WEFT_FN void move_bytes(const weft_cuda_moves_t &m) {
  const char *from = (const char *)m.from[blockIdx.y];
  char *to = (char *)m.to[blockIdx.y];
  const uintptr_t both = (uintptr_t)from | (uintptr_t)to;
  if ((both & 15) == 0) {
    copy<sized_16>(from, to, m.bytes[blockIdx.y]);
  } else if ((both & 3) == 0) {
    copy<sized_4>(from, to, m.bytes[blockIdx.y]);
  } else {
    copy<sized_1>(from, to, m.bytes[blockIdx.y]);
  }
}

}  // namespace weft

using namespace weft;

#define COLLECTIVE(f, type) \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (weft_cuda_ranks_t r)) { reduce<type>(r); }
WEFT_CUDA_FLOAT_INDEX(COLLECTIVE, collective_reduce)

WEFT_CUDA_KERNEL(weft_collective_move, (weft_cuda_moves_t m)) { move_bytes(m); }
