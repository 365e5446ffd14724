/* kernels/cpu/math/tiles.h - products of matrices of float, half and bfloat16 by tiles that stay in
 * registers.
 *
 * For the levels that multiply and add in one instruction (WEFT_SIMD_FMA); OpenBLAS computes the others.
 * Unlike OpenBLAS's, a product may be computed in pieces, of rows and of columns, without a difference in any
 * bit: an element of c is the sum over k in order, in blocks that depend on k alone. Pieces of a few rows do
 * not lay out all of b first, and a product of a few thousand multiplications costs nothing beside them.
 *
 * Halfs become float where they are laid out, and their sums are rounded once, at the end. Pairs of bfloat16
 * are multiplied by instruction where the processor has it, as oneDNN's products are in TensorFlow: the
 * products are exact, sums are of float, and subnormal numbers count as zeros.
 *
 * Source: the blocking of K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
 * (2008), except that a panel of b is laid out by the tile that reads it first, and only as wide as a tile.
 */
#ifndef WEFT_KERNELS_CPU_MATH_TILES_H_
#define WEFT_KERNELS_CPU_MATH_TILES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* c[M,N] = op(a)[M,K] . op(b)[K,N], or added to c. */
typedef struct weft_tiles {
  weft_dtype_t dtype;    /* of all three: WEFT_F32, WEFT_F16 or WEFT_BF16 */
  bool turns_a, turns_b; /* stored [K,M], [N,K] */
  int dots; /* weft_tiles_dots() of the whole product where b is turned and a is not: each element is a dot
               product of rows. 0 otherwise. Of float */
  bool accumulate;
  int64_t m, n, k;       /* at least 1 */
  int64_t lda, ldb, ldc; /* elements from one stored row to the next */
  const void *a, *b;
  const float *panels; /* b as weft_tiles_pack lays it out; NULL: it is laid out on the way. No bit differs.
                          Of float only */
  void *c;
} weft_tiles_t;

/* Rows and columns of a tile: pieces best begin at multiples of them. */
int64_t weft_tiles_rows(void);
int64_t weft_tiles_columns(void);
/* Vectors of partial sums of a dot product where m rows of k numbers are so few that b is not laid out; else
 * 0. */
int weft_tiles_dots(int64_t m, int64_t k);
/* Columns that a product of m rows takes at a time, a multiple of weft_tiles_columns(): b is read as it is,
 * in wide strips, for very few rows. */
int64_t weft_tiles_strip(int64_t m);
/* Bytes that weft_tiles_run needs for a piece of at most m rows and n columns: no more than 2 MiB. */
size_t weft_tiles_scratch(weft_dtype_t dtype, int64_t m, int64_t n);
/* Bytes of all panels of a b[K,N]; 0: too many. */
size_t weft_tiles_panels_bytes(int64_t k, int64_t n);
/* Lays out columns [column, column + columns) of t's b in `panels`, which has room for all of b. `column` is
 * a multiple of weft_tiles_columns(), and so is `columns`, but at the end. */
void weft_tiles_pack(const weft_tiles_t *t, int64_t column, int64_t columns, float *panels);
/* Rows [row, row + rows) and columns [column, column + columns) of the product; with panels, `column` is a
 * multiple of weft_tiles_columns(). `scratch`: aligned to 64 bytes, used by one thread at a time. */
void weft_tiles_run(const weft_tiles_t *t, int64_t row, int64_t rows, int64_t column, int64_t columns,
                    void *scratch);

#endif /* WEFT_KERNELS_CPU_MATH_TILES_H_ */
