/* kernels/cpu/nn/pool3d_one.tmpl.h - pooling of volumes [N,D,H,W,C] and its gradients for one element type.
 * [begin, end): lines along W of what is computed, each by itself. A step of a sum is rounded to the element
 * type. */
#define VOLUME_LOWEST STORE((COMP)lowest(ELEM_ID))

/* Each of these computes `n` channels of a pixel of the output from its volume; the pointers are at the first
 * of these channels. */
static inline __attribute__((always_inline)) void WEFT_CAT(volume_max_cells, SUFFIX)(const volume_job_t *j,
                                                                                     const volume_box_t *b,
                                                                                     const ELEM *x, int n,
                                                                                     ELEM *y) {
  ELEM best[WEFT_CHANNELS];
  for (int c = 0; c < n; c++) best[c] = b->is_cut ? VOLUME_LOWEST : STORE((COMP)-INFINITY);
  for (int64_t d = b->s[0].begin; d < b->s[0].end; d++) {
    for (int64_t h = b->s[1].begin; h < b->s[1].end; h++) {
      for (int64_t w = b->s[2].begin; w < b->s[2].end; w++) {
        const ELEM *p = x + ((d * j->s[1].in + h) * j->s[2].in + w) * j->c;
        for (int c = 0; c < n; c++) best[c] = LOAD(p[c]) < LOAD(best[c]) ? best[c] : p[c];
      }
    }
  }
  for (int c = 0; c < n; c++) y[c] = best[c];
}

static inline __attribute__((always_inline)) void WEFT_CAT(volume_avg_cells, SUFFIX)(const volume_job_t *j,
                                                                                     const volume_box_t *b,
                                                                                     const ELEM *x, int n,
                                                                                     ELEM *y) {
  const COMP left_out = LOAD(VOLUME_LOWEST);
  COMP sum[WEFT_CHANNELS], count[WEFT_CHANNELS];
  for (int c = 0; c < n; c++) sum[c] = count[c] = 0;
  for (int64_t d = b->s[0].begin; d < b->s[0].end; d++) {
    for (int64_t h = b->s[1].begin; h < b->s[1].end; h++) {
      for (int64_t w = b->s[2].begin; w < b->s[2].end; w++) {
        const ELEM *p = x + ((d * j->s[1].in + h) * j->s[2].in + w) * j->c;
        for (int c = 0; c < n; c++) {
          const COMP v = LOAD(p[c]); /* what is left out counts as 0: no sum is -0, so no bit of it changes */
          sum[c] = LOAD(STORE(sum[c] + (v == left_out ? 0 : v)));
          count[c] += v == left_out ? 0 : 1;
        }
      }
    }
  }
  for (int c = 0; c < n; c++) y[c] = STORE(sum[c] / LOAD(STORE(count[c])));
}

/* What dy, which is as large as x, has at the first cell equal to the maximum y; 0 if none is. */
static inline __attribute__((always_inline)) void WEFT_CAT(volume_second_cells,
                                                           SUFFIX)(const volume_job_t *j,
                                                                   const volume_box_t *b, const ELEM *x,
                                                                   const ELEM *y, const ELEM *dy, int n,
                                                                   ELEM *out) {
  ELEM found[WEFT_CHANNELS];
  for (int c = 0; c < n; c++) found[c] = 0;
  for (int64_t d = b->s[0].end - 1; d >= b->s[0].begin; d--) { /* backwards: the first one is left */
    for (int64_t h = b->s[1].end - 1; h >= b->s[1].begin; h--) {
      for (int64_t w = b->s[2].end - 1; w >= b->s[2].begin; w--) {
        const int64_t at = ((d * j->s[1].in + h) * j->s[2].in + w) * j->c;
        for (int c = 0; c < n; c++) found[c] = LOAD(x[at + c]) == LOAD(y[c]) ? dy[at + c] : found[c];
      }
    }
  }
  for (int c = 0; c < n; c++) out[c] = found[c];
}

static void WEFT_CAT(volume_max, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = out_pixels_of(j), ins = in_pixels_of(j), width = j->s[2].out;
  for (int64_t o = begin * width; o < end * width; o++) {
    const ELEM *x = (const ELEM *)j->x + o / outs * ins * C;
    ELEM *y = (ELEM *)j->out + o * C;
    const volume_box_t b = box_under(j, o % outs);
    WEFT_EACH_CHANNELS(C, WEFT_CAT(volume_max_cells, SUFFIX)(j, &b, x + c, n, y + c))
  }
}

static void WEFT_CAT(volume_avg, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = out_pixels_of(j), ins = in_pixels_of(j), width = j->s[2].out;
  for (int64_t o = begin * width; o < end * width; o++) {
    const ELEM *x = (const ELEM *)j->x + o / outs * ins * C;
    ELEM *y = (ELEM *)j->out + o * C;
    const volume_box_t b = box_under(j, o % outs);
    WEFT_EACH_CHANNELS(C, WEFT_CAT(volume_avg_cells, SUFFIX)(j, &b, x + c, n, y + c))
  }
}

/* The gradient of volume_max_grad. */
static void WEFT_CAT(volume_second, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->c, outs = out_pixels_of(j), ins = in_pixels_of(j), width = j->s[2].out;
  for (int64_t o = begin * width; o < end * width; o++) {
    const int64_t volume = o / outs * ins * C;
    const ELEM *x = (const ELEM *)j->x + volume, *dy = (const ELEM *)j->dy + volume,
               *y = (const ELEM *)j->y + o * C;
    ELEM *out = (ELEM *)j->out + o * C;
    const volume_box_t b = box_under(j, o % outs);
    WEFT_EACH_CHANNELS(C, WEFT_CAT(volume_second_cells, SUFFIX)(j, &b, x + c, y + c, dy + c, n, out + c))
  }
}

/* ---- gradients that add to cells: a line of dx at a time ---- */

/* Adds dy of `n` channels to each of w cells beside each other that differs from the maximum y by less than
 * 1e-5. */
static inline __attribute__((always_inline)) void WEFT_CAT(volume_max_grad_cells,
                                                           SUFFIX)(const ELEM *x, const ELEM *y,
                                                                   const ELEM *dy, int64_t w, int64_t C,
                                                                   int n, ELEM *dx) {
  const COMP near = LOAD(STORE((COMP)1e-5));
  COMP most[WEFT_CHANNELS], share[WEFT_CHANNELS];
  for (int c = 0; c < n; c++) {
    most[c] = LOAD(y[c]);
    share[c] = LOAD(dy[c]);
  }
  for (int64_t k = 0; k < w; k++, x += C, dx += C) {
    WEFT_IVDEP
    for (int c = 0; c < n; c++) {
      const COMP off = LOAD(STORE(LOAD(x[c]) - most[c]));
      const ELEM sum = STORE(LOAD(dx[c]) + share[c]);
      dx[c] = ((off < near) & (-off < near)) ? sum : dx[c];
    }
  }
}

static void WEFT_CAT(volume_max_grad_line, SUFFIX)(const volume_job_t *j, volume_source_t source,
                                                   int64_t to) {
  const int64_t C = j->c;
  for (int64_t ow = 0; ow < j->grad[2]; ow++) {
    const weft_window_span_t columns = reached(&j->s[2], ow);
    const int64_t o = (source.from + ow) * C, at = (to + columns.begin) * C, width = size_of(columns);
    const ELEM *x = (const ELEM *)j->x + at, *y = (const ELEM *)j->y + o, *dy = (const ELEM *)j->dy + o;
    ELEM *dx = (ELEM *)j->out + at;
    WEFT_EACH_CHANNELS(C, WEFT_CAT(volume_max_grad_cells, SUFFIX)(x + c, y + c, dy + c, width, C, n, dx + c))
  }
}

static void WEFT_CAT(volume_max_grad, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t row = j->s[2].in * j->c;
  memset((ELEM *)j->out + begin * row, 0, (size_t)((end - begin) * row) * sizeof(ELEM));
  for (int64_t line = begin; line < end; line++) each_source(j, line, WEFT_CAT(volume_max_grad_line, SUFFIX));
}

/* Adds `n` channels' share of dy to each of w cells beside each other. */
static inline __attribute__((always_inline)) void WEFT_CAT(volume_avg_grad_cells,
                                                           SUFFIX)(const ELEM *dy, COMP part, int64_t w,
                                                                   int64_t C, int n, ELEM *dx) {
  COMP share[WEFT_CHANNELS];
  for (int c = 0; c < n; c++) share[c] = LOAD(STORE(LOAD(dy[c]) * part));
  for (int64_t k = 0; k < w; k++, dx += C) {
    WEFT_IVDEP
    for (int c = 0; c < n; c++) dx[c] = STORE(LOAD(dx[c]) + share[c]);
  }
}

static void WEFT_CAT(volume_avg_grad_line, SUFFIX)(const volume_job_t *j, volume_source_t source,
                                                   int64_t to) {
  const int64_t C = j->c;
  for (int64_t ow = 0; ow < j->grad[2]; ow++) {
    const weft_window_span_t columns = reached(&j->s[2], ow);
    const int64_t width = size_of(columns);
    const COMP part = LOAD(STORE((COMP)(1.0f / (float)(source.area * width))));
    const ELEM *dy = (const ELEM *)j->dy + (source.from + ow) * C;
    ELEM *dx = (ELEM *)j->out + (to + columns.begin) * C;
    WEFT_EACH_CHANNELS(C, WEFT_CAT(volume_avg_grad_cells, SUFFIX)(dy + c, part, width, C, n, dx + c))
  }
}

static void WEFT_CAT(volume_avg_grad, SUFFIX)(const volume_job_t *j, int64_t begin, int64_t end) {
  const int64_t row = j->s[2].in * j->c;
  memset((ELEM *)j->out + begin * row, 0, (size_t)((end - begin) * row) * sizeof(ELEM));
  for (int64_t line = begin; line < end; line++) each_source(j, line, WEFT_CAT(volume_avg_grad_line, SUFFIX));
}
#undef VOLUME_LOWEST
