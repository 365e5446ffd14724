/* kernels/cpu/nn/pool_lines_one.tmpl.h - maxima and means over windows of [N,H,W,C] of few channels: a line
 * of outputs at a time.
 *
 * A line of the image is cut by the stride into phases: phase p has the pixels p, p + stride, p + 2 * stride
 * and so on. Under one cell of the windows, all outputs of a line then lie beside each other in one phase.
 * Cells are taken in the same order as pixel by pixel, so that the results have the same bits. */

/* Cuts the pixels of `row` under the tile's windows into its phases; `pad` is what padding has. */
static void WEFT_CAT(cut_phases, SUFFIX)(const pool_job_t *j, const pool_tile_t *t, const ELEM *row, COMP pad,
                                         COMP *line, COMP *phases) {
  const weft_window_t *w = &j->s[2];
  const int64_t C = j->c, from = t->first * w->stride - w->before, to = from + t->length * w->stride,
                begin = from < 0 ? 0 : from, end = to < w->in ? to : w->in;
  const void *pixels = row + begin * C;
  if (sizeof(ELEM) < sizeof(COMP) && end > begin) {
    weft_cpu_cast_loop(ELEM_ID, WEFT_F32)((end - begin) * C, pixels, line);
    pixels = line;
  }
  for (int64_t p = 0; p < t->phases; p++, phases += t->length * C) {
    const int64_t base = from + p;
    int64_t first = base < 0 ? (-base - 1) / w->stride + 1 : 0,
            last = base < w->in ? (w->in - 1 - base) / w->stride + 1 : 0;
    if (last > t->length) last = t->length;
    if (first > last) first = last;
    for (int64_t i = 0; i < first * C; i++) phases[i] = pad;
    for (int64_t i = last * C; i < t->length * C; i++) phases[i] = pad;
    const weft_sheet_t sheet = {
        .rows = last - first, .n = C, .from_row = w->stride * C, .from_step = 1, .to_row = C, .to_step = 1};
    if (last > first) {
      const COMP *x = (const COMP *)pixels + (base + first * w->stride - begin) * C;
      weft_move_sheet(&sheet, x, phases + first * C, sizeof(COMP));
    }
  }
}

/* The outputs of a tile of line `o`, into `sums`. */
static inline __attribute__((always_inline)) void WEFT_CAT(pool_tile, SUFFIX)(const pool_job_t *j,
                                                                              const pool_tile_t *t, int64_t o,
                                                                              const bool is_mean, COMP *line,
                                                                              COMP *phases, COMP *sums) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const weft_window_span_t rows = weft_window_cells(h, o % h->out);
  const int64_t C = j->c, n = t->outputs * C;
  const COMP start = is_mean ? 0 : (COMP)weft_lowest(ELEM_ID);
  for (int64_t i = 0; i < n; i++) sums[i] = start;
  for (int64_t row = rows.begin; row < rows.end; row++) {
    const ELEM *x = (const ELEM *)j->x + (o / h->out * h->in + row) * w->in * C;
    WEFT_CAT(cut_phases, SUFFIX)(j, t, x, start, line, phases);
    for (int64_t k = 0; k < w->k; k++) {
      const COMP *cells = phases + (k % w->stride * t->length + k / w->stride) * C;
      WEFT_IVDEP
      for (int64_t i = 0; i < n; i++) {
        sums[i] = is_mean ? (COMP)(sums[i] + cells[i]) : sums[i] < cells[i] ? cells[i] : sums[i];
      }
    }
  }
}

/* Rows [begin, end) of the images. False: no memory. */
static inline __attribute__((always_inline)) bool WEFT_CAT(pool_lines, SUFFIX)(const pool_job_t *j,
                                                                               int64_t begin, int64_t end,
                                                                               const bool is_mean) {
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t C = j->c;
  pool_tile_t t = pool_tile_of(j);
  const size_t most = (size_t)(t.outputs * C), line = (size_t)(t.length * w->stride * C),
               phases = (size_t)(t.length * t.phases * C);
  COMP *sums = weft_malloc((2 * most + line + phases) * sizeof *sums), *cells = sums + most;
  if (sums == NULL) return false;
  for (int64_t o = begin; o < end; o++) {
    const weft_window_span_t rows = weft_window_cells(h, o % h->out);
    const int64_t height = rows.end > rows.begin ? rows.end - rows.begin : 0;
    for (t.first = 0; t.first < w->out; t.first += t.outputs) {
      pool_tile_t here = t;
      if (w->out - t.first < t.outputs) {
        here.outputs = w->out - t.first;
        here.length -= t.outputs - here.outputs;
      }
      ELEM *y = (ELEM *)j->y + (o * w->out + t.first) * C;
      WEFT_CAT(pool_tile, SUFFIX)(j, &here, o, is_mean, cells + most, cells + most + line, sums);
      if (is_mean) {
        for (int64_t i = 0; i < here.outputs; i++) {
          const weft_window_span_t columns = weft_window_cells(w, t.first + i);
          const int64_t width = columns.end > columns.begin ? columns.end - columns.begin : 0;
          for (int64_t c = 0; c < C; c++) cells[i * C + c] = (COMP)(height * width);
        }
        for (int64_t i = 0; i < here.outputs * C; i++) y[i] = STORE(sums[i] / cells[i]);
      } else {
        for (int64_t i = 0; i < here.outputs * C; i++) y[i] = STORE(sums[i]);
      }
    }
  }
  weft_free(sums);
  return true;
}
