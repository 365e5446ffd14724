/* kernels/cpu/math/segment_one.tmpl.h - the larger and the smaller of what a segment has and its next row. In
 * TensorFlow's order: the row stays unless what is there is beyond it. So a NaN is taken, and the next row
 * takes its place. */
static void WEFT_CAT(segment_max, SUFFIX)(void *tov, const void *fromv, int64_t n, bool is_scalar) {
  ELEM *to = tov;
  const ELEM *from = fromv;
  for (int64_t i = 0; i < n; i++) {
    const ELEM next = from[is_scalar ? 0 : i];
    if (!(LOAD(next) < LOAD(to[i]))) to[i] = next;
  }
}

static void WEFT_CAT(segment_min, SUFFIX)(void *tov, const void *fromv, int64_t n, bool is_scalar) {
  ELEM *to = tov;
  const ELEM *from = fromv;
  for (int64_t i = 0; i < n; i++) {
    const ELEM next = from[is_scalar ? 0 : i];
    if (!(LOAD(to[i]) < LOAD(next))) to[i] = next;
  }
}
