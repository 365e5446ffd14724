/* kernels/cuda/bins.cu - which bin a value falls into, and how many fall into each: Bucketize, Bincount,
 * DenseBincount, HistogramFixedWidth.
 *
 * Bins are added to by atomic operations, so that sums of weights that are floating-point numbers come in any
 * order. `found` is set to 1 where a value is refused; all that write it write the same.
 */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/bins_args.h"
#include "kernels/cuda/types.h"

namespace weft {

/* What numbers are compared as with boundaries: integers as float, as on the CPU. */
template <class T>
struct compared {
  typedef float type;
};
template <>
struct compared<double> {
  typedef double type;
};

/* The first boundary above an element, by bisection: a NaN is above all of them. */
template <class T>
WEFT_FN void bucketize(const T *x, int32_t *y, int64_t count, const float *bounds, int64_t num) {
  typedef typename compared<T>::type C;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const C v = (C)x[i];
    int64_t low = 0;
    for (int64_t n = num; n > 0;) {
      const int64_t half = n / 2;
      const bool is_above = v < (C)bounds[low + half];
      low = is_above ? low : low + half + 1;
      n = is_above ? half : n - half - 1;
    }
    y[i] = (int32_t)low;
  }
}

template <class T>
WEFT_FN void count(const void *values, const T *weights, T *bins, const weft_cuda_bins_t &b, int32_t *found) {
  for (int64_t i = first_index(); i < b.n; i += index_step()) {
    const int64_t v = b.value_bytes == 4 ? ((const int32_t *)values)[i] : ((const int64_t *)values)[i];
    if (v < 0) *found = 1;
    if (v < 0 || v >= b.size) continue;
    T *bin = &bins[i / b.width * b.size + v];
    if (b.is_binary != 0) {
      *bin = (T)1;
    } else {
      add_atomically(bin, weights != nullptr ? weights[i] : (T)1);
    }
  }
}

/* How far v is above low, in the type's own arithmetic. */
template <class T>
WEFT_FN double distance(T v, T low) {
  if constexpr (number<T>::is_float) {
    return (double)(v - low);
  } else {
    return (double)((uint64_t)(int64_t)v - (uint64_t)(int64_t)low);
  }
}

/* What lies outside of the range is counted in the outermost bins. */
template <class T, class I>
WEFT_FN void count_range(const T *x, int64_t n, I *bins, const weft_cuda_range_t &r, int32_t *found) {
  T low;
  memcpy(&low, &r.low, sizeof low);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    if constexpr (number<T>::is_float) {
      if (x[i] != x[i]) {
        *found = 1;
        continue;
      }
    }
    const double last = (double)(r.size - 1), at = x[i] > low ? distance(x[i], low) / r.step : 0;
    add_atomically(&bins[at >= last ? r.size - 1 : at > 0 ? (int64_t)at : 0], (I)1);
  }
}

}  // namespace weft

using namespace weft;

#define BUCKETIZE(f, type)                                                                     \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                          \
                   (const type *x, int32_t *y, int64_t n, const float *bounds, int64_t num)) { \
    bucketize(x, y, n, bounds, num);                                                           \
  }
WEFT_CUDA_F32_F64(BUCKETIZE, bucketize)
WEFT_CUDA_INDEX(BUCKETIZE, bucketize)
#define BINCOUNT(f, type)                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const void *values, const type *weights, type *bins, \
                                       weft_cuda_bins_t b, int32_t *found)) {               \
    count(values, weights, bins, b, found);                                                 \
  }
#define HISTOGRAM(f, type)                                                                           \
  WEFT_CUDA_KERNEL(weft_##f##_i32_##type,                                                            \
                   (const type *x, int64_t n, int32_t *bins, weft_cuda_range_t r, int32_t *found)) { \
    count_range(x, n, bins, r, found);                                                               \
  }                                                                                                  \
  WEFT_CUDA_KERNEL(weft_##f##_i64_##type,                                                            \
                   (const type *x, int64_t n, int64_t *bins, weft_cuda_range_t r, int32_t *found)) { \
    count_range(x, n, bins, r, found);                                                               \
  }
WEFT_CUDA_F32_F64(BINCOUNT, bincount)
WEFT_CUDA_INDEX(BINCOUNT, bincount)
WEFT_CUDA_F32_F64(HISTOGRAM, histogram)
WEFT_CUDA_INDEX(HISTOGRAM, histogram)
