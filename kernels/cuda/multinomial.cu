/* kernels/cuda/multinomial.cu - classes drawn by their logits.
 *
 * A block sums up the probabilities of a row; then a thread for each sample looks for the class in whose part
 * of the sum the sample's number falls. Sample i of the whole batch has words 2 i and 2 i + 1 of the
 * generator, as the CPU's kernel has them where it does not cut the batch into pieces.
 */
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* The largest of the threads' values. */
WEFT_FN double max_of(double *shared, double mine) {
  const unsigned t = threadIdx.x;
  shared[t] = mine;
  for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
    __syncthreads();
    if (t < width && shared[t + width] > shared[t]) shared[t] = shared[t + width];
  }
  __syncthreads();
  const double max = shared[0];
  __syncthreads();
  return max;
}

WEFT_FN bool is_finite(double v) { return fabs(v) < INFINITY; }

/* totals[row, class]: the sum of the probabilities up to the class, not normalised; the largest logit
 * counts 1. What is not finite has no probability. A block for each row, in which a thread has neighbouring
 * classes. */
template <class T>
WEFT_FN void sum_classes(const T *logits, double *totals, int64_t rows, int64_t classes) {
  WEFT_CUDA_SHARED(double, shared, WEFT_CUDA_BLOCK);
  const int64_t each = (classes + blockDim.x - 1) / blockDim.x, begin = each * threadIdx.x,
                end = begin + each < classes ? begin + each : classes;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T *x = logits + row * classes;
    double *to = totals + row * classes, largest = -INFINITY, sum = 0;
    for (int64_t i = begin; i < end; i++) {
      const double v = (double)load(x[i]);
      if (is_finite(v) && v > largest) largest = v;
    }
    largest = max_of(shared, largest);
    for (int64_t i = begin; i < end; i++) {
      const double v = (double)load(x[i]);
      if (is_finite(v)) sum += exp(v - largest);
      to[i] = sum;
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      double before = 0;
      for (unsigned t = 0; t < blockDim.x; t++) {
        const double here = shared[t];
        shared[t] = before;
        before += here;
      }
    }
    __syncthreads();
    for (int64_t i = begin; i < end; i++) to[i] += shared[threadIdx.x];
    __syncthreads();
  }
}

/* The first class whose total is above the number; `classes` if none is. */
template <class I>
WEFT_FN void draw(const double *totals, I *y, int64_t samples, int64_t classes, int64_t count,
                  const philox_at &start) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const double *row = totals + i / samples * classes;
    uint32_t x[4];
    philox_at p = start;
    skip(p, (uint64_t)i / 2);
    next_block(p, x);
    const double number = uniform_double(x[i % 2 * 2], x[i % 2 * 2 + 1]) * row[classes - 1];
    int64_t low = 0;
    for (int64_t n = classes; n > 0;) {
      const int64_t half = n / 2;
      const bool is_above = number < row[low + half];
      low = is_above ? low : low + half + 1;
      n = is_above ? half : n - half - 1;
    }
    y[i] = (I)low;
  }
}

}  // namespace weft

using namespace weft;

#define SUM_CLASSES(f, type)                                                                    \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type,                                                     \
                         (const type *logits, double *totals, int64_t rows, int64_t classes)) { \
    sum_classes(logits, totals, rows, classes);                                                 \
  }
WEFT_CUDA_FLOAT(SUM_CLASSES, multinomial_totals)
#define DRAW(f, type)                                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const double *totals, type *y, int64_t samples, int64_t classes, \
                                       int64_t count, uint64_t key, uint64_t low, uint64_t high)) {     \
    draw(totals, y, samples, classes, count, generator(key, low, high));                                \
  }
WEFT_CUDA_INDEX(DRAW, multinomial_draw)
