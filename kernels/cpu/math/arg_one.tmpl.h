/* kernels/cpu/math/arg_one.tmpl.h - where the largest and the smallest element of a line are; the first among
 * equals. As in TensorFlow, the search starts from the lowest (ArgMin: the highest) finite number and index
 * 0, so a NaN is passed over, and a line without an element beyond that number gives 0. */
static void WEFT_CAT(arg_max, SUFFIX)(const scan_job_t *j, int64_t begin, int64_t end) {
  const ELEM *x = j->x;
  ELEM start;
  weft_update_identity(WEFT_UPDATE_MAX, ELEM_ID, 1, &start);
  for (int64_t line = begin; line < end; line++) {
    const ELEM *p = x + line / j->inner * j->axis * j->inner + line % j->inner;
    COMP best = LOAD(start);
    int64_t where = 0;
    for (int64_t i = 0; i < j->axis; i++) {
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
  ELEM start;
  weft_update_identity(WEFT_UPDATE_MIN, ELEM_ID, 1, &start);
  for (int64_t line = begin; line < end; line++) {
    const ELEM *p = x + line / j->inner * j->axis * j->inner + line % j->inner;
    COMP best = LOAD(start);
    int64_t where = 0;
    for (int64_t i = 0; i < j->axis; i++) {
      const COMP v = LOAD(p[i * j->inner]);
      if (v < best) {
        best = v;
        where = i;
      }
    }
    put_index(j, line, where);
  }
}
