/* kernels/cuda/atomics.cuh - numbers that many threads change. */
#ifndef WEFT_KERNELS_CUDA_ATOMICS_CUH_
#define WEFT_KERNELS_CUDA_ATOMICS_CUH_

#include "kernels/cuda/index_args.h"
#include "kernels/cuda/numbers.cuh"

namespace weft {

WEFT_FN void add_atomically(float *to, float v) { atomicAdd(to, v); }
WEFT_FN void add_atomically(double *to, double v) { atomicAdd(to, v); }
WEFT_FN void add_atomically(int32_t *to, int32_t v) { atomicAdd((unsigned *)to, (unsigned)v); }
WEFT_FN void add_atomically(int64_t *to, int64_t v) {
  atomicAdd((unsigned long long *)to, (unsigned long long)v);
}
template <class T>
WEFT_FN void add_atomically(T *to, float v) { /* of 16 bits */
  unsigned short *bits = (unsigned short *)to, seen = *bits, wanted;
  do {
    wanted = seen;
    T sum = {wanted};
    store(&sum, load(sum) + v);
    seen = atomicCAS(bits, wanted, sum.bits);
  } while (seen != wanted);
}

/* ---- folds ---- */

/* As tensor/update.c: a number divided by 0 is 0 where there is no infinity. */
template <class C>
WEFT_FN C folded(int how, C a, C b) {
  switch (how) {
    case WEFT_CUDA_FOLD_ADD: return wrap_add(a, b);
    case WEFT_CUDA_FOLD_SUB: return wrap_sub(a, b);
    case WEFT_CUDA_FOLD_MUL: return wrap_mul(a, b);
    case WEFT_CUDA_FOLD_MIN: return b < a ? b : a;
    case WEFT_CUDA_FOLD_MAX: return a < b ? b : a;
    default: break;
  }
  if constexpr (number<C>::is_float) {
    return a / b;
  } else {
    return b == 0 ? 0 : b == (C)-1 ? wrap_sub((C)0, a) : (C)(a / b);
  }
}

template <int BYTES>
struct atomic_bits;
template <>
struct atomic_bits<2> {
  typedef unsigned short type;
};
template <>
struct atomic_bits<4> {
  typedef unsigned type;
};
template <>
struct atomic_bits<8> {
  typedef unsigned long long type;
};

template <class T>
WEFT_FN void fold_atomically(T *to, int how, comp_t<T> v) {
  typedef typename atomic_bits<sizeof(T)>::type bits_t;
  bits_t *bits = (bits_t *)to, seen = *bits, before, wanted;
  do {
    T old, result;
    before = seen;
    memcpy(&old, &before, sizeof old);
    store(&result, folded(how, load(old), v));
    memcpy(&wanted, &result, sizeof wanted);
    if (wanted == before) return;
    seen = atomicCAS(bits, before, wanted);
  } while (seen != before);
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_ATOMICS_CUH_ */
