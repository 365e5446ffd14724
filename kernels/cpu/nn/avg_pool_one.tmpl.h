/* kernels/cpu/nn/avg_pool_one.tmpl.h - means over windows of [N,H,W,C], and their gradient, for one element
 * type. The divisor counts real cells only. `acc` is scratch for one pixel or one image of sums. */
static void WEFT_CAT(avg_pool, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  for (int64_t n = begin; n < end; n++) {
    const ELEM *x = (const ELEM *)j->x + n * h->in * w->in * C;
    for (int64_t o = 0; o < h->out * w->out; o++) {
      ELEM *y = (ELEM *)j->y + (n * h->out * w->out + o) * C;
      int64_t h0 = o / w->out * h->stride - h->before, w0 = o % w->out * w->stride - w->before;
      int64_t h1 = h0 + h->k < h->in ? h0 + h->k : h->in, w1 = w0 + w->k < w->in ? w0 + w->k : w->in;
      h0 = h0 < 0 ? 0 : h0;
      w0 = w0 < 0 ? 0 : w0;
      const COMP cells = (COMP)((h1 - h0) * (w1 - w0));
      for (int64_t at = 0; at < C; at += POOL_CHUNK) {
        COMP sum[POOL_CHUNK];
        int64_t width = C - at < POOL_CHUNK ? C - at : POOL_CHUNK;
        for (int64_t c = 0; c < width; c++) sum[c] = 0;
        for (int64_t ih = h0; ih < h1; ih++) {
          for (int64_t iw = w0; iw < w1; iw++) {
            const ELEM *p = x + (ih * w->in + iw) * C + at;
            for (int64_t c = 0; c < width; c++) sum[c] += LOAD(p[c]);
          }
        }
        for (int64_t c = 0; c < width; c++) y[at + c] = STORE(sum[c] / cells);
      }
    }
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
