/* kernels/cpu/nn/pool_one.tmpl.h - pooling over [N,H,W,C] for one element type. A cell of padding never wins,
 * nor does NaN: of NaN, negative infinities or padding alone the maximum is the lowest finite number, as in
 * TensorFlow. Where positions are wanted the first element is the maximum then. */
#define POOL_LOWEST STORE((COMP)weft_lowest(ELEM_ID))

/* Images [begin, end). `where`, if wanted, gets each maximum's position h*W*C + w*C + c in its image. */
static void WEFT_CAT(max_pool, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  for (int64_t n = begin; n < end; n++) {
    const ELEM *x = (const ELEM *)j->x + n * h->in * w->in * C;
    for (int64_t oh = 0; oh < h->out; oh++) {
      for (int64_t ow = 0; ow < w->out; ow++) {
        int64_t to = ((n * h->out + oh) * w->out + ow) * C;
        ELEM *y = (ELEM *)j->y + to;
        int64_t *where = j->where == NULL ? NULL : j->where + to;
        bool first = true;
        int64_t h0 = oh * h->stride - h->before, w0 = ow * w->stride - w->before;
        int64_t h1 = h0 + h->k < h->in ? h0 + h->k : h->in, w1 = w0 + w->k < w->in ? w0 + w->k : w->in;
        for (int64_t ih = h0 < 0 ? 0 : h0; ih < h1; ih++) {
          for (int64_t iw = w0 < 0 ? 0 : w0; iw < w1; iw++) {
            int64_t from = (ih * w->in + iw) * C;
            const ELEM *p = x + from;
            if (first) {
              for (int64_t c = 0; c < C; c++)
                y[c] = where != NULL || LOAD(POOL_LOWEST) < LOAD(p[c]) ? p[c] : POOL_LOWEST;
              for (int64_t c = 0; where != NULL && c < C; c++) where[c] = from + c;
              first = false;
            } else if (where != NULL) {
              for (int64_t c = 0; c < C; c++) {
                if (!(LOAD(p[c]) > LOAD(y[c]))) continue;
                y[c] = p[c];
                where[c] = from + c;
              }
            } else {
              for (int64_t c = 0; c < C; c++) {
                y[c] = LOAD(y[c]) < LOAD(p[c]) ? p[c] : y[c];
              }
            }
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
