/* kernels/cpu/loops/map2_one.tmpl.h - the loops of map2.tmpl.h for one element type. */
#include "kernels/cpu/loops/map_apply.tmpl.h"
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, int sx, const void *yv, int sy, void *zv) {
  const ELEM *x = xv, *y = yv;
  MAP_OUT *z = zv;
  if (sx != 0 && sy != 0) {
    WEFT_IVDEP
    for (int64_t i = 0; i < n; i++) {
      const MAP_COMP a = (MAP_COMP)LOAD(x[i]), b = (MAP_COMP)LOAD(y[i]);
      z[i] = MAP_STORE(MAP_APPLY(a, b));
    }
  } else if (sx != 0) {
    const MAP_COMP b = (MAP_COMP)LOAD(y[0]);
    WEFT_IVDEP
    for (int64_t i = 0; i < n; i++) {
      const MAP_COMP a = (MAP_COMP)LOAD(x[i]);
      z[i] = MAP_STORE(MAP_APPLY(a, b));
    }
  } else {
    const MAP_COMP a = (MAP_COMP)LOAD(x[0]);
    WEFT_IVDEP
    for (int64_t i = 0; i < n; i++) {
      const MAP_COMP b = (MAP_COMP)LOAD(y[i]);
      z[i] = MAP_STORE(MAP_APPLY(a, b));
    }
  }
}
#include "kernels/cpu/loops/undef_apply.tmpl.h"
