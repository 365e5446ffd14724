/* kernels/cpu/nn/conv_pad_one.tmpl.h - resized and mirrored images for one element type: rows [begin, end) of
 * what the filter sees. Each step is rounded to the type. */
#define CONV_PAD_MIX(a, b, part) LOAD(STORE((a) + LOAD(STORE(LOAD(STORE((b) - (a))) * (part)))))
static void WEFT_CAT(conv_pad, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const conv_pad_job_t *j = arg;
  const int64_t channels = j->channels, line = j->columns.in * channels;
  ELEM *y = (ELEM *)j->y + begin * j->columns.length * channels;
  for (int64_t r = begin; r < end; r++) {
    int64_t top = 0, bottom = 0, left = 0, right = 0;
    float down = 0, across = 0;
    const ELEM *x = (const ELEM *)j->x + r / j->rows.length * j->rows.in * line;
    const bool has_row = find_source(&j->rows, j->mirror, r % j->rows.length, &top, &bottom, &down);
    const COMP y_part = LOAD(STORE(down));
    for (int64_t w = 0; w < j->columns.length; w++, y += channels) {
      if (!has_row || !find_source(&j->columns, j->mirror, w, &left, &right, &across)) {
        memset(y, 0, (size_t)channels * sizeof *y);
        continue;
      }
      const ELEM *a = x + top * line + left * channels, *b = x + top * line + right * channels;
      const ELEM *c = x + bottom * line + left * channels, *d = x + bottom * line + right * channels;
      const COMP x_part = LOAD(STORE(across));
      if (!j->interpolates) {
        memcpy(y, a, (size_t)channels * sizeof *y);
        continue;
      }
      for (int64_t k = 0; k < channels; k++) {
        const COMP upper = CONV_PAD_MIX(LOAD(a[k]), LOAD(b[k]), x_part),
                   lower = CONV_PAD_MIX(LOAD(c[k]), LOAD(d[k]), x_part);
        y[k] = STORE(CONV_PAD_MIX(upper, lower, y_part));
      }
    }
  }
}
#undef CONV_PAD_MIX
