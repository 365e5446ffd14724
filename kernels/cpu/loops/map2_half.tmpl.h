/* kernels/cpu/loops/map2_half.tmpl.h - the loop of map2.tmpl.h for half or bfloat16 (SUFFIX): the loop of
 * float over blocks of converted numbers. */
#include "kernels/cpu/loops/narrow.h"
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, int sx, const void *yv, int sy, void *zv) {
  const uint16_t *x = xv, *y = yv;
  float of_x[WEFT_NARROW_BLOCK], of_y[WEFT_NARROW_BLOCK];
  if (n <= 0) return;
  WEFT_CAT(weft_widen, SUFFIX)(1, x, of_x);
  WEFT_CAT(weft_widen, SUFFIX)(1, y, of_y);
  for (int64_t i = 0, m; i < n; i += m) {
    m = weft_narrow_block(n - i);
    if (sx != 0) WEFT_CAT(weft_widen, SUFFIX)(m, x + i, of_x);
    if (sy != 0) WEFT_CAT(weft_widen, SUFFIX)(m, y + i, of_y);
#ifdef MAP_BOOL
    WEFT_CAT(MAP_STEM, f32)(m, of_x, sx, of_y, sy, (uint8_t *)zv + i);
#else
    float *result = sx != 0 ? of_x : of_y;
    WEFT_CAT(MAP_STEM, f32)(m, of_x, sx, of_y, sy, result);
    WEFT_CAT(weft_narrow, SUFFIX)(m, result, (uint16_t *)zv + i);
#endif
  }
}
