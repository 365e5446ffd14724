/* kernels/cuda/ctc.cu - CTCLoss, of probabilities that are there. The formulas are those of
 * kernels/cpu/ctc/ctc_loss.tmpl.h, whose source names the equations: Graves, "Supervised sequence labelling
 * with recurrent neural networks" (2012), section 7.3. */
#include "kernels/cuda/ctc_args.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* log(exp(a) + exp(b)); the correction is computed in float for either type. */
template <class T>
WEFT_FN T log_sum(T a, T b) {
  if (a == -(T)INFINITY) return b;
  if (b == -(T)INFINITY) return a;
  return a > b ? a + (T)log1pf(expf((float)(b - a))) : b + (T)log1pf(expf((float)(a - b)));
}

/* Positions that can be reached at time t and from which the end can be. */
WEFT_FN int64_t first_position(const weft_cuda_ctc_sequence_t &s, int64_t t) {
  const int64_t u = s.num_path - 2 * (s.length - t);
  return u < 0 ? 0 : u;
}
WEFT_FN int64_t limit_of_positions(const weft_cuda_ctc_sequence_t &s, int64_t t) {
  return 2 * (t + 1) < s.num_path ? 2 * (t + 1) : s.num_path;
}

/* A sequence's logarithm of the probability of a class at time t. */
template <class T>
WEFT_FN T log_of(const weft_cuda_ctc_t &c, int64_t b, int64_t t, int class_) {
  return log(((const T *)c.y)[(t * c.batch + b) * c.classes + class_]);
}

/* Equations 7.5 to 7.9, by the threads of a block. */
template <class T>
WEFT_FN void alphas(const weft_cuda_ctc_t &c, int64_t b) {
  const weft_cuda_ctc_sequence_t s = c.sequences[b];
  const weft_cuda_ctc_position_t *path = c.path + s.path_at;
  const int64_t n = s.num_path, blank = c.classes - 1;
  T *alpha = (T *)c.alpha + s.state_at;
  for (int64_t t = 0; t < s.length; t++) {
    const T *before = alpha + (t - 1) * n;
    for (int64_t u = threadIdx.x; u < n; u += blockDim.x) {
      T sum = -(T)INFINITY;
      if (t == 0) {
        if (u < 2) sum = log_of<T>(c, b, 0, path[u].class_);
      } else if (u >= first_position(s, t) && u < limit_of_positions(s, t)) {
        const bool is_blank = path[u].class_ == blank;
        if (c.merges != 0 || is_blank) sum = before[u];
        if (u > 0) sum = log_sum(sum, before[u - 1]);
        if (u > 1 && !is_blank && !(c.merges != 0 && path[u].class_ == path[u - 2].class_))
          sum = log_sum(sum, before[u - 2]);
        sum = log_of<T>(c, b, t, path[u].class_) + sum;
      }
      alpha[t * n + u] = sum;
    }
    __syncthreads();
  }
}

/* Equations 7.13 to 7.15, likewise. A path of blanks alone has one position, and the second one from the end
 * is then the only one of the step before: TensorFlow sets it. */
template <class T>
WEFT_FN void betas(const weft_cuda_ctc_t &c, int64_t b) {
  const weft_cuda_ctc_sequence_t s = c.sequences[b];
  const weft_cuda_ctc_position_t *path = c.path + s.path_at;
  const int64_t n = s.num_path, blank = c.classes - 1, last = s.length * n - 1;
  T *beta = (T *)c.beta + s.state_at;
  for (int64_t t = s.length - 1; t >= 0; t--) {
    const T *after = beta + (t + 1) * n;
    for (int64_t u = threadIdx.x; u < n; u += blockDim.x) {
      T sum = t * n + u >= last - 1 ? (T)0 : -(T)INFINITY;
      if (t < s.length - 1 && u >= first_position(s, t) && u < limit_of_positions(s, t)) {
        const bool is_blank = path[u].class_ == blank;
        if (c.merges != 0 || is_blank) sum = log_sum(sum, after[u] + log_of<T>(c, b, t + 1, path[u].class_));
        if (u + 1 < n) sum = log_sum(sum, after[u + 1] + log_of<T>(c, b, t + 1, path[u + 1].class_));
        if (u + 2 < n && !is_blank && !(c.merges != 0 && path[u].class_ == path[u + 2].class_))
          sum = log_sum(sum, after[u + 2] + log_of<T>(c, b, t + 1, path[u + 2].class_));
      }
      beta[t * n + u] = sum;
    }
    __syncthreads();
  }
}

/* Two blocks for each sequence: one goes forward in time, one back. */
template <class T>
WEFT_FN void states(const weft_cuda_ctc_t &c) {
  for (int64_t i = blockIdx.x; i < 2 * c.batch; i += gridDim.x) {
    if (i % 2 == 0) {
      alphas<T>(c, i / 2);
    } else {
      betas<T>(c, i / 2);
    }
  }
}

/* The gradient of a sequence at time t, equations 7.26 and 7.34, by the threads of a block. */
template <class T>
WEFT_FN void gradient_at(const weft_cuda_ctc_t &c, int64_t t, int64_t b) {
  const weft_cuda_ctc_sequence_t s = c.sequences[b];
  const weft_cuda_ctc_position_t *path = c.path + s.path_at;
  const T *alpha = (const T *)c.alpha + s.state_at, *beta = (const T *)c.beta + s.state_at;
  const int64_t row = (t * c.batch + b) * c.classes, n = s.num_path;
  const T *y = (const T *)c.y + row;
  T *dy = (T *)c.gradient + row, log_p = -(T)INFINITY;
  const bool is_step = t < s.length;
  for (int64_t u = 0; u < 2 && u < n && s.length > 0; u++) /* others cannot be reached at time 0 */
    log_p = log_sum(log_p, alpha[u] + beta[u]);
  if (t == 0 && threadIdx.x == 0) ((T *)c.loss)[b] = s.length > 0 ? -log_p : (T)0;
  for (int64_t k = threadIdx.x; k < c.classes; k += blockDim.x) dy[k] = is_step ? y[k] : (T)0;
  __syncthreads();
  const bool has_path = is_step && log_p != -(T)INFINITY; /* else no path has any probability */
  for (int64_t u = threadIdx.x; has_path && u < n; u += blockDim.x) {
    if (path[u].is_first == 0) continue;
    T sum = -(T)INFINITY;
    for (int64_t v = u; v >= 0; v = path[v].next) sum = log_sum(sum, alpha[t * n + v] + beta[t * n + v]);
    const int k = path[u].class_;
    dy[k] = y[k] - (T)expf((float)(sum - log_p));
  }
  __syncthreads();
}

template <class T>
WEFT_FN void gradients(const weft_cuda_ctc_t &c) {
  for (int64_t i = blockIdx.x; i < c.time * c.batch; i += gridDim.x)
    gradient_at<T>(c, i / c.batch, i % c.batch);
}

}  // namespace weft

#define CTC(f, type)                                                                                   \
  WEFT_CUDA_BLOCK_KERNEL(weft_ctc_states_##type, (weft_cuda_ctc_t c)) { weft::states<weft::type>(c); } \
  WEFT_CUDA_BLOCK_KERNEL(weft_ctc_gradients_##type, (weft_cuda_ctc_t c)) { weft::gradients<weft::type>(c); }
WEFT_CUDA_F32_F64(CTC, )
