/* kernels/cuda/reduce.cu - reductions: reduce.def.
 *
 * A half and a float are joined in float, a double in double, integers wrap.
 */
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.h"

namespace weft {

template <class C>
WEFT_FN C lowest() {
  if constexpr (number<C>::is_float) {
    return -(C)INFINITY;
  } else {
    return is_signed<C>::value ? (C)((C)1 << (sizeof(C) * 8 - 1)) : (C)0;
  }
}
template <class C>
WEFT_FN C highest() {
  if constexpr (number<C>::is_float) {
    return (C)INFINITY;
  } else {
    return (C)~lowest<C>();
  }
}

/* What a reduction is: what is joined, of which start, from an element and its number, and what is written.
 */
template <class T>
struct plain {
  typedef comp_t<T> acc_t;
  WEFT_FN acc_t value(comp_t<T> v, int64_t) { return v; }
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t, int) { store((T *)y + i, a); }
};
template <class T>
struct Sum : plain<T> {
  typedef comp_t<T> acc_t;
  WEFT_FN acc_t start() { return 0; }
  WEFT_FN acc_t join(acc_t a, acc_t b) { return wrap_add(a, b); }
};
template <class T>
struct Mean : Sum<T> {
  typedef comp_t<T> acc_t;
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t count, int) { store((T *)y + i, a / (acc_t)count); }
};
template <class T>
struct Prod : plain<T> {
  typedef comp_t<T> acc_t;
  WEFT_FN acc_t start() { return 1; }
  WEFT_FN acc_t join(acc_t a, acc_t b) { return wrap_mul(a, b); }
};
template <class T>
struct Max : plain<T> { /* a NaN, once met, stays: nothing compares with it */
  typedef comp_t<T> acc_t;
  WEFT_FN acc_t start() { return lowest<acc_t>(); }
  WEFT_FN acc_t join(acc_t a, acc_t b) { return a < b || b != b ? b : a; }
};
template <class T>
struct Min : plain<T> {
  typedef comp_t<T> acc_t;
  WEFT_FN acc_t start() { return highest<acc_t>(); }
  WEFT_FN acc_t join(acc_t a, acc_t b) { return a > b || b != b ? b : a; }
};
template <class T>
struct All : plain<T> {
  WEFT_FN bool start() { return true; }
  WEFT_FN bool join(bool a, bool b) { return a && b; }
};
template <class T>
struct Any : plain<T> {
  WEFT_FN bool start() { return false; }
  WEFT_FN bool join(bool a, bool b) { return a || b; }
};
template <class T>
struct EuclideanNorm : Sum<T> {
  typedef comp_t<T> acc_t;
  WEFT_FN acc_t value(comp_t<T> v, int64_t) { return v * v; }
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t, int) { store((T *)y + i, sqrt(a)); }
};
template <class T>
struct L2Loss : Sum<T> {
  typedef comp_t<T> acc_t;
  WEFT_FN acc_t value(comp_t<T> v, int64_t) { return v * v; }
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t, int) { store((T *)y + i, a / 2); }
};

/* Where the largest element is; the first among equals. As on the CPU, a NaN is as if it were not there, and
 * so is an element that is not beyond the lowest (for ArgMin: the highest) finite number. Where nothing else
 * is, the answer is 0. */
template <class C>
struct found_at {
  C value;
  int64_t at; /* -1: none */
};
template <class T, bool IS_MAX>
struct arg {
  typedef found_at<comp_t<T>> acc_t;
  WEFT_FN acc_t start() { return acc_t{0, -1}; }
  WEFT_FN acc_t value(comp_t<T> v, int64_t i) {
    return acc_t{v, (IS_MAX ? v > lowest_of<T>() : v < highest_of<T>()) ? i : -1};
  }
  WEFT_FN acc_t join(acc_t a, acc_t b) {
    if (a.at < 0) return b;
    if (b.at < 0) return a;
    if (a.value == b.value) return a.at < b.at ? a : b;
    return (a.value > b.value) == IS_MAX ? a : b;
  }
  WEFT_FN void put(void *y, int64_t i, acc_t a, int64_t, int bytes) {
    const int64_t at = a.at < 0 ? 0 : a.at;
    if (bytes == 8) {
      ((int64_t *)y)[i] = at;
    } else if (bytes == 4) {
      ((int32_t *)y)[i] = (int32_t)at;
    } else {
      ((int16_t *)y)[i] = (int16_t)at;
    }
  }
};
template <class T>
struct ArgMax : arg<T, true> {};
template <class T>
struct ArgMin : arg<T, false> {};

}  // namespace weft

using namespace weft;

#define WEFT_CUDA_REDUCE(name, set) WEFT_CUDA_##set(WEFT_REDUCE_KERNEL, name)
#include "kernels/cuda/reduce.def"
#undef WEFT_CUDA_REDUCE
