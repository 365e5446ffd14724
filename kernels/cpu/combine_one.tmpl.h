/* kernels/cpu/combine_one.tmpl.h - the loop of combine.tmpl.h for one element type. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *fromv, void *tov) {
  const ELEM *restrict from = fromv;
  ELEM *restrict to = tov;
  for (int64_t i = 0; i < n; i++) {
    const MAP_COMP a = (MAP_COMP)LOAD(to[i]), b = (MAP_COMP)LOAD(from[i]);
    to[i] = STORE(COMBINE(a, b));
  }
}
