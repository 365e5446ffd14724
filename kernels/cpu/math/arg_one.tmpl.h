/* kernels/cpu/math/arg_one.tmpl.h - where the largest and the smallest element of a line are; the first among
 * equals. */
static void WEFT_CAT(arg_max, SUFFIX)(const scan_job_t *j, int64_t begin, int64_t end) {
  const ELEM *x = j->x;
  for (int64_t line = begin; line < end; line++) {
    const ELEM *p = x + line / j->inner * j->axis * j->inner + line % j->inner;
    COMP best = LOAD(p[0]);
    int64_t where = 0;
    for (int64_t i = 1; i < j->axis; i++) {
      const COMP v = LOAD(p[i * j->inner]);
      if (v > best) {
        best = v;
        where = i;
      }
    }
    put_index(j, line, where);
  }
}

static void WEFT_CAT(arg_min, SUFFIX)(const scan_job_t *j, int64_t begin, int64_t end) {
  const ELEM *x = j->x;
  for (int64_t line = begin; line < end; line++) {
    const ELEM *p = x + line / j->inner * j->axis * j->inner + line % j->inner;
    COMP best = LOAD(p[0]);
    int64_t where = 0;
    for (int64_t i = 1; i < j->axis; i++) {
      const COMP v = LOAD(p[i * j->inner]);
      if (v < best) {
        best = v;
        where = i;
      }
    }
    put_index(j, line, where);
  }
}
