/* kernels/cpu/linalg/cross_one.tmpl.h - for one element type; every product and difference is rounded to it.
 */
#define ROUND(v) ((WRAP)LOAD(STORE(v)))
static void WEFT_CAT(cross, SUFFIX)(int64_t begin, int64_t end, const void *av, const void *bv, void *yv) {
  const ELEM *a = av, *b = bv;
  ELEM *y = yv;
  for (int64_t i = 3 * begin; i < 3 * end; i += 3) {
    WRAP a0 = (WRAP)LOAD(a[i]), a1 = (WRAP)LOAD(a[i + 1]), a2 = (WRAP)LOAD(a[i + 2]), b0 = (WRAP)LOAD(b[i]),
         b1 = (WRAP)LOAD(b[i + 1]), b2 = (WRAP)LOAD(b[i + 2]);
    y[i] = STORE(ROUND(a1 * b2) - ROUND(a2 * b1));
    y[i + 1] = STORE(ROUND(a2 * b0) - ROUND(a0 * b2));
    y[i + 2] = STORE(ROUND(a0 * b1) - ROUND(a1 * b0));
  }
}
#undef ROUND
