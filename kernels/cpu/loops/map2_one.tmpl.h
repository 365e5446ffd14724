/* kernels/cpu/loops/map2_one.tmpl.h - the loops of map2.tmpl.h for one element type. */
#include "kernels/cpu/loops/map_apply.tmpl.h"
#ifdef MAP_LIBM
/* n is a multiple of a block. One copy: all elements take the same vectors. */
WEFT_LIBM_LOOP void WEFT_CAT(WEFT_CAT(MAP_STEM, blocks), SUFFIX)(int64_t n, const ELEM *x, const ELEM *y,
                                                                 MAP_OUT *z) {
  n &= ~(int64_t)(WEFT_LIBM_BLOCK - 1); /* no loop for a rest is made */
  WEFT_IVDEP
  for (int64_t i = 0; i < n; i++) {
    const MAP_COMP a = (MAP_COMP)LOAD(x[i]), b = (MAP_COMP)LOAD(y[i]);
    z[i] = MAP_STORE(MAP_APPLY(a, b));
  }
}
/* An operand that does not step, and the last elements, stand in blocks that are filled up. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, int sx, const void *yv, int sy, void *zv) {
  const ELEM *x = xv, *y = yv;
  MAP_OUT *z = zv, result[WEFT_LIBM_BLOCK];
  ELEM of_x[WEFT_LIBM_BLOCK], of_y[WEFT_LIBM_BLOCK];
  for (int64_t k = 0; k < WEFT_LIBM_BLOCK; k++) {
    of_x[k] = x[0];
    of_y[k] = y[0];
  }
  int64_t i = 0;
  if (sx != 0 && sy != 0 && n >= WEFT_LIBM_BLOCK) {
    i = n - n % WEFT_LIBM_BLOCK;
    WEFT_CAT(WEFT_CAT(MAP_STEM, blocks), SUFFIX)(i, x, y, z);
  }
  for (; i < n; i += WEFT_LIBM_BLOCK) {
    const int64_t here = n - i < WEFT_LIBM_BLOCK ? n - i : WEFT_LIBM_BLOCK;
    for (int64_t k = 0; sx != 0 && k < here; k++) of_x[k] = x[i + k];
    for (int64_t k = 0; sy != 0 && k < here; k++) of_y[k] = y[i + k];
    WEFT_CAT(WEFT_CAT(MAP_STEM, blocks), SUFFIX)(WEFT_LIBM_BLOCK, of_x, of_y, result);
    for (int64_t k = 0; k < here; k++) z[i + k] = result[k];
  }
}
#else
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
#endif
#include "kernels/cpu/loops/undef_apply.tmpl.h"
