/* tensor/update_one.tmpl.h - the loop of an update for one element type: to[i] = UPDATE(to[i], from[i]),
 * or from[0]. `to` and `from` do not overlap, or are the same. */
static void WEFT_CAT(MAP_STEM, SUFFIX)(void *tov, const void *fromv, int64_t n, bool is_scalar) {
  ELEM *to = tov;
  const ELEM *from = fromv;
  if (is_scalar) {
    const MAP_COMP b = (MAP_COMP)LOAD(from[0]);
    for (int64_t i = 0; i < n; i++) {
      const MAP_COMP a = (MAP_COMP)LOAD(to[i]);
      to[i] = STORE(UPDATE(a, b));
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const MAP_COMP a = (MAP_COMP)LOAD(to[i]), b = (MAP_COMP)LOAD(from[i]);
    to[i] = STORE(UPDATE(a, b));
  }
}
