/* kernels/cpu/loops/map1_one.tmpl.h - the loop of map1.tmpl.h for one element type. */
#include "kernels/cpu/loops/map_apply.tmpl.h"
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, void *yv) {
  const ELEM *x = xv;
  MAP_OUT *y = yv;
  WEFT_IVDEP
  for (int64_t i = 0; i < n; i++) {
    const MAP_COMP a = (MAP_COMP)LOAD(x[i]);
    y[i] = MAP_STORE(MAP_APPLY(a));
  }
}
#include "kernels/cpu/loops/undef_apply.tmpl.h"
