/* kernels/cpu/loops/cast_loop.tmpl.h - the loop from ELEM to TO. A value that does not fit an integer gives
 * what the processor gives (the lowest number), as in TensorFlow; a NaN is true as a bool. */
static void WEFT_CAT(WEFT_CAT(cast, SUFFIX), TO_SUFFIX)(int64_t n, const void *xv, void *yv) {
  const ELEM *x = xv;
  TO *y = yv;
  for (int64_t i = 0; i < n; i++) {
    const COMP v = LOAD(x[i]);
    y[i] = TO_STORE(v);
  }
}
#undef TO
#undef TO_SUFFIX
#undef TO_STORE
