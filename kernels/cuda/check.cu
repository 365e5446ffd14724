/* kernels/cuda/check.cu - what a tensor holds that is no finite number. */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* found: NaN, -Inf, +Inf; 0 or 1. All that write one write the same. */
template <class T>
WEFT_FN void check(const T *x, int64_t n, int32_t *found) {
  bool has_nan = false, has_low = false, has_high = false;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const comp_t<T> v = load(x[i]);
    has_nan |= v != v;
    has_low |= v == -INFINITY;
    has_high |= v == INFINITY;
  }
  if (has_nan) found[0] = 1;
  if (has_low) found[1] = 1;
  if (has_high) found[2] = 1;
}

}  // namespace weft

using namespace weft;

#define CHECK(f, type) \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, int64_t n, int32_t *found)) { check(x, n, found); }
WEFT_CUDA_FLOAT(CHECK, check)
