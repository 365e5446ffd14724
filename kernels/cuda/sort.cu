/* kernels/cuda/sort.cu - a bitonic sorting network (Batcher, "Sorting networks and their applications", 1968)
 * over pairs of a key and a number. The numbers are all different, so that the network's order is the only
 * one.
 *
 * Runs of `run` elements are sorted, in turns up and down, by comparisons over distances of run / 2, run / 4,
 * ...,
 * 1. Those over less than a block's elements are made in shared memory.
 */
#include "kernels/cuda/sort_args.h"

#include "kernels/cuda/kernel.cuh"

namespace weft {

/* Element i of a sequence is compared with the one `distance` behind it; i is the pair-th that has one. */
WEFT_FN int64_t first_of(int64_t pair, int64_t distance) { return 2 * pair - (pair & (distance - 1)); }

WEFT_FN void compare(uint64_t *keys, int64_t *order, int64_t a, int64_t b, bool is_up) {
  const bool is_above = keys[a] > keys[b] || (keys[a] == keys[b] && order[a] > order[b]);
  if (is_above != is_up) return;
  const uint64_t key = keys[a];
  const int64_t number = order[a];
  keys[a] = keys[b];
  order[a] = order[b];
  keys[b] = key;
  order[b] = number;
}

}  // namespace weft

using namespace weft;

/* What is behind the n keys sorts behind them. */
WEFT_CUDA_KERNEL(weft_sort_start, (uint64_t * keys, int64_t *order, int64_t n, int64_t room)) {
  for (int64_t i = first_index(); i < room; i += index_step()) {
    order[i] = i;
    if (i >= n) keys[i] = ~(uint64_t)0;
  }
}

/* One step of the network. */
WEFT_CUDA_KERNEL(weft_sort_far,
                 (uint64_t * keys, int64_t *order, int64_t room, int64_t run, int64_t distance)) {
  for (int64_t pair = first_index(); pair < room / 2; pair += index_step()) {
    const int64_t i = first_of(pair, distance);
    compare(keys, order, i, i + distance, (i & run) == 0);
  }
}

/* The steps of all runs from first_run to last_run over distances within the elements of a block, which are
 * WEFT_CUDA_SORTED; `room` is a multiple of that. */
WEFT_CUDA_BLOCK_KERNEL(weft_sort_near,
                       (uint64_t * keys, int64_t *order, int64_t room, int64_t first_run, int64_t last_run)) {
  WEFT_CUDA_SHARED(uint64_t, near_keys, WEFT_CUDA_SORTED);
  WEFT_CUDA_SHARED(int64_t, near_order, WEFT_CUDA_SORTED);
  const int t = (int)threadIdx.x;
  for (int64_t begin = (int64_t)blockIdx.x * WEFT_CUDA_SORTED; begin < room;
       begin += (int64_t)gridDim.x * WEFT_CUDA_SORTED) {
    for (int i = t; i < WEFT_CUDA_SORTED; i += WEFT_CUDA_BLOCK) {
      near_keys[i] = keys[begin + i];
      near_order[i] = order[begin + i];
    }
    for (int64_t run = first_run; run <= last_run; run *= 2) {
      int64_t distance = run < WEFT_CUDA_SORTED ? run / 2 : (int64_t)WEFT_CUDA_BLOCK;
      for (; distance > 0; distance /= 2) {
        __syncthreads();
        const int64_t i = first_of(t, distance);
        compare(near_keys, near_order, i, i + distance, ((begin + i) & run) == 0);
      }
    }
    __syncthreads();
    for (int i = t; i < WEFT_CUDA_SORTED; i += WEFT_CUDA_BLOCK) {
      keys[begin + i] = near_keys[i];
      order[begin + i] = near_order[i];
    }
    __syncthreads();
  }
}
