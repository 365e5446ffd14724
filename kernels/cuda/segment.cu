/* kernels/cuda/segment.cu - rows folded by segment, in the order of the CPU's kernels where a thread folds
 * them alone. A row of no entries is 0, but 1 for a product. */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/segment_args.h"
#include "kernels/cuda/types.h"

namespace weft {

/* Element k of entry i. */
template <class T>
WEFT_FN comp_t<T> entry_at(const T *x, const weft_cuda_segments_t &s, int64_t i, int64_t k) {
  const int64_t row = s.rows != nullptr ? s.rows[i] : i;
  const comp_t<T> v = load(x[row * s.inner + k]);
  return s.factors != nullptr ? (comp_t<T>)(v * (comp_t<T>)s.factors[i]) : v;
}

template <class T>
WEFT_FN comp_t<T> none_of(const weft_cuda_segments_t &s) {
  return (comp_t<T>)(s.how == WEFT_CUDA_FOLD_MUL ? 1 : 0);
}

template <class C>
WEFT_FN C divided(C v, int32_t divide, int64_t n) {
  if (divide == WEFT_CUDA_UNDIVIDED || n < 2) return v;
  if constexpr (number<C>::is_float) {
    return v / (C)(divide == WEFT_CUDA_BY_ROOT ? sqrt((double)n) : (double)n);
  } else {
    return (C)(v / (C)n);
  }
}

/* A thread for each element. */
template <class T>
WEFT_FN void segment_lines(const T *x, T *y, const weft_cuda_segments_t &s) {
  for (int64_t i = first_index(); i < s.num * s.inner; i += index_step()) {
    const int64_t row = i / s.inner, k = i - row * s.inner, begin = s.starts[row], end = s.starts[row + 1];
    comp_t<T> v = begin < end ? entry_at(x, s, begin, k) : none_of<T>(s);
    for (int64_t e = begin + 1; e < end; e++) {
      v = folded(s.how, v, entry_at(x, s, e, k));
      if (s.rounds != 0) v = rounded<T>(v);
    }
    store(&y[i], divided(v, s.divide, end - begin));
  }
}

/* A block for each element: for few long segments. */
template <class T>
WEFT_FN void segment_blocks(const T *x, T *y, const weft_cuda_segments_t &s) {
  WEFT_CUDA_SHARED(comp_t<T>, parts, WEFT_CUDA_BLOCK);
  const int t = (int)threadIdx.x, threads = (int)blockDim.x;
  for (int64_t i = blockIdx.x; i < s.num * s.inner; i += gridDim.x) {
    const int64_t row = i / s.inner, k = i - row * s.inner, begin = s.starts[row], end = s.starts[row + 1];
    const int64_t n = end - begin < threads ? end - begin : threads; /* threads that have an entry */
    if (t < n) {
      comp_t<T> v = entry_at(x, s, begin + t, k);
      for (int64_t e = begin + t + threads; e < end; e += threads) v = folded(s.how, v, entry_at(x, s, e, k));
      parts[t] = v;
    }
    for (int width = threads / 2; width > 0; width /= 2) {
      __syncthreads();
      if (t < width && t + width < n) parts[t] = folded(s.how, parts[t], parts[t + width]);
    }
    if (t == 0) store(&y[i], n > 0 ? divided(parts[0], s.divide, end - begin) : none_of<T>(s));
    __syncthreads();
  }
}

}  // namespace weft

using namespace weft;

#define SEGMENTS(f, type)                                                                              \
  WEFT_CUDA_KERNEL(weft_##f##_lines_##type, (const type *x, type *y, weft_cuda_segments_t s)) {        \
    segment_lines(x, y, s);                                                                            \
  }                                                                                                    \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_blocks_##type, (const type *x, type *y, weft_cuda_segments_t s)) { \
    segment_blocks(x, y, s);                                                                           \
  }
WEFT_CUDA_FLOAT_INDEX(SEGMENTS, segment)
