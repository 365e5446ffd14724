/* kernels/cpu/math/segment_divide_one.tmpl.h - n elements divided by a number, for one element type; integers
 * are cut towards zero. */
static void WEFT_CAT(segment_divide, SUFFIX)(int64_t n, double by, void *tov) {
  ELEM *to = tov;
#if defined(IS_INTEGER)
  for (int64_t i = 0; i < n; i++) to[i] = (ELEM)((int64_t)to[i] / (int64_t)by);
#elif defined(IS_COMPLEX)
  for (int64_t i = 0; i < n; i++) to[i] = (ELEM)(to[i] / by);
#else
  for (int64_t i = 0; i < n; i++) to[i] = STORE(LOAD(to[i]) / (COMP)by);
#endif
}
