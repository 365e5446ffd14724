/* kernels/cpu/math/logsumexp_one.tmpl.h - running log(sum(exp(x))) of lines, for one element type. */

static COMP WEFT_CAT(add_exp, SUFFIX)(COMP a, COMP b) {
  const COMP low = a < b ? a : b, high = a < b ? b : a;
  if (high == -(COMP)INFINITY) return high; /* else infinity would be taken from infinity */
  return log1p(exp(low - high)) + high;
}

static void WEFT_CAT(cumlogsumexp, SUFFIX)(const scan_job_t *j, int64_t begin, int64_t end) {
  for (int64_t line = begin; line < end; line++) {
    int64_t base = line / j->inner * j->axis * j->inner + line % j->inner;
    const ELEM *x = (const ELEM *)j->x + base;
    ELEM *y = (ELEM *)j->y + base;
    COMP acc = -(COMP)INFINITY;
    for (int64_t i = 0; i < j->axis; i++) {
      int64_t at = (j->reverse ? j->axis - 1 - i : i) * j->inner;
      const COMP v = LOAD(x[at]);
      if (j->exclusive) y[at] = STORE(acc);
      acc = WEFT_CAT(add_exp, SUFFIX)(acc, v);
      if (!j->exclusive) y[at] = STORE(acc);
    }
  }
}
