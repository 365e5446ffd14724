/* kernels/cuda/reduce.cuh - how elements are joined to outputs.
 *
 * The threads that share an output each join every so many of its elements; then they join theirs, half with
 * half, in the block's memory. Where there are few outputs and many elements, the elements are cut in parts:
 * each part's result goes to scratch, in the type that is joined in, and a second launch joins those. The
 * order never depends on timing, so the same device gives the same bits.
 *
 * A reduction F has acc_t, what is joined, of at most 16 bytes; start(); value() of an element and its
 * number; join(); put(), which writes a result.
 */
#ifndef WEFT_KERNELS_CUDA_REDUCE_CUH_
#define WEFT_KERNELS_CUDA_REDUCE_CUH_

#include "kernels/cuda/numbers.cuh"

namespace weft {

WEFT_FN int64_t offset(int rank, const int64_t *dims, const int64_t *steps, int64_t i) {
  int64_t at = 0;
  if (i <= 0x7fffffff) { /* a division of 64 bits costs many times as much */
    uint32_t rest = (uint32_t)i;
    for (int d = rank - 1; d > 0; d--) {
      const uint32_t dim = (uint32_t)dims[d], q = rest / dim;
      at += (int64_t)(rest - q * dim) * steps[d];
      rest = q;
    }
    i = rest;
  } else {
    for (int d = rank - 1; d > 0; d--) {
      const int64_t q = i / dims[d];
      at += (i - q * dims[d]) * steps[d];
      i = q;
    }
  }
  return rank > 0 ? at + i * steps[0] : 0;
}

/* Elements come from x or, if that is NULL, from results of parts; results go to y or, if that is NULL, to
 * `parts`. count: elements of an output, for a mean. */
template <class F, class T, class A = typename F::acc_t>
WEFT_FN void reduce(const T *x, const A *from_parts, A *parts, void *y, const weft_cuda_reduction_t &r,
                    int64_t count, int out_bytes) {
  WEFT_CUDA_SHARED(A, shared, WEFT_CUDA_BLOCK);
  const int sharers = r.sharers, outputs = WEFT_CUDA_BLOCK / sharers, t = (int)threadIdx.x;
  const int output = r.by_column ? t % outputs : t / sharers,
            sharer = r.by_column ? t / outputs : t % sharers;
  const int64_t begin = (int64_t)blockIdx.y * r.part;
  const int64_t end = begin + r.part < r.num_reduced ? begin + r.part : r.num_reduced;
  for (int64_t first = (int64_t)blockIdx.x * outputs; first < r.num_kept;
       first += (int64_t)gridDim.x * outputs) {
    const int64_t kept = first + output;
    A a = F::start();
    if (kept < r.num_kept) {
      const int64_t base = offset(r.kept_rank, r.kept_dims, r.kept_steps, kept);
      if (x == nullptr) {
        for (int64_t i = begin + sharer; i < end; i += sharers)
          a = F::join(a, from_parts[base + offset(r.reduced_rank, r.reduced_dims, r.reduced_steps, i)]);
      } else if (r.reduced_rank <= 1) {
        const int64_t step = r.reduced_steps[0];
#ifndef WEFT_CUDA_ON_HOST
#pragma unroll 4
#endif
        for (int64_t i = begin + sharer; i < end; i += sharers)
          a = F::join(a, F::value(load(x[base + i * step]), i));
      } else {
        for (int64_t i = begin + sharer; i < end; i += sharers) {
          const int64_t at = base + offset(r.reduced_rank, r.reduced_dims, r.reduced_steps, i);
          a = F::join(a, F::value(load(x[at]), i));
        }
      }
    }
    shared[sharer * outputs + output] = a;
    __syncthreads();
    for (int half = sharers / 2; half > 0; half /= 2) {
      if (sharer < half) {
        A *own = &shared[sharer * outputs + output];
        *own = F::join(*own, own[half * outputs]);
      }
      __syncthreads();
    }
    if (sharer == 0 && kept < r.num_kept) {
      const A all = shared[output];
      if (y != nullptr) {
        F::put(y, kept, all, count, out_bytes);
      } else {
        parts[(int64_t)blockIdx.y * r.num_kept + kept] = all;
      }
    }
    __syncthreads(); /* before the next outputs use the memory */
  }
}

}  // namespace weft

/* The kernel of reduction f<type>. */
#define WEFT_REDUCE_KERNEL(f, type)                                                                                  \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type, (const type *x, const void *from_parts, void *parts, void *y,  \
                                             weft_cuda_reduction_t r, int64_t count, int32_t out_bytes)) { \
    typedef weft::f<type>::acc_t acc_t;                                                                          \
    weft::reduce<weft::f<type>, type>(x, (const acc_t *)from_parts, (acc_t *)parts, y, r, count, out_bytes);           \
  }

#endif /* WEFT_KERNELS_CUDA_REDUCE_CUH_ */
