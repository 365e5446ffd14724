/* kernels/cpu/tile/tile_one.tmpl.h - the product of tile.h for ELEM; names end with SUFFIX. HAS_EPILOGUE: 1
 * for float. */
#define TILE_CAT_(a, b) a##b
#define TILE_CAT(a, b) TILE_CAT_(a, b)
#define TILE_NAME(stem) TILE_CAT(stem, SUFFIX)
#define TILE_LANES (WEFT_TILE_BYTES / (int)sizeof(ELEM))
#define TILE_VECTOR TILE_NAME(tile_vector)
#define TILE_LINE (64 / (int)sizeof(ELEM)) /* of a cache */

/* A vector that may lie at any address of an ELEM. */
typedef ELEM TILE_VECTOR __attribute__((vector_size(WEFT_TILE_BYTES), aligned(sizeof(ELEM)), may_alias));

/* What becomes of the sums: they are stored, added to c, or stored behind the epilogue. */
typedef enum TILE_NAME(tile_end) {
  TILE_NAME(TILE_STORED),
  TILE_NAME(TILE_ADDED),
  TILE_NAME(TILE_FINISHED)
} TILE_NAME(tile_end);

#if HAS_EPILOGUE
typedef int32_t tile_mask __attribute__((vector_size(WEFT_TILE_BYTES)));

/* a where `mask` is set, else b. */
WEFT_SPECIALISED TILE_VECTOR tile_chosen(tile_mask mask, TILE_VECTOR a, TILE_VECTOR b) {
  return (TILE_VECTOR)(((tile_mask)a & mask) | ((tile_mask)b & ~mask));
}

/* NaN stays NaN: comparisons with it are false. */
WEFT_SPECIALISED TILE_VECTOR tile_activated(TILE_VECTOR v, const weft_epilogue_activation_t activation,
                                            float alpha) {
  const TILE_VECTOR zero = {0}, six = zero + 6.0F;
  switch (activation) {
    case WEFT_EPILOGUE_RELU: return tile_chosen(v < zero, zero, v);
    case WEFT_EPILOGUE_RELU6: return tile_chosen(v < zero, zero, tile_chosen(v > six, six, v));
    case WEFT_EPILOGUE_LEAKY_RELU: return tile_chosen(v > zero, v, v * alpha);
    default: return v;
  }
}

WEFT_SPECIALISED void tile_activate(TILE_VECTOR sum[WEFT_TILE_ROWS][2], int rows, int vectors,
                                    const weft_epilogue_activation_t activation, float alpha) {
  WEFT_UNROLL
  for (int m = 0; m < rows; m++) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) sum[m][v] = tile_activated(sum[m][v], activation, alpha);
  }
}

/* The epilogue of the block, whose first row is row `row` of the epilogue's result. */
WEFT_SPECIALISED void tile_finish(TILE_VECTOR sum[WEFT_TILE_ROWS][2], const weft_epilogue_t *e, int64_t row,
                                  int64_t column, int rows, int vectors) {
  if (e->bias != NULL) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) {
      const TILE_VECTOR bias = *(const TILE_VECTOR *)(e->bias + column + v * TILE_LANES);
      WEFT_UNROLL
      for (int m = 0; m < rows; m++) sum[m][v] += bias;
    }
  }
  if (e->factor != NULL) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) {
      const TILE_VECTOR mean = *(const TILE_VECTOR *)(e->mean + column + v * TILE_LANES),
                        factor = *(const TILE_VECTOR *)(e->factor + column + v * TILE_LANES),
                        shift = *(const TILE_VECTOR *)(e->shift + column + v * TILE_LANES);
      WEFT_UNROLL
      for (int m = 0; m < rows; m++) {
        sum[m][v] = (sum[m][v] - mean) * factor;
        WEFT_ROUNDED(sum[m][v]);
        sum[m][v] += shift;
      }
    }
  }
  if (e->addend != NULL) {
    const float *addend = e->addend + row * e->channels + column;
    WEFT_UNROLL
    for (int m = 0; m < rows; m++) {
      WEFT_UNROLL
      for (int v = 0; v < vectors; v++)
        sum[m][v] += *(const TILE_VECTOR *)(addend + m * e->channels + v * TILE_LANES);
    }
  }
  switch (e->activation) {
    case WEFT_EPILOGUE_RELU: tile_activate(sum, rows, vectors, WEFT_EPILOGUE_RELU, 0); break;
    case WEFT_EPILOGUE_RELU6: tile_activate(sum, rows, vectors, WEFT_EPILOGUE_RELU6, 0); break;
    case WEFT_EPILOGUE_LEAKY_RELU:
      tile_activate(sum, rows, vectors, WEFT_EPILOGUE_LEAKY_RELU, e->alpha);
      break;
    default: break;
  }
}
#endif

/* Where a sum has got to, and what is asked for meanwhile. */
typedef struct TILE_NAME(tile_walk) {
  const ELEM *a, *b;
  const ELEM *c, *addend; /* a row of both for each row of b; NULL: none */
  const ELEM *ahead;      /* a line of the cache for each row of b; NULL: none */
} TILE_NAME(tile_walk);

/* Adds to the sums the products of `depth` rows of b. */
WEFT_SPECIALISED TILE_NAME(tile_walk)
    TILE_NAME(tile_add)(TILE_VECTOR sum[WEFT_TILE_ROWS][2], const weft_tile_t *t, TILE_NAME(tile_walk) w,
                        int64_t depth, int rows, int vectors, bool by_columns, int64_t c_stride) {
  const int64_t row = by_columns ? 1 : t->a_stride, step = by_columns ? t->a_stride : 1;
  for (int64_t k = 0; k < depth; k++) {
    TILE_VECTOR right[2];
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) {
      __builtin_prefetch(w.b + WEFT_TILE_AHEAD * t->b_stride + v * TILE_LANES);
      if (w.c == NULL) continue;
      __builtin_prefetch(w.c + v * TILE_LANES, 1);
      __builtin_prefetch(w.addend + v * TILE_LANES);
    }
    if (w.c != NULL) {
      w.c += c_stride;
      w.addend += c_stride;
    }
    if (w.ahead != NULL) {
      __builtin_prefetch(w.ahead);
      w.ahead += TILE_LINE;
    }
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) right[v] = *(const TILE_VECTOR *)(w.b + v * TILE_LANES);
    WEFT_UNROLL
    for (int m = 0; m < rows; m++) {
      const ELEM left = w.a[m * row];
      WEFT_UNROLL
      for (int v = 0; v < vectors; v++) sum[m][v] += right[v] * left;
    }
    w.a += step;
    w.b += t->b_stride;
  }
  return w;
}

/* `rows` rows from row `first`, of all taps; rows, vectors, by_columns are constants where this is inlined.
 */
WEFT_SPECIALISED void TILE_NAME(tile_block)(const weft_tile_t *t, int64_t first, int rows, int vectors,
                                            bool by_columns, TILE_NAME(tile_end) end, ELEM *c,
                                            int64_t c_stride) {
  TILE_VECTOR sum[WEFT_TILE_ROWS][2];
  WEFT_UNROLL
  for (int m = 0; m < rows; m++) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) sum[m][v] = (TILE_VECTOR){0};
  }
  const int64_t row = by_columns ? 1 : t->a_stride;
  const bool asks_ahead =
      !by_columns && t->taps == 1 && rows * t->depth <= WEFT_TILE_AHEAD_BYTES / (int64_t)sizeof(ELEM);
  for (int64_t tap = 0; tap < t->taps; tap++) {
    TILE_NAME(tile_walk) w = {.a = (const ELEM *)t->a[tap] + first * row, .b = t->b[tap]};
    int64_t depth = t->depth;
    if (tap == 0) {
      const int64_t begun = depth < rows ? depth : rows;
      w.c = w.addend = c; /* the same twice where nothing is added: no test in the loop */
#if HAS_EPILOGUE
      if (end == TILE_NAME(TILE_FINISHED) && t->epilogue->addend != NULL)
        w.addend = t->epilogue->addend + (t->row + first) * c_stride + t->column;
#endif
      w = TILE_NAME(tile_add)(sum, t, w, begun, rows, vectors, by_columns, c_stride);
      w.c = w.addend = NULL;
      depth -= begun;
    }
    if (asks_ahead) w.ahead = w.a + rows * row;
    TILE_NAME(tile_add)(sum, t, w, depth, rows, vectors, by_columns, c_stride);
  }
#if HAS_EPILOGUE
  if (end == TILE_NAME(TILE_FINISHED))
    tile_finish(sum, t->epilogue, t->row + first, t->column, rows, vectors);
#endif
  WEFT_UNROLL
  for (int m = 0; m < rows; m++) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) {
      TILE_VECTOR *to = (TILE_VECTOR *)(c + m * c_stride + v * TILE_LANES);
      if (end == TILE_NAME(TILE_ADDED)) sum[m][v] += *to;
      *to = sum[m][v];
    }
  }
}

/* The same for a number of rows that is known here only. */
WEFT_SPECIALISED void TILE_NAME(tile_rows)(const weft_tile_t *t, int64_t first, int rows, int vectors,
                                           bool by_columns, TILE_NAME(tile_end) end, ELEM *c,
                                           int64_t c_stride) {
#define TILE_CASE(r) \
  case r: TILE_NAME(tile_block)(t, first, r, vectors, by_columns, end, c, c_stride); return;
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
                              TILE_NAME(tile_end) end) {
  if (t->a_by_columns) {
    TILE_NAME(tile_rows)(t, first, rows, 1, true, end, c, c_stride);
  } else {
    TILE_NAME(tile_rows)(t, first, rows, 1, false, end, c, c_stride);
  }
}

static void TILE_NAME(tile_2)(const weft_tile_t *t, int64_t first, int rows, ELEM *c, int64_t c_stride,
                              TILE_NAME(tile_end) end) {
  if (t->a_by_columns) {
    TILE_NAME(tile_rows)(t, first, rows, 2, true, end, c, c_stride);
  } else {
    TILE_NAME(tile_rows)(t, first, rows, 2, false, end, c, c_stride);
  }
}

/* Rows of `whole`, `width` apart, to the n columns of c. */
static void TILE_NAME(tile_move)(const weft_tile_t *t, const ELEM *whole, int64_t width, int rows, int64_t n,
                                 ELEM *c) {
  for (int r = 0; r < rows; r++) {
    ELEM *line = c + r * t->c_stride;
    for (int64_t i = 0; i < n; i++)
      line[i] = t->accumulate ? line[i] + whole[r * width + i] : whole[r * width + i];
  }
}

/* Rows are divided into blocks of about the same height; what is narrower than its vectors goes through a
 * block of its own. */
static void TILE_NAME(tile_run)(const weft_tile_t *t, int64_t m, int64_t n, ELEM *c) {
  ELEM whole[WEFT_TILE_ROWS * 2 * TILE_LANES];
  const int64_t width = n <= TILE_LANES ? TILE_LANES : 2 * TILE_LANES;
  const bool is_whole = n == width;
  const TILE_NAME(tile_end) end = !is_whole             ? TILE_NAME(TILE_STORED)
                                  : t->accumulate       ? TILE_NAME(TILE_ADDED)
                                  : t->epilogue != NULL ? TILE_NAME(TILE_FINISHED)
                                                        : TILE_NAME(TILE_STORED);
  int64_t blocks = (m + WEFT_TILE_ROWS - 1) / WEFT_TILE_ROWS;
  for (int64_t first = 0; first < m; blocks--) {
    const int rows = (int)((m - first + blocks - 1) / blocks);
    ELEM *to = is_whole ? c + first * t->c_stride : whole;
    const int64_t stride = is_whole ? t->c_stride : width;
    if (width == TILE_LANES) {
      TILE_NAME(tile_1)(t, first, rows, to, stride, end);
    } else {
      TILE_NAME(tile_2)(t, first, rows, to, stride, end);
    }
    if (!is_whole) TILE_NAME(tile_move)(t, whole, width, rows, n, c + first * t->c_stride);
    first += rows;
  }
#if HAS_EPILOGUE
  if (t->epilogue == NULL) return;
  ELEM *y = c - t->row * t->c_stride - t->column;
  if (!is_whole) {
    weft_epilogue_apply(t->epilogue, y, t->row, m, t->column, n);
  } else if (end == TILE_NAME(TILE_FINISHED) && t->epilogue->then != NULL) {
    weft_epilogue_then(t->epilogue, y, t->row, m, t->column, n);
  }
#endif
}

#undef HAS_EPILOGUE
#undef ELEM
#undef SUFFIX
#undef TILE_CAT_
#undef TILE_CAT
#undef TILE_NAME
#undef TILE_LANES
#undef TILE_VECTOR
#undef TILE_LINE
