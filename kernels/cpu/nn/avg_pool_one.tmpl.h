/* kernels/cpu/nn/avg_pool_one.tmpl.h - means over windows of [N,H,W,C], and their gradient, for one element
 * type. The divisor counts real cells only. */
/* The means of `n` channels over h by w cells, as in pool_one.tmpl.h. */
static inline __attribute__((always_inline)) void WEFT_CAT(avg_cells, SUFFIX)(const ELEM *x, int64_t h,
                                                                              int64_t w, int64_t row,
                                                                              int64_t C, int n, ELEM *y) {
  const COMP cells = (COMP)(h * w);
  COMP sum[WEFT_CHANNELS] = {0};
  for (int64_t i = 0; i < h; i++) {
    for (int64_t k = 0; k < w; k++) {
      const ELEM *p = x + i * row + k * C;
      for (int c = 0; c < n; c++) sum[c] += LOAD(p[c]);
    }
  }
  for (int c = 0; c < n; c++) y[c] = STORE(sum[c] / cells);
}

/* Rows [begin, end) of the images. */
static void WEFT_CAT(avg_pool, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c, row = w->in * C;
  /* A block of 8 sums is as good, but where its elements are converted. */
  const int64_t few = sizeof(ELEM) < sizeof(COMP) ? WEFT_CHANNELS : WEFT_FEW_CHANNELS;
  if (goes_by_lines(j, few) && WEFT_CAT(pool_lines, SUFFIX)(j, begin, end, true)) return;
  for (int64_t o = begin * w->out; o < end * w->out; o++) {
    const int64_t line = o / w->out;
    const weft_window_span_t rows = weft_window_cells(h, line % h->out),
                             columns = weft_window_cells(w, o % w->out);
    const int64_t height = rows.end > rows.begin ? rows.end - rows.begin : 0,
                  width = columns.end > columns.begin ? columns.end - columns.begin : 0;
    const ELEM *x = (const ELEM *)j->x + (line / h->out * h->in + rows.begin) * row + columns.begin * C;
    ELEM *y = (ELEM *)j->y + o * C;
    WEFT_EACH_CHANNELS(C, WEFT_CAT(avg_cells, SUFFIX)(x + c, height, width, row, C, n, y + c))
  }
}

/* Adds `n` channels' share of dy to each of w cells beside each other. */
static inline __attribute__((always_inline)) void WEFT_CAT(avg_grad_cells, SUFFIX)(const ELEM *dy, COMP cells,
                                                                                   int64_t w, int64_t C,
                                                                                   int n, ELEM *dx) {
  COMP share[WEFT_CHANNELS];
  for (int c = 0; c < n; c++) share[c] = LOAD(dy[c]) / cells;
  for (int64_t k = 0; k < w; k++) {
    ELEM *q = dx + k * C;
    WEFT_IVDEP
    for (int c = 0; c < n; c++) q[c] = STORE(LOAD(q[c]) + share[c]);
  }
}

/* Rows [begin, end) of dx, each computed by itself: of every window over it each cell gets its share of dy,
 * in the order of windows. */
static void WEFT_CAT(avg_grad, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c, row = w->in * C;
  for (int64_t line = begin; line < end; line++) {
    const int64_t image = line / h->in, ih = line % h->in;
    const weft_window_span_t outputs = weft_window_outputs(h, ih, ih + 1);
    ELEM *dx = (ELEM *)j->y + line * row;
    memset(dx, 0, (size_t)row * sizeof *dx);
    for (int64_t oh = outputs.begin; oh < outputs.end; oh++) {
      const weft_window_span_t rows = weft_window_cells(h, oh);
      if (ih < rows.begin || ih >= rows.end) continue; /* between two windows */
      const ELEM *dy = (const ELEM *)j->dy + (image * h->out + oh) * w->out * C;
      for (int64_t ow = 0; ow < w->out; ow++, dy += C) {
        const weft_window_span_t columns = weft_window_cells(w, ow);
        const int64_t width = columns.end - columns.begin;
        const COMP cells = (COMP)((rows.end - rows.begin) * width);
        ELEM *to = dx + columns.begin * C;
        WEFT_EACH_CHANNELS(C, WEFT_CAT(avg_grad_cells, SUFFIX)(dy + c, cells, width, C, n, to + c))
      }
    }
  }
}
