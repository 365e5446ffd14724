/* kernels/cpu/nn/leaky_half.tmpl.h - the loop of leaky_one.tmpl.h for half or bfloat16: that of float over
 * blocks of converted numbers. */
static void WEFT_CAT(leaky, SUFFIX)(int64_t n, double alpha, const void *valuev, const void *xv, void *yv) {
  const ELEM *value = valuev, *x = xv;
  ELEM *y = yv;
  float of_value[WEFT_NARROW_BLOCK], of_x[WEFT_NARROW_BLOCK];
  for (int64_t i = 0, m; i < n; i += m) {
    m = weft_narrow_block(n - i);
    WEFT_CAT(weft_widen, SUFFIX)(m, value + i, of_value);
    WEFT_CAT(weft_widen, SUFFIX)(m, x + i, of_x);
    leaky_f32(m, alpha, of_value, of_x, of_value);
    WEFT_CAT(weft_narrow, SUFFIX)(m, of_value, y + i);
  }
}
