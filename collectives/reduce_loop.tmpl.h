/* collectives/reduce_loop.tmpl.h - one operation of one dtype: in place, or from two operands to a third
 * place.
 *
 * Parameters beside reduce.tmpl.h's: LOOP_OP, LOOP_EXPR(x, y). Two loops, because what
 * `restrict` promises differs, and without its promise the loops are not vectorised.
 */
static void REDUCE_NAME(LOOP_OP)(void *to, const void *a, const void *b, size_t n) {
  const REDUCE_T *restrict y = b;
  if (to == a) {
    REDUCE_T *restrict x = to;
    for (size_t i = 0; i < n; i++) x[i] = REDUCE_STORE(LOOP_EXPR(REDUCE_LOAD(x[i]), REDUCE_LOAD(y[i])));
    return;
  }
  const REDUCE_T *restrict x = a;
  REDUCE_T *restrict z = to;
  for (size_t i = 0; i < n; i++) z[i] = REDUCE_STORE(LOOP_EXPR(REDUCE_LOAD(x[i]), REDUCE_LOAD(y[i])));
}
#undef LOOP_OP
#undef LOOP_EXPR
