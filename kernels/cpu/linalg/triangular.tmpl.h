/* kernels/cpu/linalg/triangular.tmpl.h - triangular equations of one matrix, for one scalar type. */

static weft_status_t *FN(triangular_one)(const weft_linalg_flags_t *f, int64_t bands, int64_t n, int64_t m,
                                         const void *a, const void *b, void *x) {
  (void)bands;
  memcpy(x, b, (size_t)(n * m) * sizeof(SCALAR));
  FN(solve_triangular)(n, m, a, n, f->lower, f->adjoint, false, x);
  return NULL;
}

/* a[bands, n]: the diagonal is its first row, and the last one of an upper matrix. */
static bool FN(has_band_diagonal)(const weft_linalg_flags_t *f, int64_t bands, int64_t n, const void *a) {
  const SCALAR *diagonal = (const SCALAR *)a + (f->lower ? 0 : (bands - 1) * n);
  REAL least = ABS(diagonal[0]);
  for (int64_t i = 1; i < n; i++) least = ABS(diagonal[i]) < least ? ABS(diagonal[i]) : least;
  return least > 0;
}

/* Row r of a lower matrix has element (r, r - d) at a[d, r]; of an upper one (r, r + d) at a[bands - 1 - d,
 * r]. */
static weft_status_t *FN(banded_one)(const weft_linalg_flags_t *f, int64_t bands, int64_t n, int64_t m,
                                     const void *av, const void *b, void *xv) {
  const SCALAR *a = av;
  SCALAR *x = xv;
  bool forward = f->lower != f->adjoint;
  memcpy(x, b, (size_t)(n * m) * sizeof *x);
  for (int64_t step = 0; step < n; step++) {
    int64_t i = forward ? step : n - 1 - step, diagonal = f->lower ? 0 : bands - 1;
    for (int64_t d = 1; d < bands && d <= step; d++) {
      int64_t j = forward ? i - d : i + d, band = f->lower ? d : bands - 1 - d;
      SCALAR factor = f->adjoint ? CONJ(a[band * n + j]) : a[band * n + i];
      for (int64_t c = 0; c < m; c++) x[i * m + c] -= factor * x[j * m + c];
    }
    SCALAR pivot = f->adjoint ? CONJ(a[diagonal * n + i]) : a[diagonal * n + i];
    for (int64_t c = 0; c < m; c++) x[i * m + c] /= pivot;
  }
  return NULL;
}
