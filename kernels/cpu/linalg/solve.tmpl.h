/* kernels/cpu/linalg/solve.tmpl.h - equations of one matrix, for one scalar type. */

/* LU of a copy of a[n, n] or of its adjoint; *lu and *perm are one block, which the caller frees by *lu. */
static weft_status_t *FN(lu_of)(int64_t n, const SCALAR *a, bool adjoint, SCALAR **lu, int64_t **perm,
                                int *sign) {
  const size_t bytes = (size_t)(n * n) * sizeof **lu, unit = sizeof **perm;
  const size_t begin = (bytes + unit - 1) / unit * unit; /* of perm, which is aligned for itself */
  *lu = weft_malloc(begin + (size_t)n * unit);
  if (*lu == NULL) return WEFT_NO_MEMORY("an LU decomposition");
  *perm = (int64_t *)(void *)((char *)*lu + begin);
  if (adjoint) {
    FN(adjoint_of)(n, n, a, *lu);
  } else {
    memcpy(*lu, a, bytes);
  }
  return FN(lu)(n, *lu, *perm, sign);
}

static weft_status_t *FN(solve_one)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  int64_t n = c->in[0].rows, m = c->in[1].cols, *perm = NULL;
  SCALAR *lu = NULL;
  int sign = 1;
  if (n == 0 || m == 0) return NULL;
  weft_status_t *s = FN(lu_of)(n, in[0], c->flags->adjoint, &lu, &perm, &sign);
  if (s == NULL && !FN(has_pivots)(n, lu))
    s = WEFT_ERROR(INVALID_ARGUMENT, "Input matrix is not invertible.");
  if (s == NULL) FN(lu_solve)(n, m, lu, perm, in[1], out[0]);
  weft_free(lu);
  return s;
}

static weft_status_t *FN(inverse_one)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  int64_t n = c->in[0].rows, *perm = NULL;
  SCALAR *lu = NULL, *x = out[0];
  int sign = 1;
  if (n == 0) return NULL;
  weft_status_t *s = FN(lu_of)(n, in[0], c->flags->adjoint, &lu, &perm, &sign);
  if (s == NULL && !FN(has_pivots)(n, lu)) s = WEFT_ERROR(INVALID_ARGUMENT, "Input is not invertible.");
  if (s == NULL) {
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < n; j++) x[i * n + j] = perm[i] == j;
    }
    FN(solve_triangular)(n, n, lu, n, true, false, true, x);
    FN(solve_triangular)(n, n, lu, n, false, false, false, x);
  }
  weft_free(lu);
  return s;
}

/* ---- determinants ---- */

static SCALAR FN(sign_of)(SCALAR x) {
  if (x == 0) return 0;
  if (IS_COMPLEX) return x / ABS(x);
  return RE(x) > 0 ? 1 : RE(x) < 0 ? -1 : x;
}

/* Of an empty matrix: 1. */
static weft_status_t *FN(log_det)(int64_t n, const SCALAR *a, SCALAR *sign, REAL *log_abs) {
  *sign = 1;
  *log_abs = 0;
  if (n == 0) return NULL;
  int64_t *perm = NULL;
  SCALAR *lu = NULL;
  int permutation = 1;
  weft_status_t *s = FN(lu_of)(n, a, false, &lu, &perm, &permutation);
  if (s == NULL) {
    *sign = permutation < 0 ? -1 : 1;
    for (int64_t i = 0; i < n; i++) {
      *log_abs += log(ABS(lu[i * n + i]));
      *sign *= FN(sign_of)(lu[i * n + i]);
    }
  }
  weft_free(lu);
  return s;
}

static weft_status_t *FN(log_determinant_one)(const weft_linalg_call_t *c, const void *const *in,
                                              void *const *out) {
  REAL log_abs = 0;
  weft_status_t *s = FN(log_det)(c->in[0].rows, in[0], out[0], &log_abs);
  *(SCALAR *)out[1] = log_abs;
  return s;
}

static weft_status_t *FN(determinant_one)(const weft_linalg_call_t *c, const void *const *in,
                                          void *const *out) {
  REAL log_abs = 0;
  SCALAR sign = 0;
  weft_status_t *s = FN(log_det)(c->in[0].rows, in[0], &sign, &log_abs);
  *(SCALAR *)out[0] = sign * (REAL)exp(log_abs);
  return s;
}

/* ---- least squares ---- */

/* By the normal equations: (A* A + l I) X = A* B, or X = A* Z with (A A* + l I) Z = B. */
static weft_status_t *FN(solve_normal)(int64_t m, int64_t n, int64_t k, REAL l2, const SCALAR *a,
                                       const SCALAR *b, SCALAR *x) {
  const weft_gemm_op_t plain = WEFT_GEMM_PLAIN, adjoint = WEFT_GEMM_ADJOINT;
  bool is_tall = m >= n;
  int64_t size = is_tall ? n : m;
  SCALAR *gram = weft_malloc((size_t)(size * size + size * k) * sizeof *gram);
  if (gram == NULL) return WEFT_NO_MEMORY("a least-squares problem");
  SCALAR *z = is_tall ? x : gram + size * size;
  weft_status_t *s = is_tall ? FN(multiply)(adjoint, plain, n, n, m, a, a, gram)
                             : FN(multiply)(plain, adjoint, m, m, n, a, a, gram);
  for (int64_t i = 0; i < size && l2 > 0; i++) gram[i * size + i] += l2;
  if (s == NULL && !FN(cholesky)(size, gram)) {
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a "
                   "larger l2_regularizer > 0.");
  }
  if (s == NULL && is_tall) s = FN(multiply)(adjoint, plain, n, k, m, a, b, x);
  if (s == NULL) {
    if (!is_tall) memcpy(z, b, (size_t)(m * k) * sizeof *z);
    FN(solve_triangular)(size, k, gram, size, true, false, false, z);
    FN(solve_triangular)(size, k, gram, size, true, true, false, z);
  }
  if (s == NULL && !is_tall) s = FN(multiply)(adjoint, plain, n, k, m, a, z, x);
  weft_free(gram);
  return s;
}

/* The solution of least norm, of a matrix of any rank: A P = Q [R; 0], and R's adjoint = Q2 T, so that
 * X = P Q2 T*^-1 (Q* B). */
static weft_status_t *FN(solve_orthogonal)(int64_t m, int64_t n, int64_t k, const SCALAR *a, const SCALAR *b,
                                           SCALAR *x) {
  int64_t most = m > n ? m : n, width = n > k ? n : k, *perm = weft_malloc((size_t)n * sizeof *perm);
  SCALAR *qr = weft_malloc((size_t)(2 * m * n + (m + n) * k + 2 * most + width) * sizeof *qr);
  REAL *norms = weft_malloc((size_t)(2 * n) * sizeof *norms);
  weft_status_t *s = NULL;
  if (perm == NULL || qr == NULL || norms == NULL) {
    s = WEFT_NO_MEMORY("a least-squares problem");
  } else {
    SCALAR *second = qr + m * n, *rhs = second + m * n, *y = rhs + m * k, *tau = y + n * k,
           *tau2 = tau + most, *work = tau2 + most;
    memcpy(qr, a, (size_t)(m * n) * sizeof *qr);
    memcpy(rhs, b, (size_t)(m * k) * sizeof *rhs);
    int64_t rank = FN(pivoted_qr)(m, n, qr, perm, tau, work, norms);
    FN(apply_q_adjoint)(m, n, rank, qr, tau, k, rhs, work);
    for (int64_t i = 0; i < rank; i++) {
      for (int64_t j = 0; j < n; j++) second[j * rank + i] = j >= i ? CONJ(qr[i * n + j]) : 0;
    }
    memset(y, 0, (size_t)(n * k) * sizeof *y);
    memcpy(y, rhs, (size_t)(rank * k) * sizeof *y);
    FN(qr)(n, rank, second, tau2, work);
    FN(solve_triangular)(rank, k, second, rank, false, true, false, y);
    FN(apply_q)(n, rank, rank, second, tau2, k, y, work);
    for (int64_t j = 0; j < n; j++) memcpy(x + perm[j] * k, y + j * k, (size_t)k * sizeof *x);
  }
  weft_free(perm);
  weft_free(qr);
  weft_free(norms);
  return s;
}

static weft_status_t *FN(solve_ls_one)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  const weft_tensor_t *l2 = weft_in(c->ctx, 2);
  int64_t m = c->in[0].rows, n = c->in[0].cols, k = c->in[1].cols;
  if (l2->shape.rank != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "l2_regularizer must be scalar, got shape %s",
                      WEFT_SHAPE_TEXT(&l2->shape));
  double value = *(const double *)l2->data;
  if (!(value >= 0)) return WEFT_ERROR(INVALID_ARGUMENT, "l2_regularizer must be >= 0.");
  memset(out[0], 0, (size_t)(n * k) * sizeof(SCALAR));
  if (m == 0 || n == 0 || k == 0) return NULL;
  if (c->flags->fast) return FN(solve_normal)(m, n, k, (REAL)value, in[0], in[1], out[0]);
  return FN(solve_orthogonal)(m, n, k, in[0], in[1], out[0]);
}
