/* kernels/cpu/nn/leaky_one.tmpl.h - y = x > 0 ? value : alpha * value, for one element type. y may be value.
 */
static void WEFT_CAT(leaky, SUFFIX)(int64_t n, double alpha, const void *valuev, const void *xv, void *yv) {
  const ELEM *value = valuev, *x = xv;
  ELEM *y = yv;
  const COMP slope = (COMP)alpha;
  WEFT_IVDEP
  for (int64_t i = 0; i < n; i++) {
    const COMP v = LOAD(value[i]);
    y[i] = STORE(LOAD(x[i]) > 0 ? v : slope * v);
  }
}
