/* kernels/cuda/index.cu - elements by index: gathers, scatters, folds of unsorted segments, one-hot rows.
 *
 * An index that is out of range, which the CPU's kernels refuse, gives zeros where it reads and is left out
 * where it writes, as in TensorFlow's kernels of a GPU. Pieces that meet in one place are folded by
 * atomic operations, so the last bits of floats depend on the order in which they come.
 */
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/index_args.h"
#include "kernels/cuda/types.h"

namespace weft {

/* The element of the tensor where element k of piece i lies; -1: nowhere. */
WEFT_FN int64_t place(const weft_cuda_scatter_t &s, int64_t i, int64_t k) {
  int64_t at = 0;
  for (int d = 0; d < s.depth; d++) {
    const int64_t index = index_at(s.indices, s.index_bytes, i * s.depth + d);
    if (index < 0 || index >= s.dims[d]) return -1;
    at = at * s.dims[d] + index;
  }
  return at * s.inner + k;
}

/* y[b, o, i, :] = x[b, o, indices[b, i], :] */
template <class T>
WEFT_FN void gather(const T *x, const void *indices, int index_bytes, T *y, int64_t outer, int64_t n,
                    int64_t size, int64_t inner, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t piece = i / inner, k = i - piece * inner, rest = piece / n, batch = rest / outer;
    const int64_t index = index_at(indices, index_bytes, batch * n + (piece - rest * n));
    T v = {};
    if (index >= 0 && index < size) v = x[(rest * size + index) * inner + k];
    y[i] = v;
  }
}

/* y[i, :] = x[the place that i's indices name, :] */
template <class T>
WEFT_FN void gather_nd(const T *x, T *y, const weft_cuda_scatter_t &s) {
  for (int64_t i = first_index(); i < s.num * s.inner; i += index_step()) {
    const int64_t piece = i / s.inner, at = place(s, piece, i - piece * s.inner);
    T v = {};
    if (at >= 0) v = x[at];
    y[i] = v;
  }
}

/* y: [outer, depth, inner]; indices: [outer, inner] */
template <class T>
WEFT_FN void one_hot(const void *indices, int index_bytes, const T *on, const T *off, T *y, int64_t depth,
                     int64_t inner, int64_t count) {
  const T yes = *on, no = *off;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t row = i / inner, k = i - row * inner, outer = row / depth, at = row - outer * depth;
    y[i] = index_at(indices, index_bytes, outer * inner + k) == at ? yes : no;
  }
}

template <class T>
WEFT_FN void scatter_add(const T *updates, T *y, const weft_cuda_scatter_t &s) {
  for (int64_t i = first_index(); i < s.num * s.inner; i += index_step()) {
    const int64_t piece = i / s.inner, at = place(s, piece, i - piece * s.inner);
    if (at < 0) continue;
    const comp_t<T> v = load(updates[s.is_scalar != 0 ? 0 : i]);
    add_atomically(&y[at], s.how == WEFT_CUDA_FOLD_SUB ? wrap_sub((comp_t<T>)0, v) : v);
  }
}

template <class T>
WEFT_FN void scatter_fold(const T *updates, T *y, const weft_cuda_scatter_t &s) {
  for (int64_t i = first_index(); i < s.num * s.inner; i += index_step()) {
    const int64_t piece = i / s.inner, at = place(s, piece, i - piece * s.inner);
    if (at >= 0) fold_atomically(&y[at], s.how, load(updates[s.is_scalar != 0 ? 0 : i]));
  }
}

/* What a fold starts from: 0, 1, the highest or the lowest finite number. */
template <class T>
WEFT_FN void fold_start(T *y, int how, int64_t n) {
  T start;
  store(&start, how == WEFT_CUDA_FOLD_MUL   ? (comp_t<T>)1
                : how == WEFT_CUDA_FOLD_MIN ? highest_of<T>()
                : how == WEFT_CUDA_FOLD_MAX ? lowest_of<T>()
                                            : (comp_t<T>)0);
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = start;
}

template <class T>
WEFT_FN void scatter_put(const T *updates, T *y, const weft_cuda_scatter_t &s) {
  for (int64_t i = first_index(); i < s.num * s.inner; i += index_step()) {
    const int64_t piece = i / s.inner, at = place(s, piece, i - piece * s.inner);
    if (at >= 0) y[at] = updates[s.is_scalar != 0 ? 0 : i];
  }
}

}  // namespace weft

using namespace weft;

#define GATHER(f, bytes)                                                                                \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes,                                                                  \
                   (const sized_##bytes *x, const void *indices, int32_t index_bytes, sized_##bytes *y, \
                    int64_t outer, int64_t n, int64_t size, int64_t inner, int64_t count)) {            \
    gather(x, indices, index_bytes, y, outer, n, size, inner, count);                                   \
  }
WEFT_CUDA_SIZED(GATHER, gather)

#define GATHER_ND(f, bytes)                                                                                 \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const sized_##bytes *x, sized_##bytes *y, weft_cuda_scatter_t s)) { \
    gather_nd(x, y, s);                                                                                     \
  }
WEFT_CUDA_SIZED(GATHER_ND, gather_nd)

#define ONE_HOT(f, bytes)                                                                                  \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const void *indices, int32_t index_bytes, const sized_##bytes *on, \
                                        const sized_##bytes *off, sized_##bytes *y, int64_t depth,         \
                                        int64_t inner, int64_t count)) {                                   \
    one_hot(indices, index_bytes, on, off, y, depth, inner, count);                                        \
  }
WEFT_CUDA_SIZED(ONE_HOT, one_hot)

#define SCATTER_ADD(f, type)                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *updates, type *y, weft_cuda_scatter_t s)) { \
    scatter_add(updates, y, s);                                                                \
  }
WEFT_CUDA_FLOAT_INDEX(SCATTER_ADD, scatter_add)

#define SCATTER_FOLD(f, type)                                                                  \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (const type *updates, type *y, weft_cuda_scatter_t s)) { \
    scatter_fold(updates, y, s);                                                               \
  }
WEFT_CUDA_FLOAT_INDEX(SCATTER_FOLD, scatter_fold)

#define FOLD_START(f, type) \
  WEFT_CUDA_KERNEL(weft_##f##_##type, (type * y, int32_t how, int64_t n)) { fold_start(y, how, n); }
WEFT_CUDA_FLOAT_INDEX(FOLD_START, fold_start)

#define SCATTER_PUT(f, bytes)                                                                 \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes,                                                        \
                   (const sized_##bytes *updates, sized_##bytes *y, weft_cuda_scatter_t s)) { \
    scatter_put(updates, y, s);                                                               \
  }
WEFT_CUDA_SIZED(SCATTER_PUT, scatter_put)
