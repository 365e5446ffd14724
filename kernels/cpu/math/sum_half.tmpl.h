/* kernels/cpu/math/sum_half.tmpl.h - the loop of sum.h for an element type that is computed with in float:
 * each partial sum is rounded. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, int num, const void *const *x, void *yv) {
  ELEM *y = yv;
  for (int64_t i = 0; i < n; i++) {
    COMP one = LOAD(((const ELEM *)x[0])[i]);
    for (int k = 1; k < num; k++) one = LOAD(STORE(one + LOAD(((const ELEM *)x[k])[i])));
    y[i] = STORE(one);
  }
}
