/* kernels/cpu/math/tile_one.tmpl.h - tiles of ROWS rows. How a is stored, the width and whether b is laid out
 * meanwhile are constants of each variant, so that every address is a register and a constant. With PAIRS a
 * word of a and b is two bfloat16 (simd.h), and both are laid out. */
#define TILE_JOIN(a, b, c) a##b##c
#ifdef PAIRS
#define TILE_NAME(rows, end) TILE_JOIN(pairs_, rows, end)
#define TILE_TARGET WEFT_SIMD_PAIRS_TARGET
#define TILE_SPLAT(p) weft_simd_splat_word(p)
#define TILE_ADD(x, y, sum) weft_simd_dot_pairs(x, y, sum)
#else
#define TILE_NAME(rows, end) TILE_JOIN(tile_, rows, end)
#define TILE_TARGET
#define TILE_SPLAT(p) weft_simd_splat(*(p))
#define TILE_ADD(x, y, sum) weft_simd_fma(x, y, sum)
#endif
#define TILE_ANY TILE_NAME(ROWS, _any)

/* row, step: elements of a from one row to the next, and from one k to the next. width: vectors of b. */
TILE_TARGET static inline __attribute__((always_inline)) void TILE_ANY(const tile_t *t, const int64_t row,
                                                                       const int64_t step,
                                                                       const int64_t b_step, float *keep,
                                                                       const int width) {
  weft_simd_t sums[ROWS][TILE_VECTORS];
  const float *a = t->a, *b = t->b;
  UNROLLED for (int i = 0; i < ROWS; i++) {
    UNROLLED for (int v = 0; v < width; v++) {
      sums[i][v] = (weft_simd_t){0};
      __builtin_prefetch(t->c + i * t->ldc + v * WEFT_SIMD, 1); /* comes while the sums are computed */
    }
  }
  for (int64_t l = 0; l < t->k; l++) {
    weft_simd_t column[TILE_VECTORS];
    UNROLLED for (int v = 0; v < width; v++) column[v] = weft_simd_load(b + v * WEFT_SIMD);
    if (keep != NULL) { /* the line that the next panel begins with comes meanwhile */
      __builtin_prefetch(b + TILE_COLUMNS, 0, 2);
      __builtin_prefetch(b + TILE_COLUMNS + 16, 0, 2);
      UNROLLED for (int v = 0; v < width; v++) weft_simd_store(keep + v * WEFT_SIMD, column[v]);
      keep += TILE_COLUMNS;
    }
    UNROLLED for (int i = 0; i < ROWS; i++) {
      const weft_simd_t x = TILE_SPLAT(a + i * row);
      UNROLLED for (int v = 0; v < width; v++) sums[i][v] = TILE_ADD(x, column[v], sums[i][v]);
    }
    a += step;
    b += b_step;
  }
  UNROLLED for (int i = 0; i < ROWS; i++) {
    UNROLLED for (int v = 0; v < width; v++) {
      float *c = t->c + i * t->ldc + v * WEFT_SIMD;
      weft_simd_store(c, t->adds ? weft_simd_load(c) + sums[i][v] : sums[i][v]);
    }
  }
}

#define TILE_VARIANT(end, row, step, b_step, keep, width)         \
  TILE_TARGET static void TILE_NAME(ROWS, end)(const tile_t *t) { \
    TILE_ANY(t, row, step, b_step, keep, width);                  \
  }
#ifndef PAIRS
TILE_VARIANT(_rows, A_STEP, 1, TILE_COLUMNS, NULL, TILE_VECTORS)
TILE_VARIANT(_rows_keep, A_STEP, 1, t->ldb, t->keep, TILE_VECTORS)
TILE_VARIANT(_rows_half, A_STEP, 1, TILE_COLUMNS, NULL, TILE_VECTORS / 2)
TILE_VARIANT(_turned_keep, 1, TILE_ROWS, t->ldb, t->keep, TILE_VECTORS)
TILE_VARIANT(_there, t->row, t->step, t->ldb, NULL, TILE_VECTORS)
TILE_VARIANT(_there_keep, t->row, t->step, t->ldb, t->keep, TILE_VECTORS)
TILE_VARIANT(_there_half, t->row, t->step, t->ldb, NULL, TILE_VECTORS / 2)
#endif
TILE_VARIANT(_turned, 1, TILE_ROWS, TILE_COLUMNS, NULL, TILE_VECTORS)
TILE_VARIANT(_turned_half, 1, TILE_ROWS, TILE_COLUMNS, NULL, TILE_VECTORS / 2)

#undef TILE_VARIANT
#undef TILE_ANY
#undef TILE_ADD
#undef TILE_SPLAT
#undef TILE_TARGET
#undef TILE_NAME
#undef TILE_JOIN
#undef ROWS
