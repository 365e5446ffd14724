/* kernels/cuda/softmax.cu - Softmax, LogSoftmax and the cross entropies, a row of classes at a time.
 *
 * So many threads as are worth it share a row: they find its largest logit, then the sum of the exponentials,
 * joined half with half in the block's memory, then write. Formulas as kernels/cpu/nn/softmax.c.
 */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* Of a row whose logits are `step` elements apart. */
template <class T>
WEFT_FN softmax_row<comp_t<T>> find_row(comp_t<T> *shared, const T *x, int64_t step, int64_t classes,
                                        bool is_row, int sharers) {
  return find_softmax_row(
      shared, [=](int64_t i) { return load(x[i * step]); }, classes, is_row, sharers);
}

template <class T>
WEFT_FN void softmax(const T *x, T *y, int64_t rows, int64_t classes, int is_log, int sharers) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(C, shared, WEFT_CUDA_BLOCK);
  const int rows_of_block = WEFT_CUDA_BLOCK / sharers, sharer = (int)threadIdx.x % sharers;
  for (int64_t first = (int64_t)blockIdx.x * rows_of_block; first < rows;
       first += (int64_t)gridDim.x * rows_of_block) {
    const int64_t row = first + threadIdx.x / sharers;
    const bool is_row = row < rows;
    const softmax_row<C> r = find_row(shared, x + row * classes, 1, classes, is_row, sharers);
    for (int64_t i = sharer; is_row && i < classes; i += sharers) {
      const C v = load(x[row * classes + i]);
      store(&y[row * classes + i], is_log != 0 ? LogSoftmax::of(v, r) : Softmax::of(v, r));
    }
  }
}

/* An operand of one row or column repeats it: its step there is 0. */
template <class T>
WEFT_FN void cross(const T *x, const T *labels, T *loss, T *back, int64_t rows, int64_t classes,
                   int64_t x_row, int64_t x_step, int64_t label_row, int64_t label_step, int sharers) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(C, shared, WEFT_CUDA_BLOCK);
  const int rows_of_block = WEFT_CUDA_BLOCK / sharers, sharer = (int)threadIdx.x % sharers;
  for (int64_t first = (int64_t)blockIdx.x * rows_of_block; first < rows;
       first += (int64_t)gridDim.x * rows_of_block) {
    const int64_t row = first + threadIdx.x / sharers;
    const bool is_row = row < rows;
    const T *from = x + row * x_row, *label = labels + row * label_row;
    C mine = 0;
    const softmax_row<C> r = find_row(shared, from, x_step, classes, is_row, sharers);
    for (int64_t i = sharer; is_row && i < classes; i += sharers) {
      const C v = load(from[i * x_step]) - r.max, l = load(label[i * label_step]);
      mine += l * (r.log_total - v);
      store(&back[row * classes + i], exp(v) / r.total - l);
    }
    const C all = together<total_of>(shared, mine, sharers);
    if (is_row && sharer == 0) store(&loss[row], all);
  }
}

/* A label that is no class makes its row NaN. */
template <class T>
WEFT_FN void sparse_cross(const T *x, const void *labels, int label_bytes, T *loss, T *back, int64_t rows,
                          int64_t classes, int sharers) {
  typedef comp_t<T> C;
  WEFT_CUDA_SHARED(C, shared, WEFT_CUDA_BLOCK);
  const int rows_of_block = WEFT_CUDA_BLOCK / sharers, sharer = (int)threadIdx.x % sharers;
  for (int64_t first = (int64_t)blockIdx.x * rows_of_block; first < rows;
       first += (int64_t)gridDim.x * rows_of_block) {
    const int64_t row = first + threadIdx.x / sharers;
    const bool is_row = row < rows;
    const T *from = x + row * classes;
    int64_t label = -1;
    if (is_row) label = label_bytes == 8 ? ((const int64_t *)labels)[row] : ((const int32_t *)labels)[row];
    const bool is_class = label >= 0 && label < classes;
    const softmax_row<C> r = find_row(shared, from, 1, classes, is_row, sharers);
    for (int64_t i = sharer; is_row && i < classes; i += sharers) {
      const C v = Softmax::of(load(from[i]), r) - (i == label ? 1 : 0);
      store(&back[row * classes + i], is_class ? v : (C)NAN);
    }
    if (is_row && sharer == 0)
      store(&loss[row], is_class ? r.log_total - (load(from[label]) - r.max) : (C)NAN);
  }
}

}  // namespace weft

using namespace weft;

#define SOFTMAX(f, type)                                                                            \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type, (const type *x, type *y, int64_t rows, int64_t classes, \
                                             int32_t is_log, int32_t sharers)) {                    \
    softmax(x, y, rows, classes, is_log, sharers);                                                  \
  }
WEFT_CUDA_FLOAT(SOFTMAX, softmax)

#define CROSS(f, type)                                                                                     \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type, (const type *x, const type *labels, type *loss, type *back,    \
                                             int64_t rows, int64_t classes, int64_t x_row, int64_t x_step, \
                                             int64_t label_row, int64_t label_step, int32_t sharers)) {    \
    cross(x, labels, loss, back, rows, classes, x_row, x_step, label_row, label_step, sharers);            \
  }
WEFT_CUDA_FLOAT(CROSS, cross)

#define SPARSE(f, type)                                                                                   \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##type,                                                               \
                         (const type *x, const void *labels, int32_t label_bytes, type *loss, type *back, \
                          int64_t rows, int64_t classes, int32_t sharers)) {                              \
    sparse_cross(x, labels, label_bytes, loss, back, rows, classes, sharers);                             \
  }
WEFT_CUDA_FLOAT(SPARSE, sparse_cross)
