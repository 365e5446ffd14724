/* kernels/cpu/map2_one.tmpl.h - the loops of map2.tmpl.h for one element type. */
#ifdef IS_UNSIGNED
#define IS_NEGATIVE(v) false
#define IS_MINUS_ONE(v) false
#else
#define IS_NEGATIVE(v) ((v) < 0)
#define IS_MINUS_ONE(v) ((v) == (COMP)-1)
#endif
#ifdef MAP_BOOL
#define MAP_OUT uint8_t
#define MAP_STORE(v) ((uint8_t)(v))
#else
#define MAP_OUT ELEM
#define MAP_STORE(v) STORE(v)
#endif
#ifdef MAP_WRAPS
#define MAP_COMP WRAP
#else
#define MAP_COMP COMP
#endif
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, int sx, const void *yv, int sy, void *zv) {
  const ELEM *x = xv, *y = yv;
  MAP_OUT *z = zv;
  if (sx != 0 && sy != 0) {
    WEFT_IVDEP
    for (int64_t i = 0; i < n; i++) {
      const MAP_COMP a = (MAP_COMP)LOAD(x[i]), b = (MAP_COMP)LOAD(y[i]);
      z[i] = MAP_STORE(MAP_EXPR(a, b));
    }
  } else if (sx != 0) {
    const MAP_COMP b = (MAP_COMP)LOAD(y[0]);
    WEFT_IVDEP
    for (int64_t i = 0; i < n; i++) {
      const MAP_COMP a = (MAP_COMP)LOAD(x[i]);
      z[i] = MAP_STORE(MAP_EXPR(a, b));
    }
  } else {
    const MAP_COMP a = (MAP_COMP)LOAD(x[0]);
    WEFT_IVDEP
    for (int64_t i = 0; i < n; i++) {
      const MAP_COMP b = (MAP_COMP)LOAD(y[i]);
      z[i] = MAP_STORE(MAP_EXPR(a, b));
    }
  }
}
#undef IS_NEGATIVE
#undef IS_MINUS_ONE
#undef MAP_OUT
#undef MAP_STORE
#undef MAP_COMP
