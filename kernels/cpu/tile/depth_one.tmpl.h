/* kernels/cpu/tile/depth_one.tmpl.h - the loops of depth.h for ELEM; names end with SUFFIX. */
#define DEPTH_CAT_(a, b) a##b
#define DEPTH_CAT(a, b) DEPTH_CAT_(a, b)
#define DEPTH_NAME(stem) DEPTH_CAT(stem, SUFFIX)
#define DEPTH_LANES (WEFT_TILE_BYTES / (int)sizeof(ELEM))
#define DEPTH_VECTOR DEPTH_NAME(depth_vector)

/* A vector that may lie at any address of an ELEM. */
typedef ELEM DEPTH_VECTOR __attribute__((vector_size(WEFT_TILE_BYTES), aligned(sizeof(ELEM)), may_alias));

/* `pixels` pixels from pixel `first`: `vectors` vectors of channels from channel c. Both are constants. A
 * pointer goes along the pixels: with an index for each, these would not fit into the registers. */
WEFT_SPECIALISED void DEPTH_NAME(depth_block)(const weft_depth_t *t, int64_t first, int pixels, int vectors,
                                              int64_t c, ELEM *y) {
  DEPTH_VECTOR sum[DEPTH_SUMS], right[DEPTH_MOST_VECTORS];
  WEFT_UNROLL
  for (int i = 0; i < pixels * vectors; i++) sum[i] = (DEPTH_VECTOR){0};
  for (int64_t r = 0; r < t->rows; r++) {
    const ELEM *x = (const ELEM *)t->x[r] + first * t->x_pixel + c, *f = (const ELEM *)t->f[r] + c;
    for (int64_t k = 0; k < t->taps; k++, x += t->x_tap, f += t->f_tap) {
      WEFT_UNROLL
      for (int v = 0; v < vectors; v++) right[v] = *(const DEPTH_VECTOR *)(f + v * DEPTH_LANES);
      const DEPTH_VECTOR *at = (const DEPTH_VECTOR *)x;
      WEFT_UNROLL
      for (int p = 0; p < pixels; p++) {
        WEFT_UNROLL
        for (int v = 0; v < vectors; v++) sum[p * vectors + v] += at[v] * right[v];
        at = (const DEPTH_VECTOR *)((const ELEM *)at + t->x_pixel);
      }
    }
  }
  WEFT_UNROLL
  for (int p = 0; p < pixels; p++) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) {
      *(DEPTH_VECTOR *)(y + (first + p) * t->y_pixel + c + v * DEPTH_LANES) = sum[p * vectors + v];
    }
  }
}

/* All pixels, for `vectors` vectors of channels. */
WEFT_SPECIALISED void DEPTH_NAME(depth_column)(const weft_depth_t *t, int64_t n, int vectors, int64_t c,
                                               ELEM *y) {
  int64_t p = 0;
  for (; p + DEPTH_PIXELS <= n; p += DEPTH_PIXELS) {
    DEPTH_NAME(depth_block)(t, p, DEPTH_PIXELS, vectors, c, y);
  }
  for (; p + 2 <= n; p += 2) DEPTH_NAME(depth_block)(t, p, 2, vectors, c, y);
  if (p < n) DEPTH_NAME(depth_block)(t, p, 1, vectors, c, y);
}

/* Channels [c, channels), fewer than a vector has, one by one. */
static void DEPTH_NAME(depth_rest)(const weft_depth_t *t, int64_t n, int64_t c, ELEM *y) {
  for (int64_t p = 0; p < n; p++) {
    ELEM sum[DEPTH_LANES] = {0};
    for (int64_t r = 0; r < t->rows; r++) {
      const ELEM *x = (const ELEM *)t->x[r] + p * t->x_pixel, *f = (const ELEM *)t->f[r];
      for (int64_t k = 0; k < t->taps; k++) {
        for (int64_t i = c; i < t->channels; i++) sum[i - c] += x[k * t->x_tap + i] * f[k * t->f_tap + i];
      }
    }
    for (int64_t i = c; i < t->channels; i++) y[p * t->y_pixel + i] = sum[i - c];
  }
}

/* The sums of a block are independent, so that one need not wait for the other: a single pixel has more
 * channels at once. */
static void DEPTH_NAME(depth_run)(const weft_depth_t *t, int64_t n, ELEM *y) {
  int64_t c = 0;
  for (; n == 1 && c + DEPTH_MOST_VECTORS * DEPTH_LANES <= t->channels;
       c += DEPTH_MOST_VECTORS * DEPTH_LANES) {
    DEPTH_NAME(depth_block)(t, 0, 1, DEPTH_MOST_VECTORS, c, y);
  }
  for (; c + 2 * DEPTH_LANES <= t->channels; c += 2 * DEPTH_LANES) DEPTH_NAME(depth_column)(t, n, 2, c, y);
  if (c + DEPTH_LANES <= t->channels) {
    DEPTH_NAME(depth_column)(t, n, 1, c, y);
    c += DEPTH_LANES;
  }
  if (c == t->channels) return;
  if (c > 0) {
    DEPTH_NAME(depth_column)
    (t, n, 1, t->channels - DEPTH_LANES, y); /* some once more, with the same result */
  } else {
    DEPTH_NAME(depth_rest)(t, n, c, y);
  }
}

/* ---- the gradient of the filter ---- */

/* Sums of `taps` taps from tap `first` for `vectors` vectors of channels from channel c. Both are constants.
 */
WEFT_SPECIALISED void DEPTH_NAME(depth_sums)(const weft_depth_sum_t *t, int64_t n, int64_t first, int taps,
                                             int vectors, int64_t c, DEPTH_VECTOR *sum) {
  DEPTH_VECTOR right[2];
  WEFT_UNROLL
  for (int i = 0; i < taps * vectors; i++) sum[i] = (DEPTH_VECTOR){0};
  const ELEM *x = (const ELEM *)t->x + first * t->x_tap + c, *dy = (const ELEM *)t->dy + c;
  for (int64_t p = 0; p < n; p++, x += t->x_pixel, dy += t->dy_pixel) {
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) right[v] = *(const DEPTH_VECTOR *)(dy + v * DEPTH_LANES);
    const DEPTH_VECTOR *at = (const DEPTH_VECTOR *)x;
    WEFT_UNROLL
    for (int k = 0; k < taps; k++) {
      WEFT_UNROLL
      for (int v = 0; v < vectors; v++) sum[k * vectors + v] += at[v] * right[v];
      at = (const DEPTH_VECTOR *)((const ELEM *)at + t->x_tap);
    }
  }
}

/* The same, added to df, of channels [from, end of the vectors): all but for the last of them. */
WEFT_SPECIALISED void DEPTH_NAME(depth_sum_block)(const weft_depth_sum_t *t, int64_t n, int64_t first,
                                                  int taps, int vectors, int64_t c, int64_t from, ELEM *df) {
  DEPTH_VECTOR sum[DEPTH_TAPS * 2];
  DEPTH_NAME(depth_sums)(t, n, first, taps, vectors, c, sum);
  WEFT_UNROLL
  for (int k = 0; k < taps; k++) {
    ELEM *to = df + (first + k) * t->df_tap + c;
    if (from > c) {
      for (int64_t i = from - c; i < DEPTH_LANES; i++) to[i] += sum[k * vectors][i];
      continue;
    }
    WEFT_UNROLL
    for (int v = 0; v < vectors; v++) *(DEPTH_VECTOR *)(to + v * DEPTH_LANES) += sum[k * vectors + v];
  }
}

WEFT_SPECIALISED void DEPTH_NAME(depth_sum_column)(const weft_depth_sum_t *t, int64_t n, int vectors,
                                                   int64_t c, int64_t from, ELEM *df) {
  for (int64_t k = 0; k < t->taps; k += DEPTH_TAPS) {
    switch (t->taps - k) {
      case 1: DEPTH_NAME(depth_sum_block)(t, n, k, 1, vectors, c, from, df); break;
      case 2: DEPTH_NAME(depth_sum_block)(t, n, k, 2, vectors, c, from, df); break;
      case 3: DEPTH_NAME(depth_sum_block)(t, n, k, 3, vectors, c, from, df); break;
      case 4: DEPTH_NAME(depth_sum_block)(t, n, k, 4, vectors, c, from, df); break;
      default: DEPTH_NAME(depth_sum_block)(t, n, k, DEPTH_TAPS, vectors, c, from, df); break;
    }
  }
}

static void DEPTH_NAME(depth_sum)(const weft_depth_sum_t *t, int64_t n, ELEM *df) {
  int64_t c = 0;
  for (; c + 2 * DEPTH_LANES <= t->channels; c += 2 * DEPTH_LANES) {
    DEPTH_NAME(depth_sum_column)(t, n, 2, c, c, df);
  }
  if (c + DEPTH_LANES <= t->channels) {
    DEPTH_NAME(depth_sum_column)(t, n, 1, c, c, df);
    c += DEPTH_LANES;
  }
  if (c == t->channels) return;
  if (c > 0) {
    DEPTH_NAME(depth_sum_column)(t, n, 1, t->channels - DEPTH_LANES, c, df);
    return;
  }
  const ELEM *x = t->x, *dy = t->dy;
  for (int64_t k = 0; k < t->taps; k++) {
    ELEM sum[DEPTH_LANES] = {0};
    for (int64_t p = 0; p < n; p++) {
      for (; c < t->channels; c++) sum[c] += x[p * t->x_pixel + k * t->x_tap + c] * dy[p * t->dy_pixel + c];
      c = 0;
    }
    for (int64_t i = 0; i < t->channels; i++) df[k * t->df_tap + i] += sum[i];
  }
}

#undef ELEM
#undef SUFFIX
#undef DEPTH_CAT_
#undef DEPTH_CAT
#undef DEPTH_NAME
#undef DEPTH_LANES
#undef DEPTH_VECTOR
