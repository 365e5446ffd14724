/* kernels/cpu/tile/tile.h - products of small blocks, summed over taps: what convolution is made of.
 *
 *   c[m, n] = sum over taps t and k < depth of a_t[m, k] * b_t[k, n]
 *
 * A block of c stays in registers while the sum is made: WEFT_TILE_ROWS rows by two vectors. Each number of
 * b is loaded as part of a vector, each number of a is broadcast. So `a` may be an image as it lies in
 * memory; only `b` has to be laid out in panels of two vectors. Each element is summed in the same order
 * (taps, then k) wherever its block begins, so a result does not depend on how rows and columns are divided.
 * An epilogue is computed on the block before it leaves the registers; its bits are those of
 * kernels/cpu/loops/epilogue.h.
 *
 * Where rows of `a` lie far apart, the processor does not foresee what is read next: a block asks for its
 * part of c and of the epilogue's addend while its first products are made, and for the `a` of the next block
 * during the others. Source: register blocking after Goto & van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication" (2008), section 4; taps after Dukhan, "The Indirect Convolution Algorithm" (2019).
 */
#ifndef WEFT_KERNELS_CPU_TILE_TILE_H_
#define WEFT_KERNELS_CPU_TILE_TILE_H_

#include "kernels/cpu/loops/epilogue.h"
#include "kernels/cpu/tile/vector.h"
#include "tensor/dtype.h"

/* Rows of a block: as many as the registers hold with two vectors each, beside two of b. */
#if WEFT_TILE_REGISTERS == 32
#define WEFT_TILE_ROWS 14
#else
#define WEFT_TILE_ROWS 6
#endif

/* Rows of b that are asked for ahead: a panel that the caches do not hold comes from memory meanwhile. */
#define WEFT_TILE_AHEAD 12
/* The next rows of `a` are asked for where a block of them is no larger than a usual first-level cache. */
#define WEFT_TILE_AHEAD_BYTES (32 * 1024)

typedef struct weft_tile {
  const void *const *a, *const *b; /* of each tap */
  int64_t taps, depth;
  bool a_by_columns; /* a_t[m, k] lies at m + k * a_stride; else at m * a_stride + k */
  int64_t a_stride;  /* elements, as are the other strides */
  int64_t b_stride;  /* from a row of b to the next */
  int64_t c_stride;
  bool accumulate; /* add to c */
  /* What follows on c, which is float, its rows `epilogue->channels` apart, and not accumulated; NULL:
   * nothing. */
  const weft_epilogue_t *epilogue;
  int64_t row, column; /* of the epilogue's result, where c begins */
} weft_tile_t;

/* Elements in a vector. A panel of b has two vectors to a row, or one. */
static inline int64_t weft_tile_vector(weft_dtype_t dtype) {
  return WEFT_TILE_BYTES / (int64_t)weft_dtype_size(dtype);
}

/* Computes m rows of n columns, at most two vectors, into c. dtype: float or double. A row of b must be
 * readable up to a whole vector (n <= vector), or two. Thread-safe. */
void weft_tile_run(weft_dtype_t dtype, const weft_tile_t *t, int64_t m, int64_t n, void *c);

#endif /* WEFT_KERNELS_CPU_TILE_TILE_H_ */
