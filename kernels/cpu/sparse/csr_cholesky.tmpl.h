/* kernels/cpu/sparse/csr_cholesky.tmpl.h - the numbers of a sparse Cholesky factor, for one scalar type. */

/* Row k of the factor, whose columns are in place with k last: `row`, zero outside of calls, has room for a
 * row. False if the matrix is not positive definite. */
static bool FN(factor_row)(const symmetric_t *s, const void *of_a, const int32_t *begins,
                           const int32_t *columns, void *of_factor, int64_t k, void *of_row) {
  const SCALAR *a = of_a;
  SCALAR *factor = of_factor, *row = of_row;
  REAL d = 0;
  for (int64_t i = s->begins[k]; i < s->begins[k + 1]; i++) {
    SCALAR v = a[s->from[i]];
    row[s->columns[i]] += s->is_flipped[i] ? CONJ(v) : v;
  }
  d = RE(row[k]);
  row[k] = 0;
  for (int64_t i = begins[k]; i < begins[k + 1] - 1; i++) {
    int64_t j = columns[i], last = begins[j + 1] - 1;
    SCALAR sum = row[j];
    for (int64_t m = begins[j]; m < last; m++) sum -= row[columns[m]] * CONJ(factor[m]);
    factor[i] = row[j] = sum / RE(factor[last]);
    d -= ABS2(row[j]);
  }
  for (int64_t i = begins[k]; i < begins[k + 1] - 1; i++) row[columns[i]] = 0;
  factor[begins[k + 1] - 1] = sqrt(d);
  return !(d <= 0);
}
