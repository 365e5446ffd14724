/* kernels/cpu/loops/cast_loop.tmpl.h - the loop from ELEM to TO. A value that does not fit an integer gives
 * what the processor gives for one number, as in TensorFlow: the lowest number of 32 and 64 bits, of which
 * narrower types take the low bits, and what is negative wraps around where there is no sign. A type's own
 * vector instructions would saturate, those for one number not. A NaN is true as a bool. Halfs are
 * converted to float and from it in blocks (narrow.h): FROM_HALF and TO_HALF are defined where ELEM
 * and TO are such types, FROM_BOOL where ELEM is bool. */
static void WEFT_CAT(WEFT_CAT(cast, SUFFIX), TO_SUFFIX)(int64_t n, const void *xv, void *yv) {
  const ELEM *x = xv;
  TO *y = yv;
#ifdef FROM_HALF
  if (__builtin_types_compatible_p(TO, float)) {
    WEFT_CAT(weft_widen, SUFFIX)(n, x, yv);
    return;
  }
  float block[WEFT_NARROW_BLOCK];
  for (int64_t i = 0, m; i < n; i += m) {
    m = weft_narrow_block(n - i);
    WEFT_CAT(weft_widen, SUFFIX)(m, x + i, block);
    WEFT_CAT(cast_f32, TO_SUFFIX)(m, block, y + i);
  }
#elif defined(TO_HALF) && defined(FROM_BOOL)
  for (int64_t i = 0; i < n; i++) y[i] = LOAD(x[i]) != 0 ? TO_HALF(1.0f) : 0;
#elif defined(TO_HALF)
  if (__builtin_types_compatible_p(ELEM, float)) {
    WEFT_CAT(weft_narrow, TO_SUFFIX)(n, xv, y);
    return;
  }
  float block[WEFT_NARROW_BLOCK];
  for (int64_t i = 0, m; i < n; i += m) {
    m = weft_narrow_block(n - i);
    for (int64_t k = 0; k < m; k++) block[k] = (float)REAL(LOAD(x[i + k]));
    WEFT_CAT(weft_narrow, TO_SUFFIX)(m, block, y + i);
  }
#else
  for (int64_t i = 0; i < n; i++) {
    const COMP v = LOAD(x[i]);
    y[i] = TO_STORE(v);
  }
#endif
}
#undef TO
#undef TO_SUFFIX
#undef TO_STORE
#undef TO_HALF
