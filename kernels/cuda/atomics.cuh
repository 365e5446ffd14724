/* kernels/cuda/atomics.cuh - numbers that many threads change. */
#ifndef WEFT_KERNELS_CUDA_ATOMICS_CUH_
#define WEFT_KERNELS_CUDA_ATOMICS_CUH_

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

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_ATOMICS_CUH_ */
