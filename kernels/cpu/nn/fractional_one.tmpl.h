/* kernels/cpu/nn/fractional_one.tmpl.h - fractional pooling for one element type: images [begin, end). */
static void WEFT_CAT(fractional_max, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const fractional_job_t *j = arg;
  const fraction_t *rows = &j->rows, *columns = &j->columns;
  const int64_t windows = rows->out * columns->out, channels = j->channels;
  for (int64_t i = begin * windows; i < end * windows; i++) {
    int64_t top, bottom, left, right;
    ELEM *y = (ELEM *)j->y + i * channels;
    int64_t *where = j->where == NULL ? NULL : j->where + i * channels;
    cells_of(rows, j->is_overlapping, i / columns->out % rows->out, &top, &bottom);
    cells_of(columns, j->is_overlapping, i % columns->out, &left, &right);
    for (int64_t c = 0; c < channels; c++) y[c] = (ELEM)weft_lowest(ELEM_ID);
    for (int64_t c = 0; c < channels && where != NULL; c++) where[c] = -1;
    for (int64_t h = top; h <= bottom; h++) {
      for (int64_t w = left; w <= right; w++) {
        const int64_t at = ((i / windows * rows->in + h) * columns->in + w) * channels;
        const ELEM *x = (const ELEM *)j->x + at;
        for (int64_t c = 0; c < channels; c++) {
          if (!(y[c] < x[c]) && (where == NULL || where[c] >= 0)) continue;
          y[c] = x[c];
          if (where != NULL) where[c] = at + c;
        }
      }
    }
  }
}

static void WEFT_CAT(fractional_avg, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const fractional_job_t *j = arg;
  const fraction_t *rows = &j->rows, *columns = &j->columns;
  const int64_t windows = rows->out * columns->out, channels = j->channels;
  for (int64_t i = begin * windows; i < end * windows; i++) {
    int64_t top, bottom, left, right;
    ELEM *y = (ELEM *)j->y + i * channels;
    cells_of(rows, j->is_overlapping, i / columns->out % rows->out, &top, &bottom);
    cells_of(columns, j->is_overlapping, i % columns->out, &left, &right);
    memset(y, 0, (size_t)channels * sizeof *y);
    for (int64_t h = top; h <= bottom; h++) {
      for (int64_t w = left; w <= right; w++) {
        const ELEM *x = (const ELEM *)j->x + ((i / windows * rows->in + h) * columns->in + w) * channels;
        for (int64_t c = 0; c < channels; c++) y[c] = (ELEM)((WRAP)y[c] + (WRAP)x[c]);
      }
    }
    const ELEM cells = (ELEM)((bottom - top + 1) * (right - left + 1));
    for (int64_t c = 0; c < channels; c++) y[c] /= cells;
  }
}

/* Each gradient to the cell that its window's maximum came from; false: y is not these maxima. */
static bool WEFT_CAT(fractional_give, SUFFIX)(const fractional_job_t *j, const void *y, const void *dy,
                                              void *dx) {
  for (int64_t i = 0; i < j->images * j->rows.out * j->columns.out * j->channels; i++) {
    if (j->where[i] < 0 || ((const ELEM *)j->y)[i] != ((const ELEM *)y)[i]) return false;
    ELEM *to = (ELEM *)dx + j->where[i];
    *to = (ELEM)((WRAP)*to + (WRAP)((const ELEM *)dy)[i]);
  }
  return true;
}
