/* kernels/cpu/nn/dilation_one.tmpl.h - Dilation2D and its gradients for one element type. Sums are rounded to
 * the type before they are compared. */

/* The maximum of window (h, w) of channel c of image n, and the cell of the filter that gave it: the first
 * one where none did. */
static COMP WEFT_CAT(dilation_best, SUFFIX)(const dilation_job_t *j, int64_t n, int64_t h, int64_t w,
                                            int64_t c, int64_t *best_row, int64_t *best_column) {
  const weft_window_t *rows = &j->rows, *columns = &j->columns;
  const ELEM *x = (const ELEM *)j->x + n * rows->in * columns->in * j->channels + c;
  const ELEM *f = (const ELEM *)j->filter + c;
  const int64_t top = h * rows->stride - rows->before, left = w * columns->stride - columns->before;
  COMP best = (COMP)weft_lowest(ELEM_ID);
  *best_row = *best_column = -1;
  for (int64_t i = 0; i < rows->k; i++) {
    const int64_t row = top + i * rows->dilation;
    if (row < 0 || row >= rows->in) continue;
    for (int64_t k = 0; k < columns->k; k++) {
      const int64_t column = left + k * columns->dilation;
      if (column < 0 || column >= columns->in) continue;
      const ELEM sum = STORE((WRAP)LOAD(x[(row * columns->in + column) * j->channels]) +
                             (WRAP)LOAD(f[(i * columns->k + k) * j->channels]));
      if (!(LOAD(sum) > best)) continue;
      best = LOAD(sum);
      *best_row = i;
      *best_column = k;
    }
  }
  return best;
}

/* Rows [begin, end) of all images. */
static void WEFT_CAT(dilation, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const dilation_job_t *j = arg;
  int64_t row, column;
  ELEM *y = (ELEM *)j->y + begin * j->columns.out * j->channels;
  for (int64_t r = begin; r < end; r++) {
    for (int64_t w = 0; w < j->columns.out; w++) {
      for (int64_t c = 0; c < j->channels; c++) {
        *y++ =
            STORE(WEFT_CAT(dilation_best, SUFFIX)(j, r / j->rows.out, r % j->rows.out, w, c, &row, &column));
      }
    }
  }
}

#define DILATION_ADD(to, dy) ((to) = STORE((WRAP)LOAD(to) + (WRAP)LOAD(dy)))

/* Images [begin, end): each window's gradient goes to the pixel that its maximum came from. */
static void WEFT_CAT(dilation_grad_input, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const dilation_job_t *j = arg;
  const weft_window_t *rows = &j->rows, *columns = &j->columns;
  const ELEM *dy = (const ELEM *)j->dy + begin * rows->out * columns->out * j->channels;
  for (int64_t i = begin * rows->out * columns->out; i < end * rows->out * columns->out; i++) {
    const int64_t n = i / (rows->out * columns->out), h = i / columns->out % rows->out, w = i % columns->out;
    ELEM *dx = (ELEM *)j->y + n * rows->in * columns->in * j->channels;
    for (int64_t c = 0; c < j->channels; c++, dy++) {
      int64_t row, column;
      (void)WEFT_CAT(dilation_best, SUFFIX)(j, n, h, w, c, &row, &column);
      const int64_t top = h * rows->stride - rows->before, left = w * columns->stride - columns->before;
      const int64_t to_row = row < 0 ? (top < 0 ? 0 : top) : top + row * rows->dilation,
                    to_column = row < 0 ? (left < 0 ? 0 : left) : left + column * columns->dilation;
      if (to_row >= rows->in || to_column >= columns->in) continue;
      DILATION_ADD(dx[(to_row * columns->in + to_column) * j->channels + c], *dy);
    }
  }
}

/* ... to the cell of the filter. */
static void WEFT_CAT(dilation_grad_filter, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const dilation_job_t *j = arg;
  const weft_window_t *rows = &j->rows, *columns = &j->columns;
  const ELEM *dy = (const ELEM *)j->dy + begin * rows->out * columns->out * j->channels;
  for (int64_t i = begin * rows->out * columns->out; i < end * rows->out * columns->out; i++) {
    const int64_t n = i / (rows->out * columns->out), h = i / columns->out % rows->out, w = i % columns->out;
    for (int64_t c = 0; c < j->channels; c++, dy++) {
      int64_t row, column;
      (void)WEFT_CAT(dilation_best, SUFFIX)(j, n, h, w, c, &row, &column);
      const int64_t cell = row < 0 ? 0 : row * columns->k + column;
      DILATION_ADD(((ELEM *)j->y)[cell * j->channels + c], *dy);
    }
  }
}
#undef DILATION_ADD
