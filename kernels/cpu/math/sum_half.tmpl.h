/* kernels/cpu/math/sum_half.tmpl.h - the loop of sum.h for an element type that is computed with in float:
 * each partial sum is rounded. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, int num, const void *const *x, void *yv) {
  ELEM *y = yv, rounded[WEFT_NARROW_BLOCK];
  float part[WEFT_NARROW_BLOCK], next[WEFT_NARROW_BLOCK];
  for (int64_t i = 0, m; i < n; i += m) {
    m = weft_narrow_block(n - i);
    memcpy(rounded, (const ELEM *)x[0] + i, (size_t)m * sizeof *rounded);
    for (int k = 1; k < num; k++) {
      WEFT_CAT(weft_widen, SUFFIX)(m, rounded, part);
      WEFT_CAT(weft_widen, SUFFIX)(m, (const ELEM *)x[k] + i, next);
      for (int64_t e = 0; e < m; e++) part[e] += next[e];
      WEFT_CAT(weft_narrow, SUFFIX)(m, part, rounded);
    }
    memcpy(y + i, rounded, (size_t)m * sizeof *rounded);
  }
}
