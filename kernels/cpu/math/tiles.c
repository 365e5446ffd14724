/* kernels/cpu/math/tiles.c - see the header.
 *
 * For each block of K, and of rows that fit the second-level cache: the rows of a are laid out in panels of
 * TILE_ROWS; then each panel of TILE_COLUMNS columns of b meets all of them. The first tile reads b where it
 * is and lays the panel out as it goes, so that the others find it in the first-level cache.
 */
#include "kernels/cpu/math/tiles.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/narrow.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/loops/turn.h"

/* A tile of 14 x 2 vectors leaves 4 of 32 registers for a and b; one of 6 x 2 leaves 4 of 16. */
enum {
  TILE_ROWS = WEFT_SIMD == 16 ? 14 : 6,
  TILE_VECTORS = 2,
  TILE_COLUMNS = TILE_VECTORS * WEFT_SIMD,
  K_BLOCK = 256, /* a panel of b then has 8 to 32 KiB */
  A_STEP =
      K_BLOCK + 16, /* of a row of a as laid out: not a power of two, which would fall on few cache sets */
  ROW_BLOCK = 28 * TILE_ROWS, /* 180 to 420 KiB of a */
  /* Up to so many floats, and from so many k on, a stays where it is: the first-level cache holds it. The
   * rows of a tile of 14 would need more addresses than there are registers. */
  THERE_SIZE = WEFT_SIMD == 16 ? 0 : 4096,
  THERE_K = 8,
  FEW_COLUMNS = 160, /* up to here a is copied row by row: transposing it costs more than it saves */
  THIN_ROWS = 3,     /* up to here b is read once and laid out never */
  THIN_VECTORS = 8,
  THIN_AHEAD = 8, /* rows of b that are asked for ahead: they lie too far apart for the processor to do it */
};

/* Vectors of a strip of few rows: its sums stay in registers. */
#define THIN_WIDTH(rows) (2 * TILE_ROWS / (rows) < THIN_VECTORS ? 2 * TILE_ROWS / (rows) : THIN_VECTORS)

#define UNROLLED _Pragma("GCC unroll 16")

typedef struct tile {
  int64_t k, ldb, ldc;
  const float *a, *b;
  float *keep; /* where b is laid out */
  float *c;
  bool adds;
  int64_t row, step; /* of an a that is not laid out: from one row to the next, from one k to the next */
} tile_t;

#include "kernels/cpu/math/tile_rows.tmpl.h"
#if WEFT_SIMD_PAIRS
#define PAIRS
#include "kernels/cpu/math/tile_rows.tmpl.h"
#undef PAIRS
#endif

typedef void tile_fn(const tile_t *t);
/* How a lies: laid out row by row, laid out in panels, or where the caller has it. */
typedef enum a_place { A_ROWS, A_TURNED, A_THERE, A_PLACES } a_place_t;
/* "keep" lays b out, "half" is for one vector of columns. */
typedef struct tile_fns {
  tile_fn *whole, *keep, *half;
} tile_fns_t;
#define FNS(r)                                                                                      \
  {                                                                                                 \
    [A_ROWS] = {tile_##r##_rows, tile_##r##_rows_keep, tile_##r##_rows_half},                       \
    [A_TURNED] = {tile_##r##_turned, tile_##r##_turned_keep, tile_##r##_turned_half}, [A_THERE] = { \
      tile_##r##_there,                                                                             \
      tile_##r##_there_keep,                                                                        \
      tile_##r##_there_half                                                                         \
    }                                                                                               \
  }
static const tile_fns_t tile_fns[TILE_ROWS + 1][A_PLACES] = {
    {{NULL, NULL, NULL}},
    FNS(1),
    FNS(2),
    FNS(3),
    FNS(4),
    FNS(5),
    FNS(6),
#if WEFT_SIMD == 16
    FNS(7),
    FNS(8),
    FNS(9),
    FNS(10),
    FNS(11),
    FNS(12),
    FNS(13),
    FNS(14),
#endif
};

#if WEFT_SIMD_PAIRS
/* By number of rows: of two vectors of columns, and of one. */
#define PAIR_FNS(r) \
  { pairs_##r##_turned, pairs_##r##_turned_half }
static tile_fn *const pair_fns[TILE_ROWS + 1][2] = {
    {NULL, NULL}, PAIR_FNS(1),  PAIR_FNS(2),  PAIR_FNS(3),  PAIR_FNS(4),
    PAIR_FNS(5),  PAIR_FNS(6),  PAIR_FNS(7),  PAIR_FNS(8),  PAIR_FNS(9),
    PAIR_FNS(10), PAIR_FNS(11), PAIR_FNS(12), PAIR_FNS(13), PAIR_FNS(14),
};
#endif

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t weft_tiles_rows(void) { return TILE_ROWS; }
int64_t weft_tiles_columns(void) { return TILE_COLUMNS; }
int64_t weft_tiles_strip(int64_t m) { return m <= THIN_ROWS ? THIN_WIDTH(m) * WEFT_SIMD : TILE_COLUMNS; }

/* Rows of the tiles of `rows` rows: about the same number in each, because one of less than four rows waits
 * for its own sums. */
static int64_t tile_height(int64_t rows) {
  const int64_t tiles = (rows - 1) / TILE_ROWS + 1;
  return (rows - 1) / tiles + 1;
}

/* A panel of b, and behind it the rows of a; of halfs also some of their lines as words, and the sums of a
 * block. Stores of whole blocks write up to 8 elements past the end. */
enum { B_PANEL = K_BLOCK * TILE_COLUMNS, STAGE = TILE_COLUMNS * A_STEP, STRIP = 512 };
static int64_t scratch_rows(int64_t m) { return m < ROW_BLOCK ? m + TILE_ROWS : ROW_BLOCK; }
size_t weft_tiles_scratch(weft_dtype_t dtype, int64_t m, int64_t n) {
  const int64_t rows = scratch_rows(m), floats = B_PANEL + rows * A_STEP + 16;
  if (dtype == WEFT_F32) return (size_t)floats * sizeof(float);
  return (size_t)(floats + STAGE + 16 + least(m, ROW_BLOCK) * least(n, STRIP)) * sizeof(float);
}

/* A panel of `rows` rows from [M,K] to [K,TILE_ROWS]. */
static void turn_rows(const float *a, int64_t lda, int64_t k, int64_t rows, float *to) {
  int64_t l = 0;
  for (; l + 8 <= k; l += 8) {
    /* The last group of rows first: what it writes beyond TILE_ROWS belongs to the next k of the first group.
     */
    for (int64_t g = (TILE_ROWS - 1) / 8 * 8; g >= 0; g -= 8) {
      if (rows - g >= 8) {
        weft_turn_4bytes(a + g * lda + l, lda, to + l * TILE_ROWS + g, TILE_ROWS);
      } else if (rows > g) {
        float block[8][8];
        for (int64_t i = 0; i < 8; i++) {
          memcpy(block[i], a + (g + least(i, rows - g - 1)) * lda + l, sizeof block[i]);
        }
        weft_turn_4bytes(block, 8, to + l * TILE_ROWS + g, TILE_ROWS);
      }
    }
  }
  for (; l < k; l++) {
    for (int64_t i = 0; i < rows; i++) to[l * TILE_ROWS + i] = a[i * lda + l];
  }
}

/* n numbers; few of them without a call, by two copies of a constant size, which may overlap. */
static inline void copy_few(float *restrict to, const float *restrict from, int64_t n) {
  if (n > 32) {
    memcpy(to, from, (size_t)n * sizeof *to);
  } else if (n >= 16) {
    memcpy(to, from, 16 * sizeof *to);
    memcpy(to + n - 16, from + n - 16, 16 * sizeof *to);
  } else if (n >= 8) {
    memcpy(to, from, 8 * sizeof *to);
    memcpy(to + n - 8, from + n - 8, 8 * sizeof *to);
  } else if (n >= 4) {
    memcpy(to, from, 4 * sizeof *to);
    memcpy(to + n - 4, from + n - 4, 4 * sizeof *to);
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
  }
}

/* `rows` rows from [K,M] to panels of `height` rows, [K,TILE_ROWS], A_STEP * TILE_ROWS apart. */
static void copy_turned_rows(const float *a, int64_t lda, int64_t k, int64_t rows, int64_t height,
                             float *panel) {
  for (int64_t i = 0; i < rows; i += height, panel += A_STEP * TILE_ROWS) {
    const int64_t n = least(rows - i, height);
    for (int64_t l = 0; l < k; l++) {
      if (rows - i >= TILE_ROWS) { /* more than its own rows, so that the size is a constant */
        memcpy(panel + l * TILE_ROWS, a + l * lda + i, TILE_ROWS * sizeof *a);
      } else {
        copy_few(panel + l * TILE_ROWS, a + l * lda + i, n);
      }
    }
  }
}

/* A panel of n columns from [N,K] to [K,TILE_COLUMNS]. */
static void turn_columns(const float *b, int64_t ldb, int64_t k, int64_t n, float *to) {
  int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    int64_t l = 0;
    for (; l + 8 <= k; l += 8)
      weft_turn_4bytes(b + j * ldb + l, ldb, to + l * TILE_COLUMNS + j, TILE_COLUMNS);
    for (; l < k; l++) {
      for (int64_t i = 0; i < 8; i++) to[l * TILE_COLUMNS + j + i] = b[(j + i) * ldb + l];
    }
  }
  for (; j < n; j++) {
    for (int64_t l = 0; l < k; l++) to[l * TILE_COLUMNS + j] = b[j * ldb + l];
  }
}

static void copy_columns(const float *b, int64_t ldb, int64_t k, int64_t n, float *to) {
  for (int64_t l = 0; l < k; l++) copy_few(to + l * TILE_COLUMNS, b + l * ldb, n);
}

/* A tile of n columns, which need not fill a vector: it is computed beside c then. */
static void run_tile(tile_fn *fn, tile_t *t, int64_t rows, int64_t n) {
  if (n == TILE_COLUMNS || n == WEFT_SIMD) {
    fn(t);
    return;
  }
  float whole[TILE_ROWS * TILE_COLUMNS];
  tile_t beside = *t;
  beside.c = whole;
  beside.ldc = TILE_COLUMNS;
  beside.adds = false;
  fn(&beside);
  for (int64_t i = 0; i < rows; i++) {
    float *c = t->c + i * t->ldc, *sums = whole + i * TILE_COLUMNS;
    for (int64_t j = 0; t->adds && j < n; j++) sums[j] = c[j] + sums[j];
    copy_few(c, sums, n);
  }
}

/* ---- panels of all of b: for each block of K those of all columns, one behind the other ---- */

/* Rows of a block of K but the last. */
static int64_t k_block(int64_t k) {
  const int64_t blocks = (k - 1) / K_BLOCK + 1;
  return (k - 1) / blocks + 1;
}

static int64_t whole_panels(int64_t n) { return (n - 1) / TILE_COLUMNS * TILE_COLUMNS + TILE_COLUMNS; }

/* Where the panel of `column` begins, in a block of k rows from row l on. */
static int64_t panel_place(int64_t n, int64_t l, int64_t k, int64_t column) {
  return l * whole_panels(n) + column * k;
}

size_t weft_tiles_panels_bytes(int64_t k, int64_t n) {
  size_t columns = 0, bytes = 0;
  const bool fits = weft_add_size((size_t)n, TILE_COLUMNS, &columns) &&
                    weft_mul_size(columns, (size_t)k, &bytes) && weft_mul_size(bytes, sizeof(float), &bytes);
  return fits ? bytes : 0;
}

void weft_tiles_pack(const weft_tiles_t *t, int64_t column, int64_t columns, float *panels) {
  const int64_t block = k_block(t->k);
  const float *b = t->b;
  for (int64_t l = 0; l < t->k; l += block) {
    const int64_t k = least(t->k - l, block);
    for (int64_t j = column; j < column + columns; j += TILE_COLUMNS) {
      const int64_t n = least(t->n - j, TILE_COLUMNS);
      float *to = panels + panel_place(t->n, l, k, j);
      if (n < TILE_COLUMNS) memset(to, 0, (size_t)(k * TILE_COLUMNS) * sizeof *to);
      if (t->turns_b) {
        turn_columns(b + j * t->ldb + l, t->ldb, k, n, to);
      } else {
        copy_columns(b + l * t->ldb + j, t->ldb, k, n, to);
      }
    }
  }
}

/* The rows of a for the tiles of a block. */
typedef struct rows_of_a {
  const float *first;
  a_place_t place;
  int64_t height;    /* rows of a tile but the last */
  int64_t tile_step; /* elements from one tile's rows to the next one's */
  int64_t row, step; /* of A_THERE, as in tile_t */
} rows_of_a_t;

/* A block of rows and of K against all columns of the piece. `b`, `c`: of the block. `panels`: of those
 * columns; NULL: they are laid out in `panel`, one after the other. */
static void run_block(const weft_tiles_t *t, const rows_of_a_t *a, const float *b, int64_t k, int64_t rows,
                      int64_t columns, float *c, bool adds, const float *panels, float *panel) {
  for (int64_t j = 0; j < columns; j += TILE_COLUMNS) {
    const int64_t n = least(columns - j, TILE_COLUMNS);
    const bool reads_b = panels == NULL && !t->turns_b && n == TILE_COLUMNS;
    const float *laid_out = panels == NULL ? panel : panels + j * k;
    if (panels == NULL && t->turns_b) {
      turn_columns(b + j * t->ldb, t->ldb, k, n, panel);
    } else if (panels == NULL && !reads_b) {
      copy_columns(b + j, t->ldb, k, n, panel);
    }
    const float *first = a->first;
    for (int64_t i = 0; i < rows; i += a->height, first += a->tile_step) {
      const int64_t r = least(rows - i, a->height);
      const tile_fns_t *fns = &tile_fns[r][a->place];
      tile_t one = {.k = k,
                    .ldb = TILE_COLUMNS,
                    .ldc = t->ldc,
                    .a = first,
                    .b = laid_out,
                    .c = c + i * t->ldc + j,
                    .adds = adds,
                    .row = a->row,
                    .step = a->step};
      tile_fn *fn = n <= WEFT_SIMD ? fns->half : fns->whole;
      if (reads_b && i == 0) {
        one.b = b + j;
        one.ldb = t->ldb;
        one.keep = panel;
        fn = fns->keep;
      }
      run_tile(fn, &one, r, n);
    }
  }
}

/* ---- a few rows: b is read once, in wide strips ---- */

static inline __attribute__((always_inline)) void thin_strip(const tile_t *t, int64_t row, int64_t step,
                                                             const int rows, const int width) {
  weft_simd_t sums[THIN_ROWS][THIN_VECTORS];
  UNROLLED for (int i = 0; i < rows; i++) {
    UNROLLED for (int v = 0; v < width; v++) sums[i][v] = (weft_simd_t){0};
  }
  const float *b = t->b;
  for (int64_t l = 0; l < t->k; l++) {
    UNROLLED for (int v = 0; v < width; v++) __builtin_prefetch(b + THIN_AHEAD * t->ldb + v * WEFT_SIMD);
    UNROLLED for (int i = 0; i < rows; i++) {
      const weft_simd_t x = weft_simd_splat(t->a[i * row + l * step]);
      UNROLLED for (int v = 0; v < width; v++) {
        sums[i][v] = weft_simd_fma(x, weft_simd_load(b + v * WEFT_SIMD), sums[i][v]);
      }
    }
    b += t->ldb;
  }
  UNROLLED for (int i = 0; i < rows; i++) {
    UNROLLED for (int v = 0; v < width; v++) {
      float *c = t->c + i * t->ldc + v * WEFT_SIMD;
      weft_simd_store(c, t->adds ? weft_simd_load(c) + sums[i][v] : sums[i][v]);
    }
  }
}

/* Returns how many columns the strips took: what is left is narrower than one. */
static int64_t run_thin(tile_t t, int64_t row, int64_t step, int64_t rows, int64_t columns) {
  const int64_t width = THIN_WIDTH(rows) * WEFT_SIMD;
  int64_t j = 0;
  for (; j + width <= columns; j += width, t.b += width, t.c += width) {
    switch (rows) {
      case 1: thin_strip(&t, row, step, 1, THIN_WIDTH(1)); break;
      case 2: thin_strip(&t, row, step, 2, THIN_WIDTH(2)); break;
      default: thin_strip(&t, row, step, 3, THIN_WIDTH(3)); break;
    }
  }
  return j;
}

/* ---- a few rows against rows of b ---- */

/* Rows of b that are read side by side with a's, of which there are so many at most: the sums are registers.
 */
enum {
  DOT_COLUMNS = 4,
  DOT_ROWS = WEFT_SIMD == 16 ? 4 : 2,
  DOT_K = 64, /* of more than one row: shorter dot products cost more than b's layout */
};

int weft_tiles_dots(int64_t m, int64_t k) { return m == 1 ? 2 : m <= DOT_ROWS && k >= DOT_K ? 1 : 0; }

static inline float sum_of(weft_simd_t s) {
  float part[WEFT_SIMD];
  weft_simd_store(part, s);
  UNROLLED for (int half = WEFT_SIMD / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) part[i] += part[i + half];
  }
  return part[0];
}

/* The first `num` of DOT_COLUMNS columns of c, dot products with the rows b. A sum has `parts` vectors; that
 * and `rows` are constants where this is inlined. */
static inline __attribute__((always_inline)) void dots(const weft_tiles_t *t, const float *const *b,
                                                       int64_t num, const int rows, const int parts,
                                                       const float *a, float *c) {
  weft_simd_t sums[DOT_ROWS][DOT_COLUMNS][2] = {{{{0}}}};
  int64_t l = 0;
  for (; l + parts * WEFT_SIMD <= t->k; l += parts * WEFT_SIMD) {
    UNROLLED for (int v = 0; v < parts; v++) {
      weft_simd_t right[DOT_COLUMNS];
      UNROLLED for (int i = 0; i < DOT_COLUMNS; i++) right[i] = weft_simd_load(b[i] + l + v * WEFT_SIMD);
      UNROLLED for (int r = 0; r < rows; r++) {
        const weft_simd_t left = weft_simd_load(a + r * t->lda + l + v * WEFT_SIMD);
        UNROLLED for (int i = 0; i < DOT_COLUMNS; i++) {
          sums[r][i][v] = weft_simd_fma(left, right[i], sums[r][i][v]);
        }
      }
    }
  }
  UNROLLED for (int r = 0; r < rows; r++) {
    UNROLLED for (int i = 0; i < DOT_COLUMNS; i++) {
      float sum = sum_of(parts == 1 ? sums[r][i][0] : sums[r][i][0] + sums[r][i][1]);
      for (int64_t at = l; at < t->k; at++) sum += a[r * t->lda + at] * b[i][at];
      if (i < num) c[r * t->ldc + i] = t->accumulate ? c[r * t->ldc + i] + sum : sum;
    }
  }
}

/* A row has the same bits however many are computed with it. */
static void run_dots(const weft_tiles_t *t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const float *a = (const float *)t->a + row * t->lda;
  const float *rows_of_b = t->b;
  for (int64_t j = column; j < column + columns; j += DOT_COLUMNS) {
    const int64_t num = least(column + columns - j, DOT_COLUMNS);
    const float *b[DOT_COLUMNS];
    for (int64_t i = 0; i < DOT_COLUMNS; i++) b[i] = rows_of_b + (j + least(i, num - 1)) * t->ldb;
    float *c = (float *)t->c + row * t->ldc + j;
    if (t->dots == 2) {
      dots(t, b, num, 1, 2, a, c);
    } else if (rows == 1) {
      dots(t, b, num, 1, 1, a, c);
    } else if (rows == 2) {
      dots(t, b, num, 2, 1, a, c);
    } else if (rows == 3 && DOT_ROWS > 2) {
      dots(t, b, num, 3 % (DOT_ROWS + 1), 1, a, c);
    } else {
      dots(t, b, num, DOT_ROWS, 1, a, c);
    }
  }
}

/* ---- half and bfloat16: laid out as words, summed in float ---- */

/* A word is a float, or where the processor multiplies them two bfloat16 of successive k. */
typedef struct narrow {
  void (*widen)(int64_t n, const uint16_t *x, float *y);
  void (*narrow)(int64_t n, const float *x, uint16_t *y);
  bool pairs;
} narrow_t;

static narrow_t narrow_of(weft_dtype_t dtype) {
  if (dtype == WEFT_F16) return (narrow_t){weft_widen_f16, weft_narrow_f16, false};
#if WEFT_SIMD_PAIRS
  return (narrow_t){weft_widen_bf16, weft_narrow_bf16, weft_simd_has_pairs()};
#else
  return (narrow_t){weft_widen_bf16, weft_narrow_bf16, false};
#endif
}

/* n lines of k numbers each: as lines of words, A_STEP apart. */
static void stage_lines(const narrow_t *h, const uint16_t *x, int64_t ld, int64_t k, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i++, x += ld, to += A_STEP) {
    if (!h->pairs) {
      h->widen(k, x, to);
    } else {
      to[k / 2] = 0; /* what an odd last number is multiplied by */
      memcpy(to, x, (size_t)k * sizeof *x);
    }
  }
}

/* n words of a number of each line, at most TILE_COLUMNS. */
static inline __attribute__((always_inline)) void pair_lines(const uint16_t *restrict even,
                                                             const uint16_t *restrict odd, const int64_t n,
                                                             float *to) {
  typedef uint32_t word_t __attribute__((may_alias));
  word_t *restrict words = (void *)to;
  for (int64_t i = 0; i < n; i++) words[i] = even[i] | (uint32_t)odd[i] << 16;
}

/* A line of n numbers for each of k: as lines of n words, to_step apart. */
static void stage_steps(const narrow_t *h, const uint16_t *x, int64_t ld, int64_t k, int64_t n, float *to,
                        int64_t to_step) {
  if (!h->pairs) {
    for (int64_t l = 0; l < k; l++) h->widen(n, x + l * ld, to + l * to_step);
    return;
  }
  static const uint16_t zeros[TILE_COLUMNS]; /* what an odd last line is multiplied by */
  for (int64_t l = 0; l < k; l += 2, to += to_step) {
    const uint16_t *even = x + l * ld, *odd = l + 1 < k ? even + ld : zeros;
    if (n == TILE_COLUMNS) {
      pair_lines(even, odd, TILE_COLUMNS, to);
    } else {
      pair_lines(even, odd, n, to);
    }
  }
}

static tile_fn *narrow_tile(const narrow_t *h, int64_t rows, int64_t n) {
#if WEFT_SIMD_PAIRS
  if (h->pairs) return pair_fns[rows][n <= WEFT_SIMD];
#endif
  (void)h;
  const tile_fns_t *fns = &tile_fns[rows][A_TURNED];
  return n <= WEFT_SIMD ? fns->half : fns->whole;
}

/* A block of at most ROW_BLOCK rows and STRIP columns. `a`: the block's first row, `b`: its first column. */
static void sum_narrow(const weft_tiles_t *t, const narrow_t *h, const uint16_t *a, const uint16_t *b,
                       int64_t rows, int64_t columns, float *scratch, float *sums) {
  float *panel = scratch, *stage = panel + B_PANEL, *laid_out = stage + STAGE + 16;
  const int64_t block = h->pairs ? 2 * k_block((t->k + 1) / 2) : k_block(t->k);
  for (int64_t l = 0; l < t->k; l += block) {
    const int64_t k = least(t->k - l, block), words = h->pairs ? (k + 1) / 2 : k;
    for (int64_t i = 0; i < rows; i += TILE_ROWS) {
      const int64_t r = least(rows - i, TILE_ROWS);
      float *to = laid_out + i * A_STEP;
      if (t->turns_a) {
        stage_steps(h, a + l * t->lda + i, t->lda, k, r, to, TILE_ROWS);
      } else {
        stage_lines(h, a + i * t->lda + l, t->lda, k, r, stage);
        turn_rows(stage, A_STEP, words, r, to);
      }
    }
    for (int64_t j = 0; j < columns; j += TILE_COLUMNS) {
      const int64_t n = least(columns - j, TILE_COLUMNS);
      if (t->turns_b) {
        stage_lines(h, b + j * t->ldb + l, t->ldb, k, n, stage);
        turn_columns(stage, A_STEP, words, n, panel);
      } else {
        stage_steps(h, b + l * t->ldb + j, t->ldb, k, n, panel, TILE_COLUMNS);
      }
      for (int64_t i = 0; i < rows; i += TILE_ROWS) {
        const int64_t r = least(rows - i, TILE_ROWS);
        tile_t one = {.k = words,
                      .ldb = TILE_COLUMNS,
                      .ldc = columns,
                      .a = laid_out + i * A_STEP,
                      .b = panel,
                      .c = sums + i * columns + j,
                      .adds = l > 0};
        run_tile(narrow_tile(h, r, n), &one, r, n);
      }
    }
  }
}

static void run_narrow(const weft_tiles_t *t, int64_t row, int64_t rows, int64_t column, int64_t columns,
                       float *scratch) {
  const narrow_t h = narrow_of(t->dtype);
  const uint16_t *a = t->a, *b = t->b;
  uint16_t *to = t->c;
  float *sums = scratch + B_PANEL + STAGE + scratch_rows(rows) * A_STEP + 32, old[STRIP];
  for (int64_t i = row; i < row + rows; i += ROW_BLOCK) {
    for (int64_t j = column; j < column + columns; j += STRIP) {
      const int64_t r = least(row + rows - i, ROW_BLOCK), n = least(column + columns - j, STRIP);
      sum_narrow(t, &h, a + (t->turns_a ? i : i * t->lda), b + (t->turns_b ? j * t->ldb : j), r, n, scratch,
                 sums);
      if (n == t->ldc && !t->accumulate) {
        h.narrow(r * n, sums, to + i * n);
        continue;
      }
      for (int64_t q = 0; q < r; q++) {
        uint16_t *c = to + (i + q) * t->ldc + j;
        if (t->accumulate) {
          h.widen(n, c, old);
          for (int64_t e = 0; e < n; e++) sums[q * n + e] += old[e];
        }
        h.narrow(n, sums + q * n, c);
      }
    }
  }
}

void weft_tiles_run(const weft_tiles_t *t, int64_t row, int64_t rows, int64_t column, int64_t columns,
                    void *scratch) {
  if (t->dtype != WEFT_F32) {
    run_narrow(t, row, rows, column, columns, scratch);
    return;
  }
  if (t->dots > 0) {
    run_dots(t, row, rows, column, columns);
    return;
  }
  const float *a0 = t->a, *b0 = t->b;
  float *c0 = t->c;
  float *panel = scratch, *laid_out = panel + B_PANEL;
  const int64_t block = k_block(t->k);
  const a_place_t copied = !t->turns_a && columns <= FEW_COLUMNS ? A_ROWS : A_TURNED;
  for (int64_t l = 0; l < t->k; l += block) {
    const int64_t k = least(t->k - l, block);
    const float *b = b0 + (t->turns_b ? column * t->ldb + l : l * t->ldb + column);
    const bool adds = t->accumulate || l > 0;
    for (int64_t i = row; i < row + rows; i += ROW_BLOCK) {
      const int64_t r = least(row + rows - i, ROW_BLOCK), height = tile_height(r);
      const float *a = a0 + (t->turns_a ? l * t->lda + i : i * t->lda + l);
      float *c = c0 + i * t->ldc + column;
      int64_t done = 0;
      if (r <= THIN_ROWS && !t->turns_b) {
        const tile_t thin = {.k = k, .ldb = t->ldb, .ldc = t->ldc, .a = a, .b = b, .c = c, .adds = adds};
        done = run_thin(thin, t->turns_a ? 1 : t->lda, t->turns_a ? t->lda : 1, r, columns);
        if (done == columns) continue;
      }
      rows_of_a_t to = {
          .first = laid_out, .place = copied, .height = height, .tile_step = TILE_ROWS * A_STEP};
      if (k >= THERE_K && (t->turns_a ? k : r) * t->lda <= THERE_SIZE) {
        to.first = a;
        to.place = A_THERE;
        to.row = t->turns_a ? 1 : t->lda;
        to.step = t->turns_a ? t->lda : 1;
        to.tile_step = height * to.row;
      } else if (copied == A_ROWS) {
        to.tile_step = height * A_STEP;
        for (int64_t q = 0; q < r; q++) copy_few(laid_out + q * A_STEP, a + q * t->lda, k);
      } else if (t->turns_a) {
        copy_turned_rows(a, t->lda, k, r, height, laid_out);
      } else {
        for (int64_t q = 0, p = 0; q < r; q += height, p += to.tile_step)
          turn_rows(a + q * t->lda, t->lda, k, least(r - q, height), laid_out + p);
      }
      const float *panels = t->panels == NULL ? NULL : t->panels + panel_place(t->n, l, k, column + done);
      run_block(t, &to, b + (t->turns_b ? 0 : done), k, r, columns - done, c + done, adds, panels, panel);
    }
  }
}
