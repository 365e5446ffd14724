/* kernels/cpu/nn/pool_one.tmpl.h - maxima over windows of [N,H,W,C] and their gradients for one element type.
 * A cell of padding never wins, nor does NaN: of NaN, negative infinities or padding alone the maximum is the
 * lowest finite number, as in TensorFlow. Where the place of a maximum is wanted the first cell is the
 * maximum then. */
#define POOL_LOWEST STORE((COMP)weft_lowest(ELEM_ID))

/* The maxima of `n` channels from x (of the first cell's first channel) over h by w cells; `row`: elements
 * from a row of cells to the next. */
static inline __attribute__((always_inline)) void WEFT_CAT(max_cells, SUFFIX)(const ELEM *x, int64_t h,
                                                                              int64_t w, int64_t row,
                                                                              int64_t C, int n, ELEM *y) {
  ELEM best[WEFT_CHANNELS];
  for (int c = 0; c < n; c++) best[c] = LOAD(POOL_LOWEST) < LOAD(x[c]) ? x[c] : POOL_LOWEST;
  for (int64_t i = 0; i < h; i++) {
    for (int64_t k = i == 0 ? 1 : 0; k < w; k++) {
      const ELEM *p = x + i * row + k * C;
      for (int c = 0; c < n; c++) best[c] = LOAD(best[c]) < LOAD(p[c]) ? p[c] : best[c];
    }
  }
  for (int c = 0; c < n; c++) y[c] = best[c];
}

/* One pixel, whose window has cells. */
static void WEFT_CAT(max_pixel, SUFFIX)(const pool_job_t *j, const ELEM *x, int64_t h, int64_t w, ELEM *y) {
  const int64_t C = j->c, row = j->s[2].in * C;
  WEFT_EACH_CHANNELS(C, WEFT_CAT(max_cells, SUFFIX)(x + c, h, w, row, C, n, y + c))
}

/* Rows [begin, end) of the images. */
static void WEFT_CAT(max_pool, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  if (goes_by_lines(j, WEFT_CHANNELS) && WEFT_CAT(pool_lines, SUFFIX)(j, begin, end, false)) return;
  for (int64_t line = begin; line < end; line++) {
    const ELEM *x = (const ELEM *)j->x + line / h->out * h->in * w->in * C;
    const weft_window_span_t rows = weft_window_cells(h, line % h->out);
    for (int64_t ow = 0; ow < w->out; ow++) {
      const weft_window_span_t columns = weft_window_cells(w, ow);
      const int64_t height = rows.end - rows.begin, width = columns.end - columns.begin;
      ELEM *y = (ELEM *)j->y + (line * w->out + ow) * C;
      if (height > 0 && width > 0) {
        WEFT_CAT(max_pixel, SUFFIX)(j, x + (rows.begin * w->in + columns.begin) * C, height, width, y);
      } else { /* padding alone */
        for (int64_t c = 0; c < C; c++) y[c] = POOL_LOWEST;
      }
    }
  }
}

/* ---- where the maxima are ---- */

/* The first maximum of `n` channels over h by w cells, and its place: how many pixels it lies behind the
 * first cell (MOST_CELLS). A NaN in the first cell is one. `width`: pixels of a row of the image. */
static inline __attribute__((always_inline)) void WEFT_CAT(find_cells, SUFFIX)(const ELEM *x, int64_t h,
                                                                               int64_t w, int64_t width,
                                                                               int64_t C, int n, ELEM *best,
                                                                               uint32_t *at) {
  for (int c = 0; c < n; c++) {
    best[c] = x[c];
    at[c] = 0;
  }
  for (int64_t i = 0; i < h; i++) {
    for (int64_t k = 0; k < w; k++) { /* the first cell is not greater than itself */
      const ELEM *p = x + (i * width + k) * C;
      const uint32_t place = (uint32_t)(i * width + k);
      for (int c = 0; c < n; c++) {
        at[c] = LOAD(p[c]) > LOAD(best[c]) ? place : at[c];
        best[c] = LOAD(p[c]) > LOAD(best[c]) ? p[c] : best[c];
      }
    }
  }
}

/* Maxima of `n` channels, and their places as numbers of elements from `first` on. */
static inline __attribute__((always_inline)) void WEFT_CAT(argmax_cells, SUFFIX)(const pool_job_t *j,
                                                                                 const ELEM *x, int64_t h,
                                                                                 int64_t w, int64_t first,
                                                                                 int n, int64_t to) {
  ELEM *y = (ELEM *)j->y + to, best[WEFT_CHANNELS];
  uint32_t at[WEFT_CHANNELS];
  WEFT_CAT(find_cells, SUFFIX)(x, h, w, j->s[2].in, j->c, n, best, at);
  for (int c = 0; c < n; c++) y[c] = best[c];
  if (j->place_size == sizeof(int64_t)) {
    int64_t *places = (int64_t *)j->places + to;
    for (int c = 0; c < n; c++) places[c] = first + at[c] * j->c + c;
  } else {
    int32_t *places = (int32_t *)j->places + to;
    for (int c = 0; c < n; c++) places[c] = (int32_t)(first + at[c] * j->c + c);
  }
}

/* Rows [begin, end) of the images. Of padding alone the maximum is 0, at -1. */
static void WEFT_CAT(max_places, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  for (int64_t line = begin; line < end; line++) {
    const int64_t image = line / h->out * h->in * w->in * C;
    const weft_window_span_t rows = weft_window_cells(h, line % h->out);
    for (int64_t ow = 0; ow < w->out; ow++) {
      const weft_window_span_t columns = weft_window_cells(w, ow);
      const int64_t cell = (rows.begin * w->in + columns.begin) * C, to = (line * w->out + ow) * C;
      const int64_t first = cell + (j->counts_batch ? image : 0), height = rows.end - rows.begin,
                    width = columns.end - columns.begin;
      if (height <= 0 || width <= 0) {
        memset((ELEM *)j->y + to, 0, (size_t)C * sizeof(ELEM));
        memset((char *)j->places + (size_t)to * j->place_size, -1, (size_t)C * j->place_size);
        continue;
      }
      const ELEM *x = (const ELEM *)j->x + image + cell;
      WEFT_EACH_CHANNELS(C, WEFT_CAT(argmax_cells, SUFFIX)(j, x + c, height, width, first + c, n, to + c))
    }
  }
}

/* Of `n` channels what g has at the first maximum; 0 where that is no number, or negative infinity, which is
 * not MaxPool's maximum. */
static inline __attribute__((always_inline)) void WEFT_CAT(second_cells, SUFFIX)(const ELEM *x, const ELEM *g,
                                                                                 int64_t h, int64_t w,
                                                                                 int64_t width, int64_t C,
                                                                                 int n, ELEM *y) {
  ELEM best[WEFT_CHANNELS];
  uint32_t at[WEFT_CHANNELS];
  WEFT_CAT(find_cells, SUFFIX)(x, h, w, width, C, n, best, at);
  for (int c = 0; c < n; c++) y[c] = LOAD(best[c]) >= LOAD(POOL_LOWEST) ? g[at[c] * C + c] : (ELEM)0;
}

/* Rows [begin, end) of the images, from x and dy, which are as large. */
static void WEFT_CAT(max_second, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  for (int64_t line = begin; line < end; line++) {
    const weft_window_span_t rows = weft_window_cells(h, line % h->out);
    for (int64_t ow = 0; ow < w->out; ow++) {
      const weft_window_span_t columns = weft_window_cells(w, ow);
      const int64_t height = rows.end - rows.begin, width = columns.end - columns.begin;
      const int64_t cell = ((line / h->out * h->in + rows.begin) * w->in + columns.begin) * C;
      ELEM *y = (ELEM *)j->y + (line * w->out + ow) * C;
      if (height <= 0 || width <= 0) { /* padding alone */
        memset(y, 0, (size_t)C * sizeof *y);
        continue;
      }
      const ELEM *x = (const ELEM *)j->x + cell, *g = (const ELEM *)j->dy + cell;
      WEFT_EACH_CHANNELS(C, WEFT_CAT(second_cells, SUFFIX)(x + c, g + c, height, width, w->in, C, n, y + c))
    }
  }
}

/* Adds dy of `n` channels to dx where x has the first maximum of h by w cells, in rows `mine` of these. x and
 * dx: the first cell's first channel. */
static inline __attribute__((always_inline)) void WEFT_CAT(max_grad_cells,
                                                           SUFFIX)(const ELEM *x, const ELEM *dy, int64_t h,
                                                                   int64_t w, weft_window_span_t mine,
                                                                   int64_t width, int64_t C, int n,
                                                                   ELEM *dx) {
  ELEM best[WEFT_CHANNELS];
  uint32_t at[WEFT_CHANNELS];
  WEFT_CAT(find_cells, SUFFIX)(x, h, w, width, C, n, best, at);
  for (int64_t i = mine.begin; i < mine.end; i++) {
    for (int64_t k = 0; k < w; k++) {
      const uint32_t place = (uint32_t)(i * width + k);
      ELEM *q = dx + (i * width + k) * C;
      WEFT_IVDEP
      for (int c = 0; c < n; c++) { /* sums begin with 0 and are never -0, so adding 0 changes none */
        q[c] = STORE((WRAP)LOAD(q[c]) + (at[c] == place ? (WRAP)LOAD(dy[c]) : 0));
      }
    }
  }
}

/* What the windows of output row oh add to rows `lines` of image n's dx. */
static void WEFT_CAT(max_grad_row, SUFFIX)(const pool_job_t *j, int64_t image, int64_t oh,
                                           weft_window_span_t lines) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  const weft_window_span_t rows = weft_window_cells(h, oh);
  const weft_window_span_t mine = {(lines.begin > rows.begin ? lines.begin : rows.begin) - rows.begin,
                                   (lines.end < rows.end ? lines.end : rows.end) - rows.begin};
  for (int64_t ow = 0; mine.begin < mine.end && ow < w->out; ow++) {
    const weft_window_span_t columns = weft_window_cells(w, ow);
    const int64_t height = rows.end - rows.begin, width = columns.end - columns.begin;
    if (width <= 0) continue; /* padding alone */
    const int64_t cell = ((image * h->in + rows.begin) * w->in + columns.begin) * C;
    const ELEM *x = (const ELEM *)j->x + cell,
               *dy = (const ELEM *)j->dy + ((image * h->out + oh) * w->out + ow) * C;
    ELEM *dx = (ELEM *)j->y + cell;
    WEFT_EACH_CHANNELS(
        C, WEFT_CAT(max_grad_cells, SUFFIX)(x + c, dy + c, height, width, mine, w->in, C, n, dx + c))
  }
}

/* Rows [begin, end) of dx, from x and dy. A window of which only some rows are among them is looked through
 * by each thread that has others: an element is a sum over windows in their order, wherever rows are cut. */
static void WEFT_CAT(max_grad, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  const weft_window_t *h = &j->s[1];
  const int64_t row = j->s[2].in * j->c;
  memset((ELEM *)j->y + begin * row, 0, (size_t)((end - begin) * row) * sizeof(ELEM));
  for (int64_t line = begin, stop; line < end; line = stop) {
    const int64_t n = line / h->in, image = n * h->in;
    stop = image + h->in < end ? image + h->in : end;
    const weft_window_span_t lines = {line - image, stop - image},
                             outputs = weft_window_outputs(h, lines.begin, lines.end);
    for (int64_t oh = outputs.begin; oh < outputs.end; oh++) WEFT_CAT(max_grad_row, SUFFIX)(j, n, oh, lines);
  }
}

/* Adds each of an image's windows' dy to the element of y that is its given maximum. */
static inline __attribute__((always_inline)) void WEFT_CAT(add_image, SUFFIX)(const pool_job_t *j,
                                                                              int64_t image,
                                                                              const bool is_wide) {
  const int64_t first = places_from(j, image);
  const ELEM *dy = j->dy;
  ELEM *y = j->y;
  for (int64_t i = image * j->out_image; i < (image + 1) * j->out_image; i++) {
    ELEM *sum = y + given_place(j, i, first, is_wide);
    *sum = STORE((WRAP)LOAD(*sum) + (WRAP)LOAD(dy[i]));
  }
}

/* Images [begin, end). */
static void WEFT_CAT(add_places, SUFFIX)(const pool_job_t *j, int64_t begin, int64_t end) {
  for (int64_t image = begin; image < end; image++) {
    if (j->place_size == sizeof(int64_t)) {
      WEFT_CAT(add_image, SUFFIX)(j, image, true);
    } else {
      WEFT_CAT(add_image, SUFFIX)(j, image, false);
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
