/* kernels/cpu/nn/depth_lines.c - see the header. */
#include "kernels/cpu/nn/depth_lines.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/nn/axis.h"
#include "kernels/cpu/tile/depth.h"
#include "tensor/update.h"

enum { MOST_ROWS = 32, MOST_STRIDE = 64 };

bool weft_depth_lines_fit(const weft_depth_lines_t *d) {
  return d->h.k <= MOST_ROWS && d->h.stride <= MOST_STRIDE && d->w.stride <= MOST_STRIDE;
}

/* ---- forward, and the gradient of the input ---- */

typedef struct depth_rows {
  weft_dtype_t dtype;
  size_t size;
  int64_t c, filter_w;
  weft_axis_t h, w;
  const char *src, *f;
  char *dst;
  const weft_epilogue_t *epilogue; /* NULL: none */
} depth_rows_t;

/* Pixels [begin, end) of row i of an image, with taps [tap_begin, tap_end) of each row of the window. */
static void compute_pixels(const depth_rows_t *j, int64_t image, int64_t i, int64_t begin, int64_t end,
                           int64_t tap_begin, int64_t tap_end) {
  const weft_axis_t *h = &j->h, *w = &j->w;
  const void *x[MOST_ROWS], *f[MOST_ROWS];
  int64_t first, last;
  weft_axis_taps(h, i, &first, &last);
  const int64_t column = w->from + begin * w->stride + tap_begin * w->dist;
  for (int64_t r = first; r < last; r++) {
    const int64_t y = h->from + i * h->stride + r * h->dist;
    const int64_t tap = (h->tap + r * h->tap_step) * j->filter_w + w->tap + tap_begin * w->tap_step;
    x[r - first] = j->src + (size_t)(((image * h->in + y) * w->in + column) * j->c) * j->size;
    f[r - first] = j->f + (size_t)(tap * j->c) * j->size;
  }
  const weft_depth_t t = {.x = x,
                          .f = f,
                          .rows = tap_end > tap_begin ? last - first : 0,
                          .taps = tap_end - tap_begin,
                          .channels = j->c,
                          .x_pixel = w->stride * j->c,
                          .x_tap = w->dist * j->c,
                          .f_tap = w->tap_step * j->c,
                          .y_pixel = w->step * j->c};
  const int64_t to = (image * h->out + h->first + i * h->step) * w->out + w->first + begin * w->step;
  weft_depth_run(j->dtype, &t, end - begin, j->dst + (size_t)(to * j->c) * j->size);
}

/* Rows [begin, end) of all images. */
static void compute_rows(void *arg, int64_t begin, int64_t end) {
  const depth_rows_t *j = arg;
  int64_t inside, outside, first, last;
  weft_axis_inside(&j->w, &inside, &outside);
  for (int64_t row = begin; row < end; row++) {
    const int64_t image = row / j->h.count, i = row % j->h.count;
    for (int64_t p = 0; p < j->w.count; p++) {
      if (p == inside && p < outside) {
        compute_pixels(j, image, i, inside, outside, 0, j->w.taps);
        p = outside - 1;
        continue;
      }
      weft_axis_taps(&j->w, p, &first, &last);
      compute_pixels(j, image, i, p, p + 1, first, last);
    }
    if (j->epilogue != NULL)
      weft_epilogue_apply(j->epilogue, (float *)j->dst, row * j->w.out, j->w.out, 0, j->c);
  }
}

static void run_rows(weft_thread_pool_t *pool, const weft_depth_lines_t *d, depth_rows_t *j) {
  const int64_t work = j->w.count * j->c * (j->h.taps * j->w.taps + 2);
  weft_parallel_for(pool, d->n * j->h.count, 4 * WEFT_CPU_GRAIN / (work + 1) + 1, compute_rows, j);
}

static depth_rows_t rows_of(const weft_depth_lines_t *d, const void *src) {
  return (depth_rows_t){.dtype = d->dtype,
                        .size = weft_dtype_size(d->dtype),
                        .c = d->c,
                        .filter_w = d->w.k,
                        .src = src,
                        .f = d->f,
                        .dst = d->out};
}

weft_status_t *weft_depth_lines_forward(weft_thread_pool_t *pool, const weft_depth_lines_t *d) {
  depth_rows_t j = rows_of(d, d->x);
  j.h = weft_axis_forward(&d->h);
  j.w = weft_axis_forward(&d->w);
  j.epilogue = d->epilogue;
  run_rows(pool, d, &j);
  return NULL;
}

weft_status_t *weft_depth_lines_input(weft_thread_pool_t *pool, const weft_depth_lines_t *d) {
  depth_rows_t j = rows_of(d, d->dy);
  for (int64_t phase = 0; phase < d->h.stride * d->w.stride; phase++) { /* one without taps makes zeros */
    j.h = weft_axis_backward(&d->h, phase / d->w.stride);
    j.w = weft_axis_backward(&d->w, phase % d->w.stride);
    if (j.h.count > 0 && j.w.count > 0) run_rows(pool, d, &j);
  }
  return NULL;
}

/* ---- the gradient of the filter ---- */

/* Pieces of the sum, and rows for each, at least. */
enum { MOST_PIECES = 16, PIECE_PIXELS = 1024 };

typedef struct depth_sums {
  const weft_depth_lines_t *d;
  size_t size;
  weft_axis_t h, w;
  int64_t pieces, count; /* count: elements of a filter */
  char *df;              /* [pieces] filters */
} depth_sums_t;

/* Adds what pixels [begin, end) of a row give to taps [tap_begin, tap_end) of row `tap_row` of the filter. */
static void sum_pixels(const depth_sums_t *j, int64_t x_row, int64_t dy_row, int64_t tap_row, int64_t begin,
                       int64_t end, int64_t tap_begin, int64_t tap_end, char *df) {
  const weft_axis_t *w = &j->w;
  const int64_t c = j->d->c, column = w->from + begin * w->stride + tap_begin * w->dist;
  if (tap_begin == tap_end) return;
  const weft_depth_sum_t t = {
      .x = (const char *)j->d->x + (size_t)((x_row * w->in + column) * c) * j->size,
      .dy = (const char *)j->d->dy + (size_t)((dy_row * w->out + begin) * c) * j->size,
      .taps = tap_end - tap_begin,
      .channels = c,
      .x_pixel = w->stride * c,
      .x_tap = w->dist * c,
      .dy_pixel = c,
      .df_tap = c};
  weft_depth_sum(j->d->dtype, &t, end - begin, df + (size_t)((tap_row * w->taps + tap_begin) * c) * j->size);
}

static void sum_row(const depth_sums_t *j, int64_t row, char *df) {
  const weft_axis_t *h = &j->h, *w = &j->w;
  const int64_t image = row / h->count, i = row % h->count;
  int64_t inside, outside, first, last, tap_begin, tap_end;
  weft_axis_inside(w, &inside, &outside);
  weft_axis_taps(h, i, &first, &last);
  for (int64_t r = first; r < last; r++) {
    const int64_t x_row = image * h->in + h->from + i * h->stride + r * h->dist;
    for (int64_t p = 0; p < w->count; p++) {
      if (p == inside && p < outside) {
        sum_pixels(j, x_row, row, r, inside, outside, 0, w->taps, df);
        p = outside - 1;
        continue;
      }
      weft_axis_taps(w, p, &tap_begin, &tap_end);
      sum_pixels(j, x_row, row, r, p, p + 1, tap_begin, tap_end, df);
    }
  }
}

static void sum_pieces(void *arg, int64_t begin, int64_t end) {
  const depth_sums_t *j = arg;
  const int64_t rows = j->d->n * j->h.count;
  for (int64_t piece = begin; piece < end; piece++) {
    char *df = j->df + (size_t)(piece * j->count) * j->size;
    memset(df, 0, (size_t)j->count * j->size);
    const int64_t last = rows * (piece + 1) / j->pieces;
    for (int64_t row = rows * piece / j->pieces; row < last; row++) sum_row(j, row, df);
  }
}

weft_status_t *weft_depth_lines_filter(weft_thread_pool_t *pool, const weft_depth_lines_t *d) {
  depth_sums_t j = {.d = d,
                    .size = weft_dtype_size(d->dtype),
                    .h = weft_axis_forward(&d->h),
                    .w = weft_axis_forward(&d->w),
                    .count = d->h.k * d->w.k * d->c,
                    .df = d->out};
  const int64_t rows = d->n * j.h.count, pieces = rows * j.w.count / PIECE_PIXELS;
  j.pieces = pieces < 1 ? 1 : pieces < MOST_PIECES ? pieces : MOST_PIECES;
  if (j.pieces > rows) j.pieces = 1;
  if (j.pieces > 1) {
    size_t bytes = 0;
    j.df = weft_mul_size((size_t)(j.count * j.pieces), j.size, &bytes) ? weft_malloc(bytes) : NULL;
    if (j.df == NULL) return WEFT_NO_MEMORY("the gradient of a depthwise filter");
  }
  weft_parallel_for(pool, j.pieces, 1, sum_pieces, &j);
  if (j.pieces > 1) {
    weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, d->dtype);
    memcpy(d->out, j.df, (size_t)j.count * j.size);
    for (int64_t p = 1; p < j.pieces; p++) add(d->out, j.df + (size_t)(p * j.count) * j.size, j.count, false);
    weft_free(j.df);
  }
  return NULL;
}
