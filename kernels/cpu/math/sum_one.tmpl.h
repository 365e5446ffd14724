/* kernels/cpu/math/sum_one.tmpl.h - the loop of sum.h for one element type. A part of the sum stays in
 * registers while all operands are added to it: vectors by name, since the compiler keeps an array of
 * elements in memory and adds them one by one. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, int num, const void *const *x, void *yv) {
  typedef WRAP vector_t __attribute__((vector_size(SUM_VECTOR_BYTES)));
  typedef WRAP at_t __attribute__((vector_size(SUM_VECTOR_BYTES), aligned(sizeof(ELEM)), may_alias));
  enum { EACH = SUM_VECTOR_BYTES / sizeof(ELEM), PART = SUM_VECTORS * EACH };
  ELEM *y = yv;
  int64_t i = 0;
  for (; i + PART <= n; i += PART) {
    vector_t part[SUM_VECTORS];
    const ELEM *first = (const ELEM *)x[0] + i;
    for (int v = 0; v < SUM_VECTORS; v++) part[v] = *(const at_t *)(const void *)(first + v * EACH);
    for (int k = 1; k < num; k++) {
      const ELEM *next = (const ELEM *)x[k] + i;
      for (int v = 0; v < SUM_VECTORS; v++) part[v] += *(const at_t *)(const void *)(next + v * EACH);
    }
    for (int v = 0; v < SUM_VECTORS; v++) *(at_t *)(void *)(y + i + v * EACH) = part[v];
  }
  for (; i < n; i++) {
    WRAP one = (WRAP)LOAD(((const ELEM *)x[0])[i]);
    for (int k = 1; k < num; k++) one = (WRAP)(one + (WRAP)LOAD(((const ELEM *)x[k])[i]));
    y[i] = STORE(one);
  }
}
