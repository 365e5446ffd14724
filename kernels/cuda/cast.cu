/* kernels/cuda/cast.cu - conversions between element types, and tensors of one value or of a sequence.
 *
 * A number that an integer type does not have becomes the nearest one that it has, and NaN 0, as the device's
 * instructions do it; the CPU's kernel gives what its processor gives.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* `cut`: so many of the lowest bits of a float's mantissa become 0 first. */
template <class T>
WEFT_FN T shortened(T v, int cut) {
  if constexpr (sizeof(T) == 4 && number<T>::is_float) {
    return float_of(bits_of(v) & ~((1u << cut) - 1));
  } else if constexpr (sizeof(T) == 8 && number<T>::is_float) {
    return double_of(bits_of(v) & ~(((uint64_t)1 << cut) - 1));
  } else {
    return v;
  }
}

template <class T, class U>
WEFT_FN void cast_to(const T *x, U *y, int cut, int64_t n) {
  const int N = 16 / (sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U));
  int64_t begin = 0;
  if (cut == 0 && is_aligned(x) && is_aligned(y)) {
    const int64_t packs = n / N;
    for (int64_t i = first_index(); i < packs; i += index_step()) {
      const pack<T, N> a = ((const pack<T, N> *)x)[i];
      pack<U, N> b;
      WEFT_UNROLL
      for (int k = 0; k < N; k++) convert(&b.at[k], load(a.at[k]));
      ((pack<U, N> *)y)[i] = b;
    }
    begin = packs * N;
  }
  for (int64_t i = begin + first_index(); i < n; i += index_step())
    convert(&y[i], load(cut > 0 ? shortened(x[i], cut) : x[i]));
}

}  // namespace weft

using namespace weft;

#define TO(f, type)                \
  case WEFT_CUDA_##type:           \
    cast_to(x, (type *)y, cut, n); \
    break;
#define CAST(f, type)                                                                                 \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, void *y, int32_t to, int32_t cut, int64_t n)) { \
    switch (to) { WEFT_CUDA_FLOAT(TO, ) WEFT_CUDA_INT(TO, ) WEFT_CUDA_BOOL(TO, ) }                    \
  }
WEFT_CUDA_EVERY(CAST, cast)

/* Every element is the one at `value`. */
#define FILL(f, bytes)                                                                              \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const sized_##bytes *value, sized_##bytes *y, int64_t n)) { \
    const sized_##bytes v = *value;                                                                 \
    for (int64_t i = first_index(); i < n; i += index_step()) y[i] = v;                             \
  }
WEFT_CUDA_SIZED(FILL, fill)

/* Every element is 1. */
#define ONES(f, type)                                                                        \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (type * y, int64_t n)) {                               \
    for (int64_t i = first_index(); i < n; i += index_step()) store(&y[i], (comp_t<type>)1); \
  }
WEFT_CUDA_REAL_BOOL(ONES, ones)

/* y[i] = start + i * step; the last one is `last`, if it is given. */
#define SEQUENCE(f, type)                                                                       \
  WEFT_CUDA_KERNEL(weft_##f##_##type,                                                           \
                   (type * y, type start, type step, type last, int32_t has_last, int64_t n)) { \
    for (int64_t i = first_index(); i < n; i += index_step())                                   \
      y[i] = has_last != 0 && i == n - 1 ? last : wrap_add(start, wrap_mul((type)i, step));     \
  }
WEFT_CUDA_F32_F64_I64(SEQUENCE, sequence)
