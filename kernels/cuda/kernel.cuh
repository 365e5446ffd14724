/* kernels/cuda/kernel.cuh - what the source of a kernel is written with.
 *
 * A source is compiled twice: by nvcc for the device, and by a C++ compiler for the host, where
 * tests/cuda/emulator runs it. There, the emulator's header comes first: it defines WEFT_CUDA_ON_HOST and
 * CUDA's own names (threadIdx, __syncthreads, ...).
 *
 *   WEFT_CUDA_KERNEL(name, (const float *x, float *y, int64_t n)) { ... }
 *       Threads that do not wait for each other.
 *   WEFT_CUDA_BLOCK_KERNEL(name, (...)) { ... }
 *       Threads that do: __syncthreads, shuffles, shared memory.
 * Parameters are numbers, pointers to device memory, and structs with an overload of weft_visit_pointers()
 * (kernels/cuda/args.h). Blocks have at most WEFT_CUDA_BLOCK threads.
 */
#ifndef WEFT_KERNELS_CUDA_KERNEL_CUH_
#define WEFT_KERNELS_CUDA_KERNEL_CUH_

#include "kernels/cuda/args.h"

#ifndef WEFT_CUDA_ON_HOST
#define WEFT_CUDA_KERNEL(name, parameters) \
  extern "C" __global__ void __launch_bounds__(WEFT_CUDA_BLOCK) name parameters
#define WEFT_CUDA_BLOCK_KERNEL(name, parameters) WEFT_CUDA_KERNEL(name, parameters)
/* An array of the block, in a function that all of its threads call. */
#define WEFT_CUDA_SHARED(type, name, count) __shared__ type name[count]
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_UNROLL
#endif

#define WEFT_FN static __device__ __forceinline__
/* Of a long function, which stands in the module once and not in each kernel that calls it. */
#ifndef WEFT_CUDA_ON_HOST
#define WEFT_CALLED_FN static __device__ __noinline__
#else
#define WEFT_CALLED_FN static inline __attribute__((unused))
#endif

namespace weft {

/* The first of the elements that this thread has, and the step to its next one. */
WEFT_FN int64_t first_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
WEFT_FN int64_t index_step() { return (int64_t)gridDim.x * blockDim.x; }

/* N elements that one instruction loads. */
template <class T, int N>
struct alignas(sizeof(T) * N) pack {
  T at[N];
};

template <class T>
WEFT_FN bool is_aligned(const T *p) {
  return ((uintptr_t)p & 15) == 0;
}

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_KERNEL_CUH_ */
