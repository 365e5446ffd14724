/* kernels/cuda/norm.cu - batch normalisation and its gradient. The formulas are those of the CPU's kernels
 * (kernels/cpu/nn/batch_norm.c).
 *
 * A block takes `width` neighbouring channels and a part of their items; the threads of a channel add up what
 * they have in shared memory, in a fixed order, and another kernel joins the parts. Moments are summed about
 * the channel's first item, and joined by the formula of Chan, Golub and LeVeque, "Updating Formulae and a
 * Pairwise Algorithm for Computing Sample Variances" (1979), so that a large mean costs no digits.
 */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/window_args.h"

namespace weft {

WEFT_FN int64_t norm_item(const weft_cuda_norm_t &j, int64_t channel, int64_t i) {
  if (j.inner == 1) return i * j.channels + channel;
  const int64_t outer = i / j.inner;
  return (outer * j.channels + channel) * j.inner + (i - outer * j.inner);
}

struct norm_share {
  int64_t channel, begin, end;
  int sharer, sharers;
};
WEFT_FN norm_share share_of(const weft_cuda_norm_t &j) {
  norm_share s;
  s.channel = (int64_t)blockIdx.x * j.width + (int)threadIdx.x % j.width;
  s.sharer = (int)threadIdx.x / j.width;
  s.sharers = WEFT_CUDA_BLOCK / j.width;
  s.begin = (int64_t)blockIdx.y * j.part;
  s.end = s.begin + j.part < j.n ? s.begin + j.part : j.n;
  if (s.channel >= j.channels) s.end = s.begin;
  return s;
}

/* Number, mean and sum of squared differences from it. */
struct norm_moments {
  float n, mean, m2;
};
WEFT_FN norm_moments joined(const norm_moments &a, const norm_moments &b) {
  const float n = a.n + b.n;
  if (n == 0) return a;
  const float delta = b.mean - a.mean, part = b.n / n;
  return norm_moments{n, a.mean + delta * part, a.m2 + b.m2 + delta * delta * a.n * part};
}

/* parts: [num_parts, channels] */
template <class T>
WEFT_FN void norm_moments_of(const T *x, norm_moments *parts, const weft_cuda_norm_t &j) {
  WEFT_CUDA_SHARED(norm_moments, all, WEFT_CUDA_BLOCK);
  const norm_share s = share_of(j);
  norm_moments own = {0, 0, 0};
  if (s.begin + s.sharer < s.end) {
    const float first = load(x[norm_item(j, s.channel, s.begin)]);
    float sum = 0, squares = 0, n = 0;
    for (int64_t i = s.begin + s.sharer; i < s.end; i += s.sharers) {
      const float d = load(x[norm_item(j, s.channel, i)]) - first;
      sum += d;
      squares += d * d;
      n += 1;
    }
    const float mean = sum / n, m2 = squares - sum * mean;
    own = norm_moments{n, first + mean, m2 < 0 ? 0 : m2};
  }
  all[threadIdx.x] = own;
  __syncthreads();
  for (int step = s.sharers / 2; step > 0; step /= 2) {
    if (s.sharer < step) all[threadIdx.x] = joined(all[threadIdx.x], all[threadIdx.x + step * j.width]);
    __syncthreads();
  }
  if (s.sharer == 0 && s.channel < j.channels)
    parts[(int64_t)blockIdx.y * j.channels + s.channel] = all[threadIdx.x];
}

/* What normalises a channel: y = (x - center) * factor + shift. */
struct norm_factors {
  float center, factor, shift;
};

/* May a thread take the neighbours that 16 bytes hold? They are of one channel, or of channels in a row. */
template <class T>
WEFT_FN bool norm_in_packs(const weft_cuda_norm_t &j) {
  return (j.inner == 1 ? j.channels : j.inner) % (int64_t)(16 / sizeof(T)) == 0;
}
WEFT_FN int64_t norm_channel(const weft_cuda_norm_t &j, int64_t i) {
  return j.inner == 1 ? i % j.channels : i / j.inner % j.channels;
}

WEFT_FN float norm_applied(const norm_factors &f, float v) { return (v - f.center) * f.factor + f.shift; }

template <class T>
WEFT_FN void norm_apply(const T *x, const norm_factors *factors, T *y, const weft_cuda_norm_t &j) {
  const int N = 16 / sizeof(T);
  const int64_t count = j.n * j.channels;
  if (norm_in_packs<T>(j) && is_aligned(x) && is_aligned(y)) {
    for (int64_t i = first_index(); i < count / N; i += index_step()) {
      const norm_factors *f = factors + norm_channel(j, i * N);
      const pack<T, N> a = ((const pack<T, N> *)x)[i];
      pack<T, N> b;
      WEFT_UNROLL
      for (int k = 0; k < N; k++) store(&b.at[k], norm_applied(f[j.inner == 1 ? k : 0], load(a.at[k])));
      ((pack<T, N> *)y)[i] = b;
    }
    return;
  }
  for (int64_t i = first_index(); i < count; i += index_step())
    store(&y[i], norm_applied(factors[norm_channel(j, i)], load(x[i])));
}

/* ---- gradient ---- */

struct norm_sums {
  float plain, product; /* of dy, and of dy * (x - mean) */
};

template <class T>
WEFT_FN void norm_sums_of(const T *x, const T *dy, const float *means, norm_sums *parts,
                          const weft_cuda_norm_t &j) {
  WEFT_CUDA_SHARED(norm_sums, all, WEFT_CUDA_BLOCK);
  const norm_share s = share_of(j);
  norm_sums own = {0, 0};
  if (s.begin + s.sharer < s.end) {
    const float mean = means[s.channel];
    for (int64_t i = s.begin + s.sharer; i < s.end; i += s.sharers) {
      const int64_t at = norm_item(j, s.channel, i);
      const float g = load(dy[at]);
      own.plain += g;
      own.product += g * (load(x[at]) - mean);
    }
  }
  all[threadIdx.x] = own;
  __syncthreads();
  for (int step = s.sharers / 2; step > 0; step /= 2) {
    if (s.sharer < step) {
      all[threadIdx.x].plain += all[threadIdx.x + step * j.width].plain;
      all[threadIdx.x].product += all[threadIdx.x + step * j.width].product;
    }
    __syncthreads();
  }
  if (s.sharer == 0 && s.channel < j.channels)
    parts[(int64_t)blockIdx.y * j.channels + s.channel] = all[threadIdx.x];
}

/* dx = factor * (dy - shift - (x - center) * slope) */
struct norm_slopes {
  float center, factor, shift, slope;
};

WEFT_FN float norm_sloped(const norm_slopes &f, float x, float dy) {
  return f.factor * (dy - f.shift - (x - f.center) * f.slope);
}

template <class T>
WEFT_FN void norm_grad(const T *x, const T *dy, const norm_slopes *slopes, T *dx, const weft_cuda_norm_t &j) {
  const int N = 16 / sizeof(T);
  const int64_t count = j.n * j.channels;
  if (norm_in_packs<T>(j) && is_aligned(x) && is_aligned(dy) && is_aligned(dx)) {
    for (int64_t i = first_index(); i < count / N; i += index_step()) {
      const norm_slopes *f = slopes + norm_channel(j, i * N);
      const pack<T, N> a = ((const pack<T, N> *)x)[i], g = ((const pack<T, N> *)dy)[i];
      pack<T, N> b;
      WEFT_UNROLL
      for (int k = 0; k < N; k++)
        store(&b.at[k], norm_sloped(f[j.inner == 1 ? k : 0], load(a.at[k]), load(g.at[k])));
      ((pack<T, N> *)dx)[i] = b;
    }
    return;
  }
  for (int64_t i = first_index(); i < count; i += index_step())
    store(&dx[i], norm_sloped(slopes[norm_channel(j, i)], load(x[i]), load(dy[i])));
}

/* ---- LRN: N = bias + alpha times the sum of the neighbours' squares ---- */

WEFT_FN int64_t lrn_begin(const weft_cuda_lrn_t &j, int64_t c) { return c > j.radius ? c - j.radius : 0; }
WEFT_FN int64_t lrn_end(const weft_cuda_lrn_t &j, int64_t c) {
  return c + j.radius < j.depth ? c + j.radius + 1 : j.depth;
}

/* N of channel c; x: the pixel's channels. */
template <class T>
WEFT_FN float lrn_norm(const weft_cuda_lrn_t &j, const T *x, int64_t c) {
  float sum = 0;
  for (int64_t k = lrn_begin(j, c); k < lrn_end(j, c); k++) sum += load(x[k]) * load(x[k]);
  return j.bias + j.alpha * sum;
}

/* N^-beta, by the logarithm but for the usual exponents, as on the CPU. */
WEFT_FN float lrn_shrink(const weft_cuda_lrn_t &j, float norm) {
  if (j.beta == 1) return 1 / norm;
  if (j.beta == 0.5f) return 1 / sqrtf(norm);
  return expf(-j.beta * logf(norm));
}

template <class T>
WEFT_FN void lrn(const T *x, T *y, const weft_cuda_lrn_t &j, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t c = i % j.depth;
    store(&y[i], load(x[i]) * lrn_shrink(j, lrn_norm(j, x + (i - c), c)));
  }
}

template <class T>
WEFT_FN void lrn_grad(const T *dy, const T *x, const T *y, T *dx, const weft_cuda_lrn_t &j, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t c = i % j.depth, pixel = i - c;
    float sum = 0;
    for (int64_t k = lrn_begin(j, c); k < lrn_end(j, c); k++) {
      const float norm = lrn_norm(j, x + pixel, k), slope = load(dy[pixel + k]);
      sum += -2 * j.alpha * j.beta * slope * load(y[pixel + k]) / norm * load(x[i]);
      if (k == c) sum += slope * powf(norm, -j.beta);
    }
    store(&dx[i], sum);
  }
}

}  // namespace weft

using namespace weft;

/* scales [channels], offsets [channels]; mean and variance: what is reported; saved_*: what the gradient
 * needs. In training `parts` are the batch's moments, else the given mean and variance are taken. */
WEFT_CUDA_KERNEL(weft_norm_finish,
                 (const void *parts_, const float *scales, const float *offsets, const float *old_mean,
                  const float *old_variance, float *mean, float *variance, float *saved_mean,
                  float *saved_variance, void *factors_, weft_cuda_norm_t j)) {
  const norm_moments *parts = (const norm_moments *)parts_;
  norm_factors *factors = (norm_factors *)factors_;
  for (int64_t c = first_index(); c < j.channels; c += index_step()) {
    float m, v;
    if (j.is_training != 0) {
      norm_moments all = {0, 0, 0};
      for (int p = 0; p < j.num_parts; p++) all = joined(all, parts[p * j.channels + c]);
      m = all.mean;
      v = all.m2 / (float)j.n;
      const float unbiased = v * ((float)j.n / (float)(j.n > 1 ? j.n - 1 : 1)), keep = 1 - j.factor;
      saved_mean[c] = m;
      saved_variance[c] = v;
      mean[c] = j.factor == 1 ? m : keep * old_mean[c] + j.factor * m;
      variance[c] = j.factor == 1 ? unbiased : keep * old_variance[c] + j.factor * unbiased;
    } else {
      m = old_mean[c];
      v = old_variance[c];
      saved_mean[c] = saved_variance[c] = 0;
      mean[c] = m;
      variance[c] = v;
    }
    factors[c] = norm_factors{m, scales[c] / sqrtf(v + j.epsilon), offsets[c]};
  }
}

WEFT_CUDA_KERNEL(weft_norm_grad_finish,
                 (const void *parts_, const float *scales, const float *means, const float *variances,
                  float *dscale, float *doffset, void *slopes_, weft_cuda_norm_t j)) {
  const norm_sums *parts = (const norm_sums *)parts_;
  norm_slopes *slopes = (norm_slopes *)slopes_;
  for (int64_t c = first_index(); c < j.channels; c += index_step()) {
    float plain = 0, product = 0;
    for (int p = 0; p < j.num_parts; p++) {
      plain += parts[p * j.channels + c].plain;
      product += parts[p * j.channels + c].product;
    }
    const float spread = variances[c] + j.epsilon, inverse = 1 / sqrtf(spread);
    const bool is_training = j.is_training != 0;
    doffset[c] = plain;
    dscale[c] = product * inverse;
    slopes[c] = norm_slopes{means[c], scales[c] * inverse, is_training ? plain / (float)j.n : 0,
                            is_training ? product / ((float)j.n * spread) : 0};
  }
}

#define NORM(f, type)                                                                                   \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_moments_##type, (const type *x, void *parts, weft_cuda_norm_t j)) { \
    norm_moments_of(x, (norm_moments *)parts, j);                                                       \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_##f##_apply_##type,                                                             \
                   (const type *x, const void *factors, type *y, weft_cuda_norm_t j)) {                 \
    norm_apply(x, (const norm_factors *)factors, y, j);                                                 \
  }                                                                                                     \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_sums_##type, (const type *x, const type *dy, const float *means,    \
                                                  void *parts, weft_cuda_norm_t j)) {                   \
    norm_sums_of(x, dy, means, (norm_sums *)parts, j);                                                  \
  }                                                                                                     \
  WEFT_CUDA_KERNEL(weft_##f##_grad_##type,                                                              \
                   (const type *x, const type *dy, const void *slopes, type *dx, weft_cuda_norm_t j)) { \
    norm_grad(x, dy, (const norm_slopes *)slopes, dx, j);                                               \
  }
WEFT_CUDA_F32_HALFS(NORM, norm)

#define LRN(f, type)                                                                                         \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *x, type *y, weft_cuda_lrn_t j, int64_t n)) {              \
    lrn(x, y, j, n);                                                                                         \
  }                                                                                                          \
  WEFT_CUDA_KERNEL(weft_##f##_grad_##type,                                                                   \
                   (const type *dy, const type *x, const type *y, type *dx, weft_cuda_lrn_t j, int64_t n)) { \
    lrn_grad(dy, x, y, dx, j, n);                                                                            \
  }
WEFT_CUDA_F32_HALFS(LRN, lrn)
