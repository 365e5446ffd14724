/* kernels/cpu/linalg/dense.tmpl.h - what factorisations are made of, for one scalar type: products,
 * triangular solves, reflections, rotations, LU, Cholesky, QR. Matrices are stored by rows; lda, ldb:
 * elements from a row to the next. Signs, pivots and thresholds are those of Eigen, whose results
 * TensorFlow's are.
 */

static inline void FN(set_identity)(int64_t rows, int64_t cols, SCALAR *a) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) a[i * cols + j] = i == j;
  }
}

/* out[cols, rows] = the adjoint of a[rows, cols]. */
static inline void FN(adjoint_of)(int64_t rows, int64_t cols, const SCALAR *a, SCALAR *out) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) out[j * rows + i] = CONJ(a[i * cols + j]);
  }
}

static inline void FN(swap)(int64_t n, SCALAR *x, int64_t x_step, SCALAR *y, int64_t y_step) {
  for (int64_t i = 0; i < n; i++) {
    SCALAR t = x[i * x_step];
    x[i * x_step] = y[i * y_step];
    y[i * y_step] = t;
  }
}

/* The largest absolute value; NaN if one is. */
static inline REAL FN(largest)(int64_t n, const SCALAR *a) {
  REAL most = 0;
  for (int64_t i = 0; i < n; i++) {
    REAL v = ABS(a[i]);
    if (!(v <= most) && !isnan(most)) most = v;
  }
  return most;
}

static inline REAL FN(squared_norm)(int64_t n, const SCALAR *x, int64_t step) {
  REAL sum = 0;
  for (int64_t i = 0; i < n; i++) sum += ABS2(x[i * step]);
  return sum;
}

/* c[m, n] = op(a) op(b), all without gaps. */
static inline weft_status_t *FN(multiply)(weft_gemm_op_t op_a, weft_gemm_op_t op_b, int64_t m, int64_t n,
                                          int64_t k, const SCALAR *a, const SCALAR *b, SCALAR *c) {
  return weft_gemm(NULL, DTYPE, op_a, op_b, m, n, k, a, op_a == WEFT_GEMM_PLAIN ? k : m, b,
                   op_b == WEFT_GEMM_PLAIN ? n : k, c, n, false);
}

/* x[n, m] becomes the solution of op(t) x = x; t[n, n] has zeros above (lower) or below its diagonal, which
 * are not read, and ones on it if is_unit, which are not read either. */
static inline void FN(solve_triangular)(int64_t n, int64_t m, const SCALAR *t, int64_t ldt, bool lower,
                                        bool adjoint, bool is_unit, SCALAR *x) {
  bool forward = lower != adjoint;
  for (int64_t step = 0; step < n; step++) {
    int64_t i = forward ? step : n - 1 - step;
    SCALAR *xi = x + i * m;
    for (int64_t k = 0; k < step; k++) {
      int64_t j = forward ? k : n - 1 - k;
      SCALAR f = adjoint ? CONJ(t[j * ldt + i]) : t[i * ldt + j];
      const SCALAR *xj = x + j * m;
      for (int64_t c = 0; c < m; c++) xi[c] -= f * xj[c];
    }
    if (is_unit) continue;
    SCALAR d = adjoint ? CONJ(t[i * ldt + i]) : t[i * ldt + i];
    for (int64_t c = 0; c < m; c++) xi[c] /= d;
  }
}

/* ---- reflections: I - tau v v*, v[0] = 1 ---- */

/* For the vector x (n elements, `step` apart) the reflection that leaves only its first element, which
 * becomes the result; x[1..] becomes v[1..], x[0] stays. Source: Golub, Van Loan, "Matrix Computations", 5.1.
 */
static inline REAL FN(make_reflection)(int64_t n, SCALAR *x, int64_t step, SCALAR *tau) {
  REAL tail = FN(squared_norm)(n - 1, x + step, step);
  SCALAR c0 = x[0];
  if (tail <= REAL_MIN && IM(c0) * IM(c0) <= REAL_MIN) {
    *tau = 0;
    for (int64_t i = 1; i < n; i++) x[i * step] = 0;
    return RE(c0);
  }
  REAL beta = sqrt(ABS2(c0) + tail);
  if (RE(c0) >= 0) beta = -beta;
  for (int64_t i = 1; i < n; i++) x[i * step] /= c0 - beta;
  *tau = CONJ((beta - c0) / beta);
  return beta;
}

/* a[rows, cols] = (I - tau v v*) a; work: cols elements. */
static inline void FN(reflect_left)(int64_t rows, int64_t cols, SCALAR *a, int64_t lda, const SCALAR *v,
                                    int64_t step, SCALAR tau, SCALAR *work) {
  if (tau == 0) return;
  for (int64_t j = 0; j < cols; j++) work[j] = a[j];
  for (int64_t i = 1; i < rows; i++) {
    SCALAR f = CONJ(v[i * step]);
    for (int64_t j = 0; j < cols; j++) work[j] += f * a[i * lda + j];
  }
  for (int64_t i = 0; i < rows; i++) {
    SCALAR f = i == 0 ? tau : tau * v[i * step];
    for (int64_t j = 0; j < cols; j++) a[i * lda + j] -= f * work[j];
  }
}

/* a[rows, cols] = a (I - tau v v*). */
static inline void FN(reflect_right)(int64_t rows, int64_t cols, SCALAR *a, int64_t lda, const SCALAR *v,
                                     int64_t step, SCALAR tau) {
  if (tau == 0) return;
  for (int64_t i = 0; i < rows; i++) {
    SCALAR *row = a + i * lda, sum = row[0];
    for (int64_t j = 1; j < cols; j++) sum += row[j] * v[j * step];
    sum *= tau;
    row[0] -= sum;
    for (int64_t j = 1; j < cols; j++) row[j] -= sum * CONJ(v[j * step]);
  }
}

/* ---- QR ---- */

/* a[m, n] becomes R, with the vectors of the reflections below its diagonal. tau: min(m, n) elements, work:
 * n. */
static inline void FN(qr)(int64_t m, int64_t n, SCALAR *a, SCALAR *tau, SCALAR *work) {
  for (int64_t k = 0; k < m && k < n; k++) {
    SCALAR *at = a + k * n + k;
    REAL beta = FN(make_reflection)(m - k, at, n, &tau[k]);
    FN(reflect_left)(m - k, n - k - 1, at + 1, n, at, n, tau[k], work);
    *at = beta;
  }
}

/* x[m, cols] = Q x, of the first `count` reflections; work: cols elements. */
static inline void FN(apply_q)(int64_t m, int64_t n, int64_t count, const SCALAR *qr, const SCALAR *tau,
                               int64_t cols, SCALAR *x, SCALAR *work) {
  for (int64_t k = count - 1; k >= 0; k--)
    FN(reflect_left)(m - k, cols, x + k * cols, cols, qr + k * n + k, n, CONJ(tau[k]), work);
}

/* x[m, cols] = the adjoint of Q times x. */
static inline void FN(apply_q_adjoint)(int64_t m, int64_t n, int64_t count, const SCALAR *qr,
                                       const SCALAR *tau, int64_t cols, SCALAR *x, SCALAR *work) {
  for (int64_t k = 0; k < count; k++)
    FN(reflect_left)(m - k, cols, x + k * cols, cols, qr + k * n + k, n, tau[k], work);
}

/* QR of a's columns in the order `perm`, largest first; norms: 2 n elements. Returns the rank, by Eigen's
 * threshold. Source of the norms' update: LAPACK Working Note 176. */
static inline int64_t FN(pivoted_qr)(int64_t m, int64_t n, SCALAR *a, int64_t *perm, SCALAR *tau,
                                     SCALAR *work, REAL *norms) {
  REAL *direct = norms + n, most = 0, limit, max_pivot = 0;
  int64_t size = m < n ? m : n, nonzero = size, rank = 0;
  for (int64_t j = 0; j < n; j++) {
    perm[j] = j;
    norms[j] = direct[j] = sqrt(FN(squared_norm)(m, a + j, n));
    if (norms[j] > most) most = norms[j];
  }
  limit = most * REAL_EPS * (most * REAL_EPS) / (REAL)m;
  for (int64_t k = 0; k < size; k++) {
    int64_t best = k;
    for (int64_t j = k + 1; j < n; j++) best = norms[j] > norms[best] ? j : best;
    if (nonzero == size && norms[best] * norms[best] < limit * (REAL)(m - k)) nonzero = k;
    if (best != k) {
      FN(swap)(m, a + k, n, a + best, n);
      int64_t p = perm[k];
      perm[k] = perm[best];
      perm[best] = p;
      norms[best] = norms[k];
      direct[best] = direct[k];
    }
    SCALAR *at = a + k * n + k;
    REAL beta = FN(make_reflection)(m - k, at, n, &tau[k]);
    FN(reflect_left)(m - k, n - k - 1, at + 1, n, at, n, tau[k], work);
    *at = beta;
    if (fabs(beta) > max_pivot) max_pivot = fabs(beta);
    for (int64_t j = k + 1; j < n; j++) {
      if (norms[j] == 0) continue;
      REAL t = ABS(a[k * n + j]) / norms[j];
      t = (1 + t) * (1 - t);
      if (t < 0) t = 0;
      if (t * (norms[j] / direct[j]) * (norms[j] / direct[j]) <= (REAL)sqrt(REAL_EPS)) {
        norms[j] = direct[j] = sqrt(FN(squared_norm)(m - k - 1, a + (k + 1) * n + j, n));
      } else {
        norms[j] *= sqrt(t);
      }
    }
  }
  for (int64_t k = 0; k < nonzero; k++) rank += ABS(a[k * n + k]) > max_pivot * (REAL_EPS * (REAL)size);
  return rank;
}

/* ---- rotations: c is real but where a complex one is given ---- */

typedef struct FN(rotation) {
  SCALAR c, s;
} FN(rotation_t);

static inline FN(rotation_t) FN(rotation_adjoint)(FN(rotation_t) r) {
  return (FN(rotation_t)){CONJ(r.c), -r.s};
}
static inline FN(rotation_t) FN(rotation_transpose)(FN(rotation_t) r) {
  return (FN(rotation_t)){r.c, -CONJ(r.s)};
}

/* x = c x + s* y, y = -s x + c* y. */
static inline void FN(rotate)(int64_t n, SCALAR *x, int64_t x_step, SCALAR *y, int64_t y_step,
                              FN(rotation_t) r) {
  if (r.c == 1 && r.s == 0) return;
  for (int64_t i = 0; i < n; i++) {
    SCALAR a = x[i * x_step], b = y[i * y_step];
    x[i * x_step] = r.c * a + CONJ(r.s) * b;
    y[i * y_step] = -r.s * a + CONJ(r.c) * b;
  }
}

/* Columns p and q of a[rows, .] times the rotation. */
static inline void FN(rotate_columns)(int64_t rows, SCALAR *a, int64_t lda, int64_t p, int64_t q,
                                      FN(rotation_t) r) {
  FN(rotate)(rows, a + p, lda, a + q, lda, FN(rotation_transpose)(r));
}

/* (c, s) of the rotation that turns (p, q) into (r, 0). Source: LAPACK Working Note 150. */
static inline void FN(real_givens)(REAL p, REAL q, REAL *c, REAL *s) {
  if (q == 0) {
    *c = p < 0 ? -1 : 1;
    *s = 0;
  } else if (p == 0) {
    *c = 0;
    *s = q < 0 ? 1 : -1;
  } else if (fabs(p) > fabs(q)) {
    REAL t = q / p, u = sqrt(1 + t * t);
    if (p < 0) u = -u;
    *c = 1 / u;
    *s = -t * *c;
  } else {
    REAL t = p / q, u = sqrt(1 + t * t);
    if (q < 0) u = -u;
    *s = -1 / u;
    *c = -t * *s;
  }
}

/* ---- LU with partial pivoting ---- */

/* Columns begin..end of a[n, n], from row `begin` on: where LU has come to. Rows are swapped as a whole. */
static inline void FN(lu_columns)(int64_t n, int64_t begin, int64_t end, SCALAR *a, int64_t *perm,
                                  int *sign) {
  for (int64_t k = begin; k < end; k++) {
    int64_t best = k;
    REAL most = ABS(a[k * n + k]);
    for (int64_t i = k + 1; i < n; i++) {
      REAL v = ABS(a[i * n + k]);
      if (v > most) {
        most = v;
        best = i;
      }
    }
    if (best != k) {
      FN(swap)(n, a + k * n, 1, a + best * n, 1);
      int64_t p = perm[k];
      perm[k] = perm[best];
      perm[best] = p;
      *sign = -*sign;
    }
    const SCALAR *row = a + k * n, pivot = row[k];
    for (int64_t i = k + 1; i < n; i++) {
      SCALAR *at = a + i * n;
      if (most != 0) at[k] /= pivot;
      SCALAR f = at[k];
      for (int64_t j = k + 1; j < end; j++) at[j] -= f * row[j];
    }
  }
}

/* a[n, n] becomes L (below the diagonal; ones on it) and U, of the rows in the order `perm`; *sign: of that
 * permutation. A column without a pivot is left as it is. Errors: RESOURCE_EXHAUSTED. */
static inline weft_status_t *FN(lu)(int64_t n, SCALAR *a, int64_t *perm, int *sign) {
  enum { BLOCK = 48 };
  *sign = 1;
  for (int64_t i = 0; i < n; i++) perm[i] = i;
  if (n <= 2 * BLOCK) {
    FN(lu_columns)(n, 0, n, a, perm, sign);
    return NULL;
  }
  SCALAR *minus = weft_malloc((size_t)n * BLOCK * sizeof *minus);
  if (minus == NULL) return WEFT_NO_MEMORY("an LU decomposition");
  weft_status_t *s = NULL;
  for (int64_t k = 0; k < n && s == NULL; k += BLOCK) {
    int64_t width = n - k < BLOCK ? n - k : BLOCK, next = k + width, rest = n - next;
    FN(lu_columns)(n, k, next, a, perm, sign);
    for (int64_t i = k; i < next; i++) { /* U's rows, right of the block */
      for (int64_t l = k; l < i; l++) {
        SCALAR f = a[i * n + l];
        for (int64_t j = next; j < n; j++) a[i * n + j] -= f * a[l * n + j];
      }
    }
    for (int64_t i = 0; i < rest; i++) {
      for (int64_t l = 0; l < width; l++) minus[i * width + l] = -a[(next + i) * n + k + l];
    }
    s = weft_gemm(NULL, DTYPE, WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, rest, rest, width, minus, width,
                  a + k * n + next, n, a + next * n + next, n, true);
  }
  weft_free(minus);
  return s;
}

/* Is no element of the diagonal zero? As Eigen's minimum, which skips NaN but in the first place. */
static inline bool FN(has_pivots)(int64_t n, const SCALAR *lu) {
  REAL least = ABS(lu[0]);
  for (int64_t i = 1; i < n; i++) {
    REAL v = ABS(lu[i * n + i]);
    if (v < least) least = v;
  }
  return least > 0;
}

/* x[n, m] = the solution, of b[n, m]. */
static inline void FN(lu_solve)(int64_t n, int64_t m, const SCALAR *lu, const int64_t *perm, const SCALAR *b,
                                SCALAR *x) {
  for (int64_t i = 0; i < n; i++) memcpy(x + i * m, b + perm[i] * m, (size_t)m * sizeof *x);
  FN(solve_triangular)(n, m, lu, n, true, false, true, x);
  FN(solve_triangular)(n, m, lu, n, false, false, false, x);
}

/* ---- Cholesky ---- */

/* The lower triangle of a[n, n] becomes L; the rest is neither read nor written. False: not positive
 * definite. */
static inline bool FN(cholesky)(int64_t n, SCALAR *a) {
  for (int64_t i = 0; i < n; i++) {
    SCALAR *row = a + i * n;
    for (int64_t j = 0; j < i; j++) {
      const SCALAR *other = a + j * n;
      SCALAR sum = row[j];
      for (int64_t k = 0; k < j; k++) sum -= row[k] * CONJ(other[k]);
      row[j] = sum / other[j];
    }
    REAL d = RE(row[i]);
    for (int64_t k = 0; k < i; k++) d -= ABS2(row[k]);
    if (d <= 0) return false;
    row[i] = sqrt(d);
  }
  return true;
}
