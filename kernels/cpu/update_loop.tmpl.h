/* kernels/cpu/update_loop.tmpl.h - one loop: to[i] = to[i] op from[i], or op from[0].
 *
 * Parameters: UPDATE_FN its name, UPDATE_EXPR(a, b) the new value; and those of
 * update.tmpl.h. `to` and `from` do not overlap, or are the same.
 */
static void UPDATE_FN(void *to_bytes, const void *from_bytes, int64_t n, bool is_scalar) {
  UPDATE_T *to = to_bytes;
  const UPDATE_T *from = from_bytes;
  if (is_scalar) {
    const UPDATE_C b = UPDATE_GET(from[0]);
    for (int64_t i = 0; i < n; i++) {
      const UPDATE_C a = UPDATE_GET(to[i]);
      to[i] = UPDATE_PUT(UPDATE_EXPR(a, b));
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const UPDATE_C a = UPDATE_GET(to[i]), b = UPDATE_GET(from[i]);
    to[i] = UPDATE_PUT(UPDATE_EXPR(a, b));
  }
}
#undef UPDATE_FN
#undef UPDATE_EXPR
