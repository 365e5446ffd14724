/* kernels/cpu/math/cumulate_one.tmpl.h - running sums and products of lines. half and bfloat16 run in float.
 */
static void WEFT_CAT(cumsum, SUFFIX)(const scan_job_t *j, int64_t begin, int64_t end) {
  for (int64_t line = begin; line < end; line++) {
    int64_t base = line / j->inner * j->axis * j->inner + line % j->inner;
    const ELEM *x = (const ELEM *)j->x + base;
    ELEM *y = (ELEM *)j->y + base;
    WRAP acc = 0;
    for (int64_t i = 0; i < j->axis; i++) {
      int64_t at = (j->reverse ? j->axis - 1 - i : i) * j->inner;
      const WRAP v = (WRAP)LOAD(x[at]);
      if (j->exclusive) y[at] = STORE(acc);
      acc = (WRAP)(acc + v);
      if (!j->exclusive) y[at] = STORE(acc);
    }
  }
}

static void WEFT_CAT(cumprod, SUFFIX)(const scan_job_t *j, int64_t begin, int64_t end) {
  for (int64_t line = begin; line < end; line++) {
    int64_t base = line / j->inner * j->axis * j->inner + line % j->inner;
    const ELEM *x = (const ELEM *)j->x + base;
    ELEM *y = (ELEM *)j->y + base;
    WRAP acc = 1;
    for (int64_t i = 0; i < j->axis; i++) {
      int64_t at = (j->reverse ? j->axis - 1 - i : i) * j->inner;
      const WRAP v = (WRAP)LOAD(x[at]);
      if (j->exclusive) y[at] = STORE(acc);
      acc = (WRAP)(acc * v);
      if (!j->exclusive) y[at] = STORE(acc);
    }
  }
}
