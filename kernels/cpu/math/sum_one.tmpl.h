/* kernels/cpu/math/sum_one.tmpl.h - the loop of sum.h for one element type. A part of the sum stays in
 * registers while all operands are added to it. */
#define PART ((int64_t)(SUM_PART_BYTES / sizeof(ELEM)))
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, int num, const void *const *x, void *yv) {
  ELEM *y = yv;
  int64_t i = 0;
  for (; i + PART <= n; i += PART) {
    WRAP part[PART];
    const ELEM *first = (const ELEM *)x[0] + i;
    for (int64_t j = 0; j < PART; j++) part[j] = (WRAP)LOAD(first[j]);
    for (int k = 1; k < num; k++) {
      const ELEM *next = (const ELEM *)x[k] + i;
      for (int64_t j = 0; j < PART; j++) part[j] = (WRAP)LOAD(STORE(part[j] + (WRAP)LOAD(next[j])));
    }
    for (int64_t j = 0; j < PART; j++) y[i + j] = STORE(part[j]);
  }
  for (; i < n; i++) {
    WRAP one = (WRAP)LOAD(((const ELEM *)x[0])[i]);
    for (int k = 1; k < num; k++) one = (WRAP)LOAD(STORE(one + (WRAP)LOAD(((const ELEM *)x[k])[i])));
    y[i] = STORE(one);
  }
}
#undef PART
