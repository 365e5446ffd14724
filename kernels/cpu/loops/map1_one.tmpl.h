/* kernels/cpu/loops/map1_one.tmpl.h - the loop of map1.tmpl.h for one element type. */
#include "kernels/cpu/loops/map_apply.tmpl.h"
#ifdef MAP_LIBM
/* n is a multiple of a block. One copy: all elements take the same vectors. */
WEFT_LIBM_LOOP void WEFT_CAT(WEFT_CAT(MAP_STEM, blocks), SUFFIX)(int64_t n, const ELEM *x, MAP_OUT *y) {
  n &= ~(int64_t)(WEFT_LIBM_BLOCK - 1); /* no loop for a rest is made */
  WEFT_IVDEP
  for (int64_t i = 0; i < n; i++) {
    const MAP_COMP a = (MAP_COMP)LOAD(x[i]);
    y[i] = MAP_STORE(MAP_APPLY(a));
  }
}
/* The last elements stand in a block that is filled up with one of them. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, void *yv) {
  const ELEM *x = xv;
  MAP_OUT *y = yv;
  const int64_t whole = n - n % WEFT_LIBM_BLOCK;
  if (whole > 0) WEFT_CAT(WEFT_CAT(MAP_STEM, blocks), SUFFIX)(whole, x, y);
  if (whole == n) return;
  ELEM last[WEFT_LIBM_BLOCK];
  MAP_OUT result[WEFT_LIBM_BLOCK];
  for (int64_t k = 0; k < WEFT_LIBM_BLOCK; k++) last[k] = x[whole + k < n ? whole + k : whole];
  WEFT_CAT(WEFT_CAT(MAP_STEM, blocks), SUFFIX)(WEFT_LIBM_BLOCK, last, result);
  for (int64_t k = whole; k < n; k++) y[k] = result[k - whole];
}
#else
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, void *yv) {
  const ELEM *x = xv;
  MAP_OUT *y = yv;
  WEFT_IVDEP
  for (int64_t i = 0; i < n; i++) {
    const MAP_COMP a = (MAP_COMP)LOAD(x[i]);
    y[i] = MAP_STORE(MAP_APPLY(a));
  }
}
#endif
#include "kernels/cpu/loops/undef_apply.tmpl.h"
