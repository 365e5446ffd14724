/* kernels/cuda/coordinates.cu - places of a sparse tensor's elements: as one number each, and in another
 * shape.
 *
 * Coordinates are not checked: one out of range gives some other place, as in the CPU's kernels.
 */
#include "kernels/cuda/coordinates_args.h"

#include "kernels/cuda/kernel.cuh"

namespace weft {

/* The place of element i in row-major order. */
WEFT_FN uint64_t place_of(const int64_t *at, const weft_cuda_coordinates_t &s, int64_t i) {
  uint64_t place = 0;
  for (int d = 0; d < s.from_rank; d++)
    place = place * (uint64_t)s.from[d] + (uint64_t)at[i * s.from_rank + d];
  return place;
}

}  // namespace weft

using namespace weft;

WEFT_CUDA_KERNEL(weft_coordinates_place, (const int64_t *at, uint64_t *places, weft_cuda_coordinates_t s)) {
  for (int64_t i = first_index(); i < s.n; i += index_step()) places[i] = place_of(at, s, i);
}

WEFT_CUDA_KERNEL(weft_coordinates_reshape, (const int64_t *at, int64_t *out, weft_cuda_coordinates_t s)) {
  for (int64_t i = first_index(); i < s.n; i += index_step()) {
    int64_t rest = (int64_t)place_of(at, s, i);
    for (int d = s.to_rank - 1; d > 0; d--) {
      const int64_t q = rest / s.to[d];
      out[i * s.to_rank + d] = rest - q * s.to[d];
      rest = q;
    }
    if (s.to_rank > 0) out[i * s.to_rank] = rest;
  }
}
