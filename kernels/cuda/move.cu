/* kernels/cuda/move.cu - elements that change their place: what Transpose, Slice, Pad, Concat and the like
 * come down to. */
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"
#include "kernels/cuda/walk.cuh"

namespace weft {

enum { TILE = 32 };

/* The first tensor of the walk is x, the second y. */
template <class T>
WEFT_FN void move(const T *x, T *y, const weft_cuda_walk_t &w) {
  for (int64_t i = first_index(); i < w.n; i += index_step()) {
    int64_t at[2];
    locate(w, i, at);
    y[at[1]] = x[at[0]];
  }
}

/* x: [batch, rows, columns]; y: [batch, columns, rows]. A block takes a square of x at a time, so that both
 * reads and writes are of neighbours; a column more than the square has keeps its columns in different banks
 * of the memory. */
template <class T>
WEFT_FN void transpose(const T *x, T *y, int64_t batch, int64_t rows, int64_t columns) {
  WEFT_CUDA_SHARED(T, square, TILE * (TILE + 1));
  const int64_t down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE;
  const int column = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE, step = WEFT_CUDA_BLOCK / TILE;
  for (int64_t s = blockIdx.x; s < batch * down * across; s += gridDim.x) {
    const int64_t b = s / (down * across), r0 = s / across % down * TILE, c0 = s % across * TILE;
    for (int i = first; i < TILE; i += step) {
      if (r0 + i < rows && c0 + column < columns)
        square[i * (TILE + 1) + column] = x[(b * rows + r0 + i) * columns + c0 + column];
    }
    __syncthreads();
    for (int i = first; i < TILE; i += step) {
      if (c0 + i < columns && r0 + column < rows)
        y[(b * columns + c0 + i) * rows + r0 + column] = square[column * (TILE + 1) + i];
    }
    __syncthreads();
  }
}

}  // namespace weft

using namespace weft;

#define MOVE(f, bytes)                                                                                   \
  WEFT_CUDA_KERNEL(weft_##f##_##bytes, (const sized_##bytes *x, sized_##bytes *y, weft_cuda_walk_t w)) { \
    move(x, y, w);                                                                                       \
  }
WEFT_CUDA_SIZED(MOVE, move)

#define TRANSPOSE(f, bytes)                                                                            \
  WEFT_CUDA_BLOCK_KERNEL(weft_##f##_##bytes, (const sized_##bytes *x, sized_##bytes *y, int64_t batch, \
                                              int64_t rows, int64_t columns)) {                        \
    transpose(x, y, batch, rows, columns);                                                             \
  }
WEFT_CUDA_SIZED(TRANSPOSE, transpose)
