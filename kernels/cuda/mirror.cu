/* kernels/cuda/mirror.cu - elements that are turned round: mirror padding and its gradient, sequences of
 * which a part is reversed. */
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/mirror_args.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

template <class T>
WEFT_FN void mirror_pad(const T *x, T *y, const weft_cuda_mirror_t &m) {
  for (int64_t i = first_index(); i < m.n; i += index_step()) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = m.rank - 1; d >= 0; d--) {
      const int64_t next = rest / m.outer[d], size = m.inner[d];
      int64_t k = rest - next * m.outer[d] - m.before[d];
      k = k < 0 ? m.offset - 1 - k : k >= size ? 2 * size - 1 - m.offset - k : k;
      at += k * step;
      step *= size;
      rest = next;
    }
    y[i] = x[at];
  }
}

/* Where index k of dimension d lies in the padded tensor: itself (0), and its images before and behind (1,
 * 2). -1: it has no such image. */
WEFT_FN int64_t image(const weft_cuda_mirror_t &m, int d, int which, int64_t k) {
  const int64_t size = m.inner[d], before = m.before[d];
  if (which == 0) return before + k;
  const int64_t at = before + (which == 1 ? m.offset - 1 - k : 2 * size - 1 - m.offset - k);
  const bool is_there = which == 1 ? at >= 0 && at < before : at >= before + size && at < m.outer[d];
  return is_there ? at : -1;
}

/* dx has n elements, each the sum of all its images in dy, which are counted in base 3, a digit for each
 * dimension that is padded. */
template <class T>
WEFT_FN void mirror_grad(const T *dy, T *dx, const weft_cuda_mirror_t &m) {
  int64_t images = 1;
  for (int d = 0; d < m.rank; d++) images *= m.outer[d] > m.inner[d] ? 3 : 1;
  for (int64_t i = first_index(); i < m.n; i += index_step()) {
    comp_t<T> sum = 0;
    for (int64_t digits = 0; digits < images; digits++) {
      int64_t rest = i, which = digits, at = 0, step = 1;
      bool is_there = true;
      for (int d = m.rank - 1; d >= 0 && is_there; d--) {
        const int64_t next = rest / m.inner[d], k = rest - next * m.inner[d];
        const bool is_padded = m.outer[d] > m.inner[d];
        const int64_t place = image(m, d, is_padded ? (int)(which % 3) : 0, k);
        if (is_padded) which /= 3;
        is_there = place >= 0;
        at += place * step;
        step *= m.outer[d];
        rest = next;
      }
      if (is_there) sum = wrap_add(sum, load(dy[at]));
    }
    store(&dx[i], sum);
  }
}

/* Along the dimension of `size`, whose elements are `step` apart, the first ones are reversed: as many as
 * `lengths` says for the index of another dimension. */
template <class T>
WEFT_FN void reverse_part(const T *x, const void *lengths, int length_bytes, T *y, int64_t n, int64_t size,
                          int64_t step, int64_t batch, int64_t batch_step) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t at = i / step % size, length = index_at(lengths, length_bytes, i / batch_step % batch);
    y[i] = x[at < length ? i + (length - 1 - 2 * at) * step : i];
  }
}

}  // namespace weft

using namespace weft;

#define MIRROR_PAD(f, bytes)                                                                               \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const sized_##bytes *x, sized_##bytes *y, weft_cuda_mirror_t m)) { \
    mirror_pad(x, y, m);                                                                                   \
  }
WEFT_CUDA_SIZED(MIRROR_PAD, mirror_pad)

#define MIRROR_GRAD(f, type)                                                              \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *dy, type *dx, weft_cuda_mirror_t m)) { \
    mirror_grad(dy, dx, m);                                                               \
  }
WEFT_CUDA_FLOAT_I64(MIRROR_GRAD, mirror_grad)

#define REVERSE_PART(f, bytes)                                                                           \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes,                                                                   \
                   (const sized_##bytes *x, const void *lengths, int32_t length_bytes, sized_##bytes *y, \
                    int64_t n, int64_t size, int64_t step, int64_t batch, int64_t batch_step)) {         \
    reverse_part(x, lengths, length_bytes, y, n, size, step, batch, batch_step);                         \
  }
WEFT_CUDA_SIZED(REVERSE_PART, reverse_part)
