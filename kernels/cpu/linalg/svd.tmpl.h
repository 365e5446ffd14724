/* kernels/cpu/linalg/svd.tmpl.h - the singular values of one matrix, for one scalar type. */

/* What the sweeps work on: a square matrix, and the vectors so far (NULL: not wanted), which have m and n
 * rows. */
typedef struct FN(jacobi) {
  int64_t size, m, n, u_cols, v_cols;
  SCALAR *work, *u, *v;
  REAL most; /* of the diagonal */
} FN(jacobi_t);

/* The rotation J for which J* [x y; y* z] J is diagonal. Source: Golub, Van Loan, "Matrix Computations", 8.5.
 */
static void FN(symmetric_rotation)(REAL x, REAL y, REAL z, REAL *c, REAL *s) {
  REAL twice = 2 * fabs(y);
  *c = 1;
  *s = 0;
  if (twice < REAL_MIN) return;
  REAL tau = (x - z) / twice, w = sqrt(tau * tau + 1), t = tau > 0 ? 1 / (tau + w) : 1 / (tau - w);
  *c = 1 / (REAL)sqrt(t * t + 1);
  *s = (t > 0) == (y > 0) ? -fabs(t) * *c : fabs(t) * *c;
}

static void FN(scale_row)(int64_t n, SCALAR *x, int64_t step, SCALAR f) {
  for (int64_t i = 0; i < n; i++) x[i * step] *= f;
}

/* Makes element (at, at or p) of the work matrix real by a factor of its row, and U's column the same by the
 * opposite one. */
static void FN(turn_row)(FN(jacobi_t) * j, int64_t row, int64_t col) {
  SCALAR at = j->work[row * j->size + col];
  if (!(fabs(IM(at)) > REAL_MIN)) return;
  SCALAR z = ABS(at) / at;
  FN(scale_row)(j->size, j->work + row * j->size, 1, z);
  if (j->u != NULL) FN(scale_row)(j->m, j->u + row, j->u_cols, CONJ(z));
}

/* Makes the 2x2 block (p, q) of complex numbers real; false: it is diagonal then. */
static bool FN(make_real)(FN(jacobi_t) * j, int64_t p, int64_t q) {
  if (!IS_COMPLEX) return true;
  SCALAR *w = j->work, *pp = w + p * j->size + p, *qp = w + q * j->size + p, *pq = w + p * j->size + q,
         *qq = w + q * j->size + q;
  REAL n = sqrt(ABS2(*pp) + ABS2(*qp));
  if (n == 0) {
    *pp = *qp = 0;
    FN(turn_row)(j, p, q);
  } else {
    FN(rotation_t) r = {CONJ(*pp) / n, *qp / n};
    FN(rotate)(j->size, w + p * j->size, 1, w + q * j->size, 1, r);
    if (j->u != NULL) FN(rotate_columns)(j->m, j->u, j->u_cols, p, q, FN(rotation_adjoint)(r));
    if (fabs(IM(*pq)) > REAL_MIN) {
      SCALAR z = ABS(*pq) / *pq;
      FN(scale_row)(j->size, w + q, j->size, z);
      if (j->v != NULL) FN(scale_row)(j->n, j->v + q, j->v_cols, z);
    }
  }
  FN(turn_row)(j, q, q);
  if (ABS(*pp) > j->most) j->most = ABS(*pp);
  if (ABS(*qq) > j->most) j->most = ABS(*qq);
  REAL limit = REAL_EPS * j->most > REAL_MIN ? REAL_EPS * j->most : REAL_MIN;
  return ABS(*pq) > limit || ABS(*qp) > limit;
}

/* Makes the 2x2 block (p, q) diagonal. */
static void FN(jacobi_step)(FN(jacobi_t) * j, int64_t p, int64_t q) {
  if (!FN(make_real)(j, p, q)) return;
  SCALAR *w = j->work;
  int64_t size = j->size;
  REAL a = RE(w[p * size + p]), b = RE(w[p * size + q]), c = RE(w[q * size + p]), d = RE(w[q * size + q]);
  REAL t = a + d, diff = c - b, c1 = 1, s1 = 0, cr, sr;
  if (!(fabs(diff) < REAL_MIN)) { /* a rotation that makes the block symmetric */
    REAL u = t / diff, root = sqrt(1 + u * u);
    s1 = 1 / root;
    c1 = u / root;
  }
  FN(symmetric_rotation)(c1 * a + s1 * c, c1 * b + s1 * d, -s1 * b + c1 * d, &cr, &sr);
  FN(rotation_t) left = {c1 * cr + s1 * sr, -c1 * sr + s1 * cr}, right = {cr, sr};
  FN(rotate)(size, w + p * size, 1, w + q * size, 1, left);
  if (j->u != NULL) FN(rotate_columns)(j->m, j->u, j->u_cols, p, q, FN(rotation_transpose)(left));
  FN(rotate_columns)(size, w, size, p, q, right);
  if (j->v != NULL) FN(rotate_columns)(j->n, j->v, j->v_cols, p, q, right);
  if (ABS(w[p * size + p]) > j->most) j->most = ABS(w[p * size + p]);
  if (ABS(w[q * size + q]) > j->most) j->most = ABS(w[q * size + q]);
}

static void FN(jacobi_sweeps)(FN(jacobi_t) * j) {
  enum { MAX_SWEEPS = 1000 }; /* some ten suffice */
  bool finished = false;
  for (int sweep = 0; sweep < MAX_SWEEPS && !finished; sweep++) {
    finished = true;
    for (int64_t p = 1; p < j->size; p++) {
      for (int64_t q = 0; q < p; q++) {
        REAL limit = 2 * REAL_EPS * j->most > REAL_MIN ? 2 * REAL_EPS * j->most : REAL_MIN;
        if (!(ABS(j->work[p * j->size + q]) > limit || ABS(j->work[q * j->size + p]) > limit)) continue;
        finished = false;
        FN(jacobi_step)(j, p, q);
      }
    }
  }
}

/* The diagonal, made positive and sorted, and the vectors with it. */
static void FN(jacobi_finish)(FN(jacobi_t) * j, REAL scale, SCALAR *values) {
  for (int64_t i = 0; i < j->size; i++) {
    SCALAR d = j->work[i * j->size + i];
    REAL a = IS_COMPLEX && fabs(IM(d)) > REAL_MIN ? ABS(d) : fabs(RE(d));
    if (j->u != NULL && IS_COMPLEX && fabs(IM(d)) > REAL_MIN) {
      FN(scale_row)(j->m, j->u + i, j->u_cols, d / a);
    } else if (j->u != NULL && RE(d) < 0) {
      FN(scale_row)(j->m, j->u + i, j->u_cols, -1);
    }
    values[i] = a * scale;
  }
  for (int64_t i = 0; i < j->size; i++) {
    int64_t best = i;
    for (int64_t k = i + 1; k < j->size; k++) best = RE(values[k]) > RE(values[best]) ? k : best;
    if (RE(values[best]) == 0) break;
    if (best == i) continue;
    FN(swap)(1, values + i, 1, values + best, 1);
    if (j->u != NULL) FN(swap)(j->m, j->u + i, j->u_cols, j->u + best, j->u_cols);
    if (j->v != NULL) FN(swap)(j->n, j->v + i, j->v_cols, j->v + best, j->v_cols);
  }
}

/* Reduces tall[m, n], m > n, to a square by a QR decomposition of its columns in the order of their length:
 * square[n, n] = R, wide[m, cols] = Q, permuted[n, n]: the order. NULL: not wanted. */
static weft_status_t *FN(precondition)(int64_t m, int64_t n, SCALAR *tall, SCALAR *square, SCALAR *wide,
                                       int64_t cols, SCALAR *permuted) {
  int64_t width = n > cols ? n : cols, *perm = weft_malloc((size_t)n * sizeof *perm);
  SCALAR *tau = weft_malloc((size_t)(n + width) * sizeof *tau);
  REAL *norms = weft_malloc((size_t)(2 * n) * sizeof *norms);
  weft_status_t *s = NULL;
  if (perm == NULL || tau == NULL || norms == NULL) {
    s = WEFT_NO_MEMORY("singular values");
  } else {
    (void)FN(pivoted_qr)(m, n, tall, perm, tau, tau + n, norms);
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < n; j++) square[i * n + j] = j >= i ? tall[i * n + j] : 0;
    }
    if (wide != NULL) {
      FN(set_identity)(m, cols, wide);
      FN(apply_q)(m, n, n, tall, tau, cols, wide, tau + n);
    }
    for (int64_t i = 0; i < n && permuted != NULL; i++) {
      for (int64_t j = 0; j < n; j++) permuted[i * n + j] = perm[j] == i;
    }
  }
  weft_free(perm);
  weft_free(tau);
  weft_free(norms);
  return s;
}

/* a[m, n] has been divided by `scale`. V's other columns, of full matrices, come with Q. */
static weft_status_t *FN(svd_jacobi)(int64_t m, int64_t n, SCALAR *a, REAL scale, SCALAR *values, SCALAR *u,
                                     int64_t u_cols, SCALAR *v, int64_t v_cols) {
  int64_t size = m < n ? m : n;
  SCALAR *work = weft_malloc((size_t)(size * size + m * n) * sizeof *work), *adjoint;
  if (work == NULL) return WEFT_NO_MEMORY("singular values");
  adjoint = work + size * size;
  weft_status_t *s = NULL;
  if (m > n) {
    s = FN(precondition)(m, n, a, work, u, u_cols, v);
  } else if (m < n) {
    FN(adjoint_of)(m, n, a, adjoint);
    s = FN(precondition)(n, m, adjoint, a, v, v_cols, u);
    FN(adjoint_of)(m, m, a, work);
  } else {
    memcpy(work, a, (size_t)(m * n) * sizeof *work);
    if (u != NULL) FN(set_identity)(m, m, u);
    if (v != NULL) FN(set_identity)(n, n, v);
  }
  if (s == NULL) {
    FN(jacobi_t)
    j = {.size = size, .m = m, .n = n, .u_cols = u_cols, .v_cols = v_cols, .work = work, .u = u, .v = v};
    for (int64_t i = 0; i < size; i++) {
      if (ABS(work[i * size + i]) > j.most) j.most = ABS(work[i * size + i]);
    }
    FN(jacobi_sweeps)(&j);
    FN(jacobi_finish)(&j, scale, values);
  }
  weft_free(work);
  return s;
}

/* By LAPACK: what is [m, n] by rows is [n, m] by columns, so that its left vectors are our right ones. */
static weft_status_t *FN(svd_lapack)(int64_t m, int64_t n, SCALAR *a, REAL scale, SCALAR *values, SCALAR *u,
                                     int64_t u_cols, SCALAR *v, int64_t v_cols) {
  int64_t least = m < n ? m : n, most = m < n ? n : m;
  if (most > INT_MAX / 4) return WEFT_ERROR(INVALID_ARGUMENT, "a matrix has a dimension of 2^29 or more");
  weft_blas_init();
  const char *job = u == NULL ? "N" : u_cols == m && v_cols == n ? "A" : "S";
  int rows = (int)n, cols = (int)m, ldu = (int)n, ldvt = (int)u_cols, info = 0, lwork = -1;
  size_t vt_count = u == NULL ? 1 : (size_t)(n * v_cols), real_count = 1;
#if IS_COMPLEX
  real_count =
      (size_t)(least * (5 * least + 7 > 2 * most + 2 * least + 1 ? 5 * least + 7 : 2 * most + 2 * least + 1));
#endif
  SCALAR size = 0, *vt = weft_malloc((vt_count + (u == NULL ? 1 : (size_t)(m * u_cols))) * sizeof *vt), *ut,
         *work = NULL;
  REAL *s = weft_malloc((size_t)least * sizeof *s), *reals = weft_malloc(real_count * sizeof *reals);
  int *ints = weft_malloc((size_t)(8 * least) * sizeof *ints);
  bool has_memory = vt != NULL && s != NULL && reals != NULL && ints != NULL;
  ut = has_memory ? vt + vt_count : NULL;
  if (u == NULL) ldvt = 1;
  for (int pass = 0; pass < 2 && has_memory; pass++) { /* the first asks for the size of the work space */
    SCALAR *space = pass == 0 ? &size : work;
#if IS_COMPLEX
    FN(gesdd)(job, &rows, &cols, a, &rows, s, vt, &ldu, ut, &ldvt, space, &lwork, reals, ints, &info);
#else
    FN(gesdd)(job, &rows, &cols, a, &rows, s, vt, &ldu, ut, &ldvt, space, &lwork, ints, &info);
#endif
    if (pass == 1) break;
    lwork = (int)RE(size) + 1;
    work = weft_malloc((size_t)lwork * sizeof *work);
    has_memory = work != NULL;
  }
  for (int64_t i = 0; i < least && has_memory; i++) values[i] = info == 0 ? s[i] * scale : MAKE(NAN, 0);
  if (has_memory && u != NULL) { /* A' = vt diag(s) ut, by columns: A = ut' diag(s) vt' by rows */
    for (int64_t i = 0; i < m; i++) {
      for (int64_t k = 0; k < u_cols; k++) u[i * u_cols + k] = ut[i * u_cols + k];
    }
    for (int64_t i = 0; i < n; i++) {
      for (int64_t k = 0; k < v_cols; k++) v[i * v_cols + k] = CONJ(vt[k * n + i]);
    }
  }
  weft_free(vt);
  weft_free(s);
  weft_free(reals);
  weft_free(ints);
  weft_free(work);
  return has_memory ? NULL : WEFT_NO_MEMORY("singular values");
}

static void FN(fill)(int64_t n, SCALAR *x, SCALAR value) {
  for (int64_t i = 0; i < n; i++) x[i] = value;
}

static weft_status_t *FN(svd_one)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  enum { JACOBI_COLUMNS = 16 };
  int64_t m = c->in[0].rows, n = c->in[0].cols, u_cols = c->out[1].cols, v_cols = c->out[2].cols;
  SCALAR *u = c->flags->vectors ? out[1] : NULL, *v = c->flags->vectors ? out[2] : NULL;
  if (m == 0 || n == 0) { /* full matrices of what is not empty are unit matrices */
    if (u != NULL) FN(set_identity)(m, u_cols, u);
    if (v != NULL) FN(set_identity)(n, v_cols, v);
    return NULL;
  }
  REAL scale = FN(largest)(m * n, in[0]);
  if (!isfinite(scale)) {
    SCALAR nan = IS_COMPLEX ? 0 : MAKE(NAN, 0); /* TensorFlow's NaN of a complex type is 0 */
    FN(fill)(c->out[0].rows, out[0], nan);
    if (u != NULL) FN(fill)(m * u_cols, u, nan);
    if (v != NULL) FN(fill)(n * v_cols, v, nan);
    return NULL;
  }
  if (scale == 0) scale = 1;
  SCALAR *a = weft_malloc((size_t)(m * n) * sizeof *a);
  if (a == NULL) return WEFT_NO_MEMORY("singular values");
  for (int64_t i = 0; i < m * n; i++) a[i] = ((const SCALAR *)in[0])[i] / scale;
  weft_status_t *s = n < JACOBI_COLUMNS ? FN(svd_jacobi)(m, n, a, scale, out[0], u, u_cols, v, v_cols)
                                        : FN(svd_lapack)(m, n, a, scale, out[0], u, u_cols, v, v_cols);
  weft_free(a);
  return s;
}
