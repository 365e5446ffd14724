/* kernels/cpu/loops/map1_half.tmpl.h - the loop of map1.tmpl.h for half or bfloat16 (SUFFIX): the loop of
 * float over blocks of converted numbers; with MAP_HALF_BITS one over the bits. */
#include "kernels/cpu/loops/narrow.h"
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t n, const void *xv, void *yv) {
  const uint16_t *x = xv;
#ifdef MAP_HALF_BITS
  uint16_t *y = yv;
  for (int64_t i = 0; i < n; i++) y[i] = (uint16_t)MAP_HALF_BITS(x[i]);
#else
  float block[WEFT_NARROW_BLOCK];
  for (int64_t i = 0, m; i < n; i += m) {
    m = weft_narrow_block(n - i);
    WEFT_CAT(weft_widen, SUFFIX)(m, x + i, block);
#ifdef MAP_BOOL
    WEFT_CAT(MAP_STEM, f32)(m, block, (uint8_t *)yv + i);
#else
    WEFT_CAT(MAP_STEM, f32)(m, block, block);
    WEFT_CAT(weft_narrow, SUFFIX)(m, block, (uint16_t *)yv + i);
#endif
  }
#endif
}
