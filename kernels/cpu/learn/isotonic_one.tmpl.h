/* kernels/cpu/learn/isotonic_one.tmpl.h - IsotonicRegression of rows, for one pair of types: ISOTONIC_IN to
 * ISOTONIC_OUT, computed in ISOTONIC_COMP. */

/* Pools adjacent violators: `sums` and `starts` of the blocks found so far, whose means decrease. */
static void WEFT_CAT(isotonic, ISOTONIC_NAME)(const isotonic_job_t *j, int64_t row, double *sums,
                                              int64_t *starts) {
  const ISOTONIC_IN *x = (const ISOTONIC_IN *)j->x + row * j->width;
  ISOTONIC_OUT *y = (ISOTONIC_OUT *)j->y + row * j->width;
  int32_t *segments = j->segments + row * j->width;
  int64_t n = 0;
  for (int64_t i = 0; i < j->width; i++) {
    sums[n] = (double)ISOTONIC_LOAD(x[i]);
    starts[n++] = i;
    for (; n > 1; n--) {
      double last = sums[n - 1] / (double)(i + 1 - starts[n - 1]);
      double before = sums[n - 2] / (double)(starts[n - 1] - starts[n - 2]);
      if (!(last > before)) break;
      sums[n - 2] += sums[n - 1];
    }
  }
  for (int64_t k = 0; k < n; k++) {
    int64_t end = k + 1 < n ? starts[k + 1] : j->width;
    double mean = sums[k] / (double)(end - starts[k]);
    for (int64_t i = starts[k]; i < end; i++) {
      y[i] = ISOTONIC_STORE(mean);
      segments[i] = (int32_t)k;
    }
  }
}
#undef ISOTONIC_NAME
#undef ISOTONIC_IN
#undef ISOTONIC_OUT
#undef ISOTONIC_LOAD
#undef ISOTONIC_STORE
