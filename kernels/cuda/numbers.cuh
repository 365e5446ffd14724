/* kernels/cuda/numbers.cuh - element types, what is computed in, and arithmetic that wraps.
 *
 * half and bfloat16 are stored as 16 bits and computed in float. Integers compute in themselves; what may
 * wrap goes by way of unsigned numbers.
 */
#ifndef WEFT_KERNELS_CUDA_NUMBERS_CUH_
#define WEFT_KERNELS_CUDA_NUMBERS_CUH_

#ifndef __CUDACC_RTC__ /* NVRTC has these functions built in */
#include <math.h>
#endif

#include "kernels/cuda/kernel.cuh"

namespace weft {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};
struct boolean { /* one byte, 0 or 1 */
  uint8_t bits;
};
typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* Elements that are only moved, by their size in bytes. */
typedef uint8_t sized_1;
typedef uint16_t sized_2;
typedef uint32_t sized_4;
typedef uint64_t sized_8;
struct alignas(16) sized_16 {
  uint64_t halves[2];
};

#ifdef WEFT_CUDA_ON_HOST
WEFT_FN float load(f16 v) { return emulated_half_to_float(v.bits); }
WEFT_FN float load(bf16 v) { return emulated_bfloat16_to_float(v.bits); }
WEFT_FN void store(f16 *to, float v) { to->bits = emulated_float_to_half(v); }
WEFT_FN void store(bf16 *to, float v) { to->bits = emulated_float_to_bfloat16(v); }
WEFT_FN uint32_t bits_of(float v) { return emulated_bits_of(v); }
WEFT_FN float float_of(uint32_t bits) { return emulated_float_of(bits); }
WEFT_FN uint64_t bits_of(double v) { return emulated_bits_of_double(v); }
WEFT_FN double double_of(uint64_t bits) { return emulated_double_of(bits); }
/* A product that is rounded before anything is added to it. */
WEFT_FN float multiplied(float a, float b) { return a * b; }
WEFT_FN double multiplied(double a, double b) { return a * b; }
#else
/* The instructions of compute capability 8.0 and later; no header of the toolkit is needed. */
WEFT_FN float load(f16 v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
}
WEFT_FN void store(f16 *to, float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(v)); }
WEFT_FN float load(bf16 v) { return __uint_as_float((uint32_t)v.bits << 16); }
WEFT_FN void store(bf16 *to, float v) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(v)); }
WEFT_FN uint32_t bits_of(float v) { return __float_as_uint(v); }
WEFT_FN float float_of(uint32_t bits) { return __uint_as_float(bits); }
WEFT_FN uint64_t bits_of(double v) { return (uint64_t)__double_as_longlong(v); }
WEFT_FN double double_of(uint64_t bits) { return __longlong_as_double((long long)bits); }
WEFT_FN float multiplied(float a, float b) { return __fmul_rn(a, b); }
WEFT_FN double multiplied(double a, double b) { return __dmul_rn(a, b); }
#endif
WEFT_FN bool load(boolean v) { return v.bits != 0; }
WEFT_FN void store(boolean *to, bool v) { to->bits = v; }
template <class T>
WEFT_FN T load(T v) {
  return v;
}
template <class T>
WEFT_FN void store(T *to, T v) {
  *to = v;
}

/* What T computes in, and what it is counted as when it wraps. */
template <class T>
struct number {
  typedef T comp;
  static const bool is_float = false;
};
template <>
struct number<f16> {
  typedef float comp;
  static const bool is_float = true;
};
template <>
struct number<bf16> {
  typedef float comp;
  static const bool is_float = true;
};
template <>
struct number<float> {
  typedef float comp;
  static const bool is_float = true;
};
template <>
struct number<double> {
  typedef double comp;
  static const bool is_float = true;
};
template <>
struct number<boolean> {
  typedef bool comp;
  static const bool is_float = false;
};
template <class T>
using comp_t = typename number<T>::comp;

/* v as it is after a round trip through memory: rounded to T. */
template <class T>
WEFT_FN comp_t<T> rounded(comp_t<T> v) {
  T t;
  store(&t, v);
  return load(t);
}

template <class C>
struct is_signed {
  static const bool value = (C)-1 < (C)0;
};
template <class C>
WEFT_FN bool is_negative(C v) {
  if constexpr (is_signed<C>::value) {
    return v < 0;
  } else {
    return false;
  }
}

template <class C>
WEFT_FN C wrap_add(C a, C b) {
  if constexpr (number<C>::is_float) {
    return a + b;
  } else {
    return (C)((uint64_t)a + (uint64_t)b);
  }
}
template <class C>
WEFT_FN C wrap_sub(C a, C b) {
  if constexpr (number<C>::is_float) {
    return a - b;
  } else {
    return (C)((uint64_t)a - (uint64_t)b);
  }
}
template <class C>
WEFT_FN C wrap_mul(C a, C b) {
  if constexpr (number<C>::is_float) {
    return a * b;
  } else {
    return (C)((uint64_t)a * (uint64_t)b);
  }
}

/* v as an element of another type. A number that an integer type does not have becomes the nearest one that it
 * has, and NaN 0, as the device's instructions do it; the CPU's kernel gives what its processor gives. */
template <class T, class C>
WEFT_FN void convert(T *to, C v) {
  store(to, (comp_t<T>)v);
}
template <class C>
WEFT_FN void convert(boolean *to, C v) {
  store(to, v != 0);
}

template <class T>
struct is_half {
  static const bool value = false;
};
template <>
struct is_half<f16> {
  static const bool value = true;
};

/* The least finite number, and the largest. */
template <class T>
WEFT_FN comp_t<T> lowest_of() {
  if constexpr (!number<T>::is_float) {
    return is_signed<T>::value ? (T)((uint64_t)1 << (sizeof(T) * 8 - 1)) : (T)0;
  } else if constexpr (sizeof(T) == 8) {
    return double_of(0xffefffffffffffffu);
  } else if constexpr (sizeof(T) == 4) {
    return float_of(0xff7fffffu);
  } else if constexpr (is_half<T>::value) {
    return -65504.0f;
  } else {
    return float_of(0xff7f0000u);
  }
}
template <class T>
WEFT_FN comp_t<T> highest_of() {
  if constexpr (!number<T>::is_float) {
    return (T)~lowest_of<T>();
  } else {
    return -lowest_of<T>();
  }
}

const double selu_scale = 1.0507009873554805;
const double selu_scale_alpha = 1.7580993408473768; /* scale times alpha, 1.6732632423543772 */

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_NUMBERS_CUH_ */
