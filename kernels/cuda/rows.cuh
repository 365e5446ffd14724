/* kernels/cuda/rows.cuh - what the threads that share a row join, and the softmax of a row.
 *
 * A block has WEFT_CUDA_BLOCK / sharers rows at a time; `sharers` is a power of two.
 */
#ifndef WEFT_KERNELS_CUDA_ROWS_CUH_
#define WEFT_KERNELS_CUDA_ROWS_CUH_

#include "kernels/cuda/numbers.cuh"

namespace weft {

/* NVRTC has no INFINITY. */
template <class C>
WEFT_FN C infinity() {
  return (C)float_of(0x7f800000u);
}

struct larger { /* a NaN stays out: it ends in the sum */
  template <class C>
  WEFT_FN C join(C a, C b) {
    return b > a ? b : a;
  }
};
struct total_of {
  template <class C>
  WEFT_FN C join(C a, C b) {
    return a + b;
  }
};

/* What the threads that share a row have, joined; each of them gets it. All threads of the block call it. */
template <class F, class C>
WEFT_FN C together(C *shared, C mine, int sharers) {
  const int t = (int)threadIdx.x, sharer = t % sharers;
  shared[t] = mine;
  __syncthreads();
  for (int half = sharers / 2; half > 0; half /= 2) {
    if (sharer < half) shared[t] = F::join(shared[t], shared[t + half]);
    __syncthreads();
  }
  const C all = shared[t - sharer];
  __syncthreads(); /* before the memory is used again */
  return all;
}

/* Of a row: its largest logit, the sum of exp(logit - largest), and the sum's logarithm. */
template <class C>
struct softmax_row {
  C max, total, log_total;
};

/* value(i): logit i of a row, if is_row. */
template <class C, class V>
WEFT_FN softmax_row<C> find_softmax_row(C *shared, V value, int64_t classes, bool is_row, int sharers) {
  const int sharer = (int)threadIdx.x % sharers;
  softmax_row<C> r = {-infinity<C>(), 0, 0};
  for (int64_t i = sharer; is_row && i < classes; i += sharers) r.max = larger::join(r.max, (C)value(i));
  r.max = together<larger>(shared, r.max, sharers);
  for (int64_t i = sharer; is_row && i < classes; i += sharers) r.total += exp(value(i) - r.max);
  r.total = together<total_of>(shared, r.total, sharers);
  r.log_total = log(r.total);
  return r;
}
/* Of a row that is v alone. */
template <class C>
WEFT_FN softmax_row<C> softmax_row_of(C v) {
  const C total = exp(v - v);
  return softmax_row<C>{v, total, log(total)};
}

/* The softmax of logit v, and its logarithm. */
struct Softmax {
  template <class C>
  WEFT_FN C of(C v, const softmax_row<C> &r) {
    return exp(v - r.max) / r.total;
  }
};
struct LogSoftmax {
  template <class C>
  WEFT_FN C of(C v, const softmax_row<C> &r) {
    return v - r.max - r.log_total;
  }
};

}  // namespace weft

#endif /* WEFT_KERNELS_CUDA_ROWS_CUH_ */
