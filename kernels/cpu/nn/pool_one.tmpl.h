/* kernels/cpu/nn/pool_one.tmpl.h - pooling over [N,H,W,C] for one element type. A cell of padding never wins,
 * nor does NaN: of NaN, negative infinities or padding alone the maximum is the lowest finite number, as in
 * TensorFlow. Where positions are wanted the first element is the maximum then. */
#define POOL_LOWEST STORE((COMP)weft_lowest(ELEM_ID))

/* The maxima of `n` channels from x (of the first cell's first channel) over h by w cells; `row`: elements
 * from a row of cells to the next. */
static inline void WEFT_CAT(max_cells, SUFFIX)(const ELEM *x, int64_t h, int64_t w, int64_t row, int64_t C,
                                               int n, ELEM *y) {
  ELEM best[POOL_WIDTH];
  for (int c = 0; c < n; c++) best[c] = LOAD(POOL_LOWEST) < LOAD(x[c]) ? x[c] : POOL_LOWEST;
  for (int64_t i = 0; i < h; i++) {
    for (int64_t k = i == 0 ? 1 : 0; k < w; k++) {
      const ELEM *p = x + i * row + k * C;
      for (int c = 0; c < n; c++) best[c] = LOAD(best[c]) < LOAD(p[c]) ? p[c] : best[c];
    }
  }
  for (int c = 0; c < n; c++) y[c] = best[c];
}

/* One pixel, whose window has cells: no positions are wanted. */
static void WEFT_CAT(max_pixel, SUFFIX)(const pool_job_t *j, const ELEM *x, int64_t h, int64_t w, ELEM *y) {
  const int64_t C = j->c, row = j->s[2].in * C;
  int64_t c = 0;
  for (; c + POOL_WIDTH <= C; c += POOL_WIDTH)
    WEFT_CAT(max_cells, SUFFIX)(x + c, h, w, row, C, POOL_WIDTH, y + c);
  for (; c + POOL_NARROW <= C; c += POOL_NARROW)
    WEFT_CAT(max_cells, SUFFIX)(x + c, h, w, row, C, POOL_NARROW, y + c);
  if (c < C) WEFT_CAT(max_cells, SUFFIX)(x + c, h, w, row, C, (int)(C - c), y + c);
}

/* Rows [begin, end) of the images. `where`, if wanted, gets each maximum's position h*W*C + w*C + c in its
 * image. */
static void WEFT_CAT(max_pool, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  for (int64_t line = begin; line < end; line++) {
    const int64_t n = line / h->out, oh = line % h->out;
    const ELEM *x = (const ELEM *)j->x + n * h->in * w->in * C;
    for (int64_t ow = 0; ow < w->out; ow++) {
      int64_t to = (line * w->out + ow) * C;
      ELEM *y = (ELEM *)j->y + to;
      int64_t *where = j->where == NULL ? NULL : j->where + to;
      bool first = true;
      int64_t h0 = oh * h->stride - h->before, w0 = ow * w->stride - w->before;
      int64_t h1 = h0 + h->k < h->in ? h0 + h->k : h->in, w1 = w0 + w->k < w->in ? w0 + w->k : w->in;
      h0 = h0 < 0 ? 0 : h0;
      w0 = w0 < 0 ? 0 : w0;
      if (where == NULL && h0 < h1 && w0 < w1) {
        WEFT_CAT(max_pixel, SUFFIX)(j, x + (h0 * w->in + w0) * C, h1 - h0, w1 - w0, y);
        continue;
      }
      for (int64_t ih = h0; where != NULL && ih < h1; ih++) {
        for (int64_t iw = w0; iw < w1; iw++) {
          int64_t from = (ih * w->in + iw) * C;
          const ELEM *p = x + from;
          for (int64_t c = 0; first && c < C; c++) {
            y[c] = p[c];
            where[c] = from + c;
          }
          for (int64_t c = 0; !first && c < C; c++) {
            if (!(LOAD(p[c]) > LOAD(y[c]))) continue;
            y[c] = p[c];
            where[c] = from + c;
          }
          first = false;
        }
      }
      for (int64_t c = 0; first && c < C; c++) { /* the window lies in padding alone */
        y[c] = where == NULL ? POOL_LOWEST : (ELEM)0;
        if (where != NULL) where[c] = -1;
      }
      for (int64_t c = 0; j->needs_value && c < C; c++) {
        if (!(LOAD(y[c]) >= LOAD(POOL_LOWEST))) where[c] = -1;
      }
    }
  }
}

/* Adds dy of `n` channels to dx where x has the first maximum of h by w cells; a NaN in the first cell is
 * one. x and dx: the first cell's first channel. */
static inline __attribute__((always_inline)) void WEFT_CAT(max_grad_cells,
                                                           SUFFIX)(const ELEM *x, const ELEM *dy, int64_t h,
                                                                   int64_t w, int64_t row, int64_t C, int n,
                                                                   ELEM *dx) {
  ELEM best[POOL_WIDTH];
  uint32_t at[POOL_WIDTH], cell = 0; /* MOST_CELLS */
  for (int c = 0; c < n; c++) {
    best[c] = x[c];
    at[c] = 0;
  }
  for (int64_t i = 0; i < h; i++) {
    for (int64_t k = 0; k < w; k++, cell++) {
      const ELEM *p = x + i * row + k * C; /* the first cell is not greater than itself */
      for (int c = 0; c < n; c++) {
        at[c] = LOAD(p[c]) > LOAD(best[c]) ? cell : at[c];
        best[c] = LOAD(p[c]) > LOAD(best[c]) ? p[c] : best[c];
      }
    }
  }
  cell = 0;
  for (int64_t i = 0; i < h; i++) {
    for (int64_t k = 0; k < w; k++, cell++) {
      ELEM *q = dx + i * row + k * C;
      WEFT_IVDEP
      for (int c = 0; c < n; c++) { /* sums begin with 0 and are never -0, so adding 0 changes none */
        q[c] = STORE((WRAP)LOAD(q[c]) + (at[c] == cell ? (WRAP)LOAD(dy[c]) : 0));
      }
    }
  }
}

/* dx (zeroed) from x and dy, for output rows [begin, end) of the images. */
static void WEFT_CAT(max_grad, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c, row = w->in * C;
  for (int64_t line = begin; line < end; line++) {
    const int64_t image = line / h->out * h->in * row, h0 = line % h->out * h->stride - h->before;
    const int64_t top = h0 < 0 ? 0 : h0, bottom = h0 + h->k < h->in ? h0 + h->k : h->in;
    for (int64_t ow = 0; ow < w->out; ow++) {
      const int64_t w0 = ow * w->stride - w->before, left = w0 < 0 ? 0 : w0;
      const int64_t right = w0 + w->k < w->in ? w0 + w->k : w->in;
      if (top >= bottom || left >= right) continue; /* padding alone */
      const int64_t cell = image + top * row + left * C;
      const ELEM *x = (const ELEM *)j->x + cell, *dy = (const ELEM *)j->dy + (line * w->out + ow) * C;
      ELEM *dx = (ELEM *)j->y + cell;
      int64_t c = 0;
      for (; c + POOL_WIDTH <= C; c += POOL_WIDTH) {
        WEFT_CAT(max_grad_cells, SUFFIX)
        (x + c, dy + c, bottom - top, right - left, row, C, POOL_WIDTH, dx + c);
      }
      if (c < C) {
        WEFT_CAT(max_grad_cells, SUFFIX)
        (x + c, dy + c, bottom - top, right - left, row, C, (int)(C - c), dx + c);
      }
    }
  }
}

/* Groups of `depth` adjacent channels: x [rows * depth] to y [rows]. */
static void WEFT_CAT(max_depth, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r++) {
    const ELEM *x = (const ELEM *)j->x + r * j->depth;
    ELEM best = x[0];
    for (int64_t i = 1; i < j->depth; i++) best = LOAD(best) < LOAD(x[i]) ? x[i] : best;
    ((ELEM *)j->y)[r] = best;
  }
}
#undef POOL_LOWEST
