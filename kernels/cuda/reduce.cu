/* kernels/cuda/reduce.cu - reductions: reduce.def.
 *
 * The threads that share an output each join every so many of its elements; then they join theirs, half with
 * half, in the block's memory. Where there are few outputs and many elements, the elements are cut in parts:
 * each part's result goes to scratch, in the type that is joined in, and a second launch joins those. The
 * order never depends on timing, so the same device gives the same bits.
 *
 * A half and a float are joined in float, a double in double, integers wrap.
 */
#include "kernels/cuda/numbers.cuh"
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

using namespace weft;

#define INSTANCE(f, type)                                                                                  \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type, (const type *x, const void *from_parts, void *parts, void *y,  \
                                             weft_cuda_reduction_t r, int64_t count, int32_t out_bytes)) { \
    typedef f<type>::acc_t acc_t;                                                                          \
    reduce<f<type>, type>(x, (const acc_t *)from_parts, (acc_t *)parts, y, r, count, out_bytes);           \
  }
#define WEFT_CUDA_REDUCE(name, set) WEFT_CUDA_##set(INSTANCE, name)
#include "kernels/cuda/reduce.def"
#undef WEFT_CUDA_REDUCE
