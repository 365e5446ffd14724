/* kernels/cpu/tile/tile_one.tmpl.h - the product of tile.h for ELEM; names end with SUFFIX. */
#define TILE_CAT_(a, b) a##b
#define TILE_CAT(a, b) TILE_CAT_(a, b)
#define TILE_NAME(stem) TILE_CAT(stem, SUFFIX)
#define TILE_LANES (WEFT_TILE_BYTES / (int)sizeof(ELEM))
#define TILE_VECTOR TILE_NAME(tile_vector)

/* A vector that may lie at any address of an ELEM. */
typedef ELEM TILE_VECTOR __attribute__((vector_size(WEFT_TILE_BYTES), aligned(sizeof(ELEM)), may_alias));

/* `rows` rows from row `first`; rows, vectors, by_columns are constants where this is inlined. */
WEFT_SPECIALISED void TILE_NAME(tile_block)(const weft_tile_t *t, int64_t first, int rows, int vectors,
                                            bool by_columns, bool accumulate, ELEM *c, int64_t c_stride) {
  TILE_VECTOR sum[WEFT_TILE_ROWS][2];
  WEFT_UNROLL
  for (int m = 0; m < rows; m++) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) {
      sum[m][v] = (TILE_VECTOR){0};
      __builtin_prefetch(c + m * c_stride + v * TILE_LANES, 1);
    }
  }
  const int64_t row = by_columns ? 1 : t->a_stride, step = by_columns ? t->a_stride : 1;
  for (int64_t tap = 0; tap < t->taps; tap++) {
    const ELEM *a = (const ELEM *)t->a[tap] + first * row, *b = t->b[tap];
    for (int64_t k = 0; k < t->depth; k++) {
      TILE_VECTOR right[2];
      WEFT_UNROLL
      for (int v = 0; v < vectors; v++)
        __builtin_prefetch(b + WEFT_TILE_AHEAD * t->b_stride + v * TILE_LANES);
      WEFT_UNROLL
      for (int v = 0; v < vectors; v++) right[v] = *(const TILE_VECTOR *)(b + v * TILE_LANES);
      WEFT_UNROLL
      for (int m = 0; m < rows; m++) {
        const ELEM left = a[m * row];
        WEFT_UNROLL
        for (int v = 0; v < vectors; v++) sum[m][v] += right[v] * left;
      }
      a += step;
      b += t->b_stride;
    }
  }
  WEFT_UNROLL
  for (int m = 0; m < rows; m++) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) {
      TILE_VECTOR *to = (TILE_VECTOR *)(c + m * c_stride + v * TILE_LANES);
      if (accumulate) sum[m][v] += *to;
      *to = sum[m][v];
    }
  }
}

/* The same for a number of rows that is known here only. */
WEFT_SPECIALISED void TILE_NAME(tile_rows)(const weft_tile_t *t, int64_t first, int rows, int vectors,
                                           bool by_columns, bool accumulate, ELEM *c, int64_t c_stride) {
#define TILE_CASE(r) \
  case r: TILE_NAME(tile_block)(t, first, r, vectors, by_columns, accumulate, c, c_stride); return;
  switch (rows) {
    TILE_CASE(1)
    TILE_CASE(2)
    TILE_CASE(3)
    TILE_CASE(4)
    TILE_CASE(5)
    TILE_CASE(6)
#if WEFT_TILE_ROWS > 6
    TILE_CASE(7)
    TILE_CASE(8)
    TILE_CASE(9)
    TILE_CASE(10)
    TILE_CASE(11)
    TILE_CASE(12)
    TILE_CASE(13)
    TILE_CASE(14)
#endif
    default: return;
  }
#undef TILE_CASE
}

static void TILE_NAME(tile_1)(const weft_tile_t *t, int64_t first, int rows, ELEM *c, int64_t c_stride,
                              bool accumulate) {
  if (t->a_by_columns) {
    TILE_NAME(tile_rows)(t, first, rows, 1, true, accumulate, c, c_stride);
  } else {
    TILE_NAME(tile_rows)(t, first, rows, 1, false, accumulate, c, c_stride);
  }
}

static void TILE_NAME(tile_2)(const weft_tile_t *t, int64_t first, int rows, ELEM *c, int64_t c_stride,
                              bool accumulate) {
  if (t->a_by_columns) {
    TILE_NAME(tile_rows)(t, first, rows, 2, true, accumulate, c, c_stride);
  } else {
    TILE_NAME(tile_rows)(t, first, rows, 2, false, accumulate, c, c_stride);
  }
}

/* Rows are divided into blocks of about the same height; what is narrower than its vectors goes through a
 * block of its own. */
static void TILE_NAME(tile_run)(const weft_tile_t *t, int64_t m, int64_t n, ELEM *c) {
  ELEM whole[WEFT_TILE_ROWS * 2 * TILE_LANES];
  const int64_t width = n <= TILE_LANES ? TILE_LANES : 2 * TILE_LANES;
  int64_t blocks = (m + WEFT_TILE_ROWS - 1) / WEFT_TILE_ROWS;
  for (int64_t first = 0; first < m; blocks--) {
    const int rows = (int)((m - first + blocks - 1) / blocks);
    ELEM *to = n == width ? c + first * t->c_stride : whole;
    const int64_t stride = n == width ? t->c_stride : width;
    const bool accumulate = n == width && t->accumulate;
    if (width == TILE_LANES) {
      TILE_NAME(tile_1)(t, first, rows, to, stride, accumulate);
    } else {
      TILE_NAME(tile_2)(t, first, rows, to, stride, accumulate);
    }
    for (int r = 0; n != width && r < rows; r++) {
      ELEM *line = c + (first + r) * t->c_stride;
      for (int64_t i = 0; i < n; i++)
        line[i] = t->accumulate ? line[i] + whole[r * width + i] : whole[r * width + i];
    }
    first += rows;
  }
}

#undef ELEM
#undef SUFFIX
#undef TILE_CAT_
#undef TILE_CAT
#undef TILE_NAME
#undef TILE_LANES
#undef TILE_VECTOR
