/* kernels/cpu/nn/avg_pool_one.tmpl.h - means over windows of [N,H,W,C], and their gradient, for one element
 * type. The divisor counts real cells only. `acc` is scratch for one pixel or one image of sums. */
/* The means of `n` channels over h by w cells, as in pool_one.tmpl.h. */
static inline void WEFT_CAT(avg_cells, SUFFIX)(const ELEM *x, int64_t h, int64_t w, int64_t row, int64_t C,
                                               int n, ELEM *y) {
  const COMP cells = (COMP)(h * w);
  COMP sum[POOL_WIDTH] = {0};
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
  for (int64_t o = begin * w->out; o < end * w->out; o++) {
    const int64_t line = o / w->out;
    const ELEM *x = (const ELEM *)j->x + line / h->out * h->in * row;
    ELEM *y = (ELEM *)j->y + o * C;
    int64_t h0 = line % h->out * h->stride - h->before, w0 = o % w->out * w->stride - w->before;
    int64_t h1 = h0 + h->k < h->in ? h0 + h->k : h->in, w1 = w0 + w->k < w->in ? w0 + w->k : w->in;
    h0 = h0 < 0 ? 0 : h0;
    w0 = w0 < 0 ? 0 : w0;
    h1 = h1 < h0 ? h0 : h1;
    w1 = w1 < w0 ? w0 : w1;
    x += h0 * row + w0 * C;
    int64_t c = 0;
    for (; c + POOL_WIDTH <= C; c += POOL_WIDTH) {
      WEFT_CAT(avg_cells, SUFFIX)(x + c, h1 - h0, w1 - w0, row, C, POOL_WIDTH, y + c);
    }
    if (c < C) WEFT_CAT(avg_cells, SUFFIX)(x + c, h1 - h0, w1 - w0, row, C, (int)(C - c), y + c);
  }
}

/* dx (zeroed) from dy: each cell of a window gets its share. */
static void WEFT_CAT(avg_grad, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  for (int64_t n = begin; n < end; n++) {
    ELEM *dx = (ELEM *)j->y + n * h->in * w->in * C;
    for (int64_t o = 0; o < h->out * w->out; o++) {
      const ELEM *dy = (const ELEM *)j->x + (n * h->out * w->out + o) * C;
      int64_t h0 = o / w->out * h->stride - h->before, w0 = o % w->out * w->stride - w->before;
      int64_t h1 = h0 + h->k < h->in ? h0 + h->k : h->in, w1 = w0 + w->k < w->in ? w0 + w->k : w->in;
      h0 = h0 < 0 ? 0 : h0;
      w0 = w0 < 0 ? 0 : w0;
      const COMP cells = (COMP)((h1 - h0) * (w1 - w0));
      for (int64_t ih = h0; ih < h1; ih++) {
        for (int64_t iw = w0; iw < w1; iw++) {
          ELEM *p = dx + (ih * w->in + iw) * C;
          for (int64_t c = 0; c < C; c++) p[c] = STORE(LOAD(p[c]) + LOAD(dy[c]) / cells);
        }
      }
    }
  }
}
