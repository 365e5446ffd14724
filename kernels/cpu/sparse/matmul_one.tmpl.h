/* kernels/cpu/sparse/matmul_one.tmpl.h - row m of the product += a * row (or column) k of b, for one type.
 *   to    [n]
 *   b     n elements, `stride` apart
 * `conjugates`: the elements of b. */
static void WEFT_CAT(add_row, SUFFIX)(void *tov, const void *av, const void *bv, int64_t n, int64_t stride,
                                      bool conjugates_a, bool conjugates_b) {
  ELEM *to = tov;
  const ELEM *b = bv;
#ifdef IS_COMPLEX
  ELEM factor = *(const ELEM *)av;
  if (conjugates_a) __imag__ factor = -__imag__ factor;
  for (int64_t i = 0; i < n; i++) {
    ELEM v = b[i * stride];
    if (conjugates_b) __imag__ v = -__imag__ v;
    to[i] += factor * v;
  }
#else
  WRAP factor = (WRAP)LOAD(*(const ELEM *)av);
  (void)conjugates_a;
  (void)conjugates_b;
  for (int64_t i = 0; i < n; i++) {
    ELEM term = STORE(factor * (WRAP)LOAD(b[i * stride])); /* bfloat16 is rounded here, too */
    to[i] = STORE((WRAP)LOAD(to[i]) + (WRAP)LOAD(term));
  }
#endif
}
