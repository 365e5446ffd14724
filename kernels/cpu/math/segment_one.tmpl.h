/* kernels/cpu/math/segment_one.tmpl.h - rows folded into rows, for one element type: row r of `to_rows` is
 * joined with row r of `from_rows`, in order; a negative row to fold into leaves the other one out. Rows have
 * `inner` elements.
 *   MAP_STEM         name
 *   MAP_COMP         COMP or WRAP of each_dtype.tmpl.h
 *   SEGMENT_JOIN(a, b)   what is there and the next one
 */
static void WEFT_CAT(MAP_STEM, SUFFIX)(int64_t rows, const int64_t *to_rows, const int64_t *from_rows,
                                       int64_t inner, const void *fromv, void *tov) {
  const ELEM *from = fromv;
  ELEM *to = tov;
  for (int64_t r = 0; r < rows; r++) {
    if (to_rows[r] < 0) continue;
    const ELEM *restrict x = from + from_rows[r] * inner;
    ELEM *restrict y = to + to_rows[r] * inner;
    if (inner == 1) {
      const MAP_COMP a = (MAP_COMP)LOAD(*y), b = (MAP_COMP)LOAD(*x);
      *y = STORE(SEGMENT_JOIN(a, b));
      continue;
    }
    for (int64_t i = 0; i < inner; i++) {
      const MAP_COMP a = (MAP_COMP)LOAD(y[i]), b = (MAP_COMP)LOAD(x[i]);
      y[i] = STORE(SEGMENT_JOIN(a, b));
    }
  }
}
