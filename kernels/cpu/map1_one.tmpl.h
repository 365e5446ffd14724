/* kernels/cpu/map1_one.tmpl.h - the loop of map1.tmpl.h for one element type. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, void *yv) {
  const ELEM *x = xv;
#ifdef MAP_BOOL
  uint8_t *y = yv;
#define MAP_STORE(v) ((uint8_t)(v))
#else
  ELEM *y = yv;
#define MAP_STORE(v) STORE(v)
#endif
  WEFT_IVDEP
  for (int64_t i = 0; i < n; i++) {
#ifdef MAP_WRAPS
    const WRAP a = (WRAP)LOAD(x[i]);
#else
    const COMP a = LOAD(x[i]);
#endif
    y[i] = MAP_STORE(MAP_EXPR(a));
  }
#undef MAP_STORE
}
