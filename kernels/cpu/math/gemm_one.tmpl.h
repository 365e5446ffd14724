/* kernels/cpu/math/gemm_one.tmpl.h - the plain product for one element type: the naive twin
 * of BLAS, and what integers use. Sums are kept in WRAP, one row of c at a time, in `row` of n WRAPs. */
static void WEFT_CAT(naive, SUFFIX)(const gemm_t *g, void *rowv) {
  const ELEM *a = g->a, *b = g->b;
  ELEM *c = g->c;
  WRAP *row = rowv;
  for (int64_t i = 0; i < g->m; i++) {
    for (int64_t j = 0; j < g->n; j++) row[j] = g->accumulate ? (WRAP)LOAD(c[i * g->ldc + j]) : 0;
    for (int64_t l = 0; l < g->k; l++) {
      const WRAP x = (WRAP)LOAD(a[g->op_a == WEFT_GEMM_PLAIN ? i * g->lda + l : l * g->lda + i]);
      if (g->op_b == WEFT_GEMM_PLAIN) {
        for (int64_t j = 0; j < g->n; j++) row[j] += x * (WRAP)LOAD(b[l * g->ldb + j]);
      } else {
        for (int64_t j = 0; j < g->n; j++) row[j] += x * (WRAP)LOAD(b[j * g->ldb + l]);
      }
    }
    for (int64_t j = 0; j < g->n; j++) c[i * g->ldc + j] = STORE(row[j]);
  }
}
