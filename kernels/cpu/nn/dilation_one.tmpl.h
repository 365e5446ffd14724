/* kernels/cpu/nn/dilation_one.tmpl.h - Dilation2D and its gradients for one element type. Sums are rounded to
 * the type before they are compared; of equal ones the first is the maximum. */

/* The maxima of `n` channels of a window, and the places of the cells that gave them: NOWHERE where none is
 * greater than the lowest number. A place is the number of a cell of the filter or, if `of_pixels`, how many
 * pixels lie between it and the first one of the window that is on the image. x, f: what lies on each other
 * first. */
static inline __attribute__((always_inline)) void WEFT_CAT(dilation_cells,
                                                           SUFFIX)(const dilation_job_t *j,
                                                                   const dilation_span_t *s, const ELEM *x,
                                                                   const ELEM *f, const bool of_pixels,
                                                                   const int n, COMP *best, uint32_t *at) {
  const int64_t line = j->rows.dilation * j->columns.in, pixel = j->columns.dilation, cells = j->columns.k;
  for (int c = 0; c < n; c++) best[c] = (COMP)weft_lowest(ELEM_ID), at[c] = NOWHERE;
  for (int64_t i = 0; i < s->rows; i++) {
    for (int64_t k = 0; k < s->columns; k++) {
      const ELEM *p = x + (i * line + k * pixel) * j->channels, *q = f + (i * cells + k) * j->channels;
      const uint32_t place =
          (uint32_t)(of_pixels ? i * line + k * pixel : (s->row + i) * cells + s->column + k);
      for (int c = 0; c < n; c++) {
        const ELEM sum = STORE((WRAP)LOAD(p[c]) + (WRAP)LOAD(q[c]));
        at[c] = LOAD(sum) > best[c] ? place : at[c];
        best[c] = LOAD(sum) > best[c] ? LOAD(sum) : best[c];
      }
    }
  }
}

static inline __attribute__((always_inline)) void WEFT_CAT(dilation_max, SUFFIX)(const dilation_job_t *j,
                                                                                 const dilation_span_t *s,
                                                                                 const ELEM *x, const ELEM *f,
                                                                                 const int n, ELEM *y) {
  COMP best[WEFT_CHANNELS];
  uint32_t at[WEFT_CHANNELS];
  WEFT_CAT(dilation_cells, SUFFIX)(j, s, x, f, false, n, best, at);
  for (int c = 0; c < n; c++) y[c] = STORE(best[c]);
}

/* Rows [begin, end) of all images. */
static void WEFT_CAT(dilation, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const dilation_job_t *j = arg;
  const int64_t C = j->channels;
  ELEM *y = (ELEM *)j->y + begin * j->columns.out * C;
  for (int64_t o = begin * j->columns.out; o < end * j->columns.out; o++, y += C) {
    const dilation_span_t s = span_of(j, o);
    const ELEM *x = (const ELEM *)j->x + s.pixel * C, *f = (const ELEM *)j->filter + s.cell * C;
    WEFT_EACH_CHANNELS(C, WEFT_CAT(dilation_max, SUFFIX)(j, &s, x + c, f + c, n, y + c))
  }
}

/* Adds dy of `n` channels to d at the places of the maxima, which count from pixel or cell `first` on; what
 * has none goes to `none`, or is left out if that is negative. */
static inline __attribute__((always_inline)) void WEFT_CAT(dilation_add, SUFFIX)(
    const dilation_job_t *j, const dilation_span_t *s, const ELEM *x, const ELEM *f, const ELEM *dy,
    const bool of_pixels, const int n, int64_t first, int64_t none, ELEM *d) {
  COMP best[WEFT_CHANNELS];
  uint32_t at[WEFT_CHANNELS];
  WEFT_CAT(dilation_cells, SUFFIX)(j, s, x, f, of_pixels, n, best, at);
  for (int c = 0; c < n; c++) {
    const int64_t to = at[c] == NOWHERE ? none : first + at[c];
    if (to < 0) continue;
    ELEM *sum = d + to * j->channels + c;
    *sum = STORE((WRAP)LOAD(*sum) + (WRAP)LOAD(dy[c]));
  }
}

/* Images [begin, end): each window's gradient goes to the pixel that its maximum came from. */
static void WEFT_CAT(dilation_grad_input, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const dilation_job_t *j = arg;
  const int64_t C = j->channels, windows = j->rows.out * j->columns.out;
  for (int64_t o = begin * windows; o < end * windows; o++) {
    const dilation_span_t s = span_of(j, o);
    const ELEM *x = (const ELEM *)j->x + s.pixel * C, *f = (const ELEM *)j->filter + s.cell * C,
               *dy = (const ELEM *)j->dy + o * C;
    ELEM *dx = j->y;
    WEFT_EACH_CHANNELS(
        C, WEFT_CAT(dilation_add, SUFFIX)(j, &s, x + c, f + c, dy + c, true, n, s.pixel, s.corner, dx + c))
  }
}

/* ... to the cell of the filter. */
static void WEFT_CAT(dilation_grad_filter, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const dilation_job_t *j = arg;
  const int64_t C = j->channels, windows = j->rows.out * j->columns.out;
  for (int64_t o = begin * windows; o < end * windows; o++) {
    const dilation_span_t s = span_of(j, o);
    const ELEM *x = (const ELEM *)j->x + s.pixel * C, *f = (const ELEM *)j->filter + s.cell * C,
               *dy = (const ELEM *)j->dy + o * C;
    ELEM *df = j->y;
    WEFT_EACH_CHANNELS(C, WEFT_CAT(dilation_add, SUFFIX)(j, &s, x + c, f + c, dy + c, false, n, 0, 0, df + c))
  }
}
