/* kernels/cuda/where.cu - the coordinates of the elements that are not zero, in order.
 *
 * Each piece of the elements is counted, the counts become places, and each piece writes from its place on.
 * Within a piece
 * each thread has a few neighbours, and the threads add up how many elements in front of theirs are not zero.
 */
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/where_args.h"

namespace weft {

template <class T>
WEFT_FN bool is_set(T v) {
  return load(v) != 0;
}
WEFT_FN bool is_set(boolean v) { return v.bits != 0; }
WEFT_FN bool is_set(c64 v) { return !is_zero(v); }
WEFT_FN bool is_set(c128 v) { return !is_zero(v); }

/* Sums of `mine` over the threads up to each one; `shared` has as many elements as the block threads. */
WEFT_FN int32_t sum_up_to(int32_t *shared, int32_t mine) {
  const int t = (int)threadIdx.x;
  shared[t] = mine;
  __syncthreads();
  for (int step = 1; step < (int)blockDim.x; step *= 2) {
    const int32_t before = t >= step ? shared[t - step] : 0;
    __syncthreads();
    shared[t] += before;
    __syncthreads();
  }
  return shared[t];
}

/* A thread's elements of a piece: neighbours. */
enum { EACH = WEFT_CUDA_PIECE / WEFT_CUDA_BLOCK };

struct where_range {
  int64_t begin, end;
};
WEFT_FN where_range range_of(int64_t piece, const weft_cuda_where_t &w) {
  const int64_t begin = piece * WEFT_CUDA_PIECE + (int64_t)threadIdx.x * EACH;
  return where_range{begin, begin + EACH < w.n ? begin + EACH : w.n};
}

template <class T>
WEFT_FN int32_t num_set(const T *x, where_range r) {
  int32_t n = 0;
  for (int64_t i = r.begin; i < r.end; i++) n += is_set(x[i]) ? 1 : 0;
  return n;
}

template <class T>
WEFT_FN void count_set(const T *x, int64_t *counts, const weft_cuda_where_t &w) {
  WEFT_CUDA_SHARED(int32_t, shared, WEFT_CUDA_BLOCK);
  for (int64_t piece = blockIdx.x; piece < w.num_pieces; piece += gridDim.x) {
    const int32_t all = sum_up_to(shared, num_set(x, range_of(piece, w)));
    if (threadIdx.x + 1 == blockDim.x) counts[piece] = all;
    __syncthreads();
  }
}

template <class T>
WEFT_FN void write_set(const T *x, const int64_t *places, int64_t *y, const weft_cuda_where_t &w) {
  WEFT_CUDA_SHARED(int32_t, shared, WEFT_CUDA_BLOCK);
  for (int64_t piece = blockIdx.x; piece < w.num_pieces; piece += gridDim.x) {
    const where_range r = range_of(piece, w);
    const int32_t mine = num_set(x, r);
    int64_t *to = y + (places[piece] + sum_up_to(shared, mine) - mine) * w.rank;
    for (int64_t i = r.begin; i < r.end && mine > 0; i++) {
      if (!is_set(x[i])) continue;
      int64_t rest = i;
      for (int d = w.rank - 1; d > 0; d--) {
        const int64_t q = rest / w.dims[d];
        to[d] = rest - q * w.dims[d];
        rest = q;
      }
      to[0] = rest;
      to += w.rank;
    }
    __syncthreads();
  }
}

}  // namespace weft

using namespace weft;

/* Each count becomes the sum of those in front of it; the last place gets all of them. One block. */
WEFT_CUDA_BLOCK_KERNEL(weft_where_places, (int64_t * counts, int64_t n)) {
  WEFT_CUDA_SHARED(int64_t, sums, WEFT_CUDA_BLOCK);
  const int64_t each = (n + blockDim.x - 1) / blockDim.x, begin = each * threadIdx.x,
                end = begin + each < n ? begin + each : n;
  int64_t sum = 0;
  for (int64_t i = begin; i < end; i++) sum += counts[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    int64_t before = 0;
    for (unsigned t = 0; t < blockDim.x; t++) {
      const int64_t here = sums[t];
      sums[t] = before;
      before += here;
    }
    counts[n] = before;
  }
  __syncthreads();
  int64_t place = sums[threadIdx.x];
  for (int64_t i = begin; i < end; i++) {
    const int64_t here = counts[i];
    counts[i] = place;
    place += here;
  }
}

#define WHERE(f, type)                                                                                     \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_count_##type, (const type *x, int64_t *counts, weft_cuda_where_t w)) { \
    count_set(x, counts, w);                                                                               \
  }                                                                                                        \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_write_##type,                                                          \
                         (const type *x, const int64_t *places, int64_t *y, weft_cuda_where_t w)) {        \
    write_set(x, places, y, w);                                                                            \
  }
WEFT_CUDA_REAL_BOOL(WHERE, where)
WEFT_CUDA_COMPLEX(WHERE, where)
