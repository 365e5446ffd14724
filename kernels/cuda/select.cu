/* kernels/cuda/select.cu - choosing between tensors, clipping, and sums of several tensors. */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/walk.cuh"

namespace weft {

/* Where the condition holds that of `then`, else that of `other`. */
template <class T>
WEFT_FN void select(const uint8_t *condition, const T *then, const T *other, T *y,
                    const weft_cuda_walk_t &w) {
  for (int64_t i = first_index(); i < w.n; i += index_step()) {
    int64_t at[3];
    if (w.is_flat) {
      at[0] = at[1] = at[2] = i;
    } else {
      locate(w, i, at);
    }
    y[i] = condition[at[0]] != 0 ? then[at[1]] : other[at[2]];
  }
}

/* The smaller of x and `high`, then the larger of that and `low`; a NaN in x stays. */
template <class T>
WEFT_FN void clip(const T *x, const T *low, const T *high, T *y, int low_step, int high_step, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const comp_t<T> h = load(high[i * high_step]), l = load(low[i * low_step]);
    comp_t<T> v = load(x[i]);
    v = v > h || h != h ? h : v;
    v = v < l || l != l ? l : v;
    store(&y[i], v);
  }
}

/* The sum of the tensors of the list, from the first on. y may be the first. */
template <class T>
WEFT_FN void add_n(const weft_cuda_list_t &list, T *y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    comp_t<T> sum = load(((const T *)list.at[0])[i]);
    WEFT_UNROLL
    for (int k = 1; k < WEFT_CUDA_LIST; k++) {
      if (k < list.n) sum = wrap_add(sum, load(((const T *)list.at[k])[i]));
    }
    store(&y[i], sum);
  }
}

}  // namespace weft

using namespace weft;

#define SELECT(f, bytes)                                                                                     \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const uint8_t *condition, const sized_##bytes *then,                 \
                                        const sized_##bytes *other, sized_##bytes *y, weft_cuda_walk_t w)) { \
    select(condition, then, other, y, w);                                                                    \
  }
WEFT_CUDA_SIZED(SELECT, select)

#define CLIP(f, type)                                                                             \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, const type *low, const type *high, type *y, \
                                       int32_t low_step, int32_t high_step, int64_t n)) {         \
    clip(x, low, high, y, low_step, high_step, n);                                                \
  }
WEFT_CUDA_FLOAT_INDEX(CLIP, clip)

#define ADD_N(f, type) \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (weft_cuda_list_t list, type * y, int64_t n)) { add_n(list, y, n); }
WEFT_CUDA_FLOAT_I64(ADD_N, add_n)
