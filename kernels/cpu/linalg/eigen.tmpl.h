/* kernels/cpu/linalg/eigen.tmpl.h - eigenvalues of one self-adjoint matrix, for one scalar type: reflections
 * to tridiagonal form, then the implicit symmetric QR algorithm. Only the lower triangle is read. Source:
 * Golub, Van Loan, "Matrix Computations", 8.3; thresholds and signs are Eigen's.
 */

/* One step of the reduction: column i of a[n, n] is reduced to its first two elements below and on the
 * diagonal. h: its reflection, whose vector is left in column i; p: n elements. */
static void FN(tridiagonal_step)(int64_t n, int64_t i, SCALAR *a, SCALAR *h, SCALAR *v, SCALAR *p) {
  int64_t rest = n - i - 1;
  REAL beta = FN(make_reflection)(rest, a + (i + 1) * n + i, n, h);
  SCALAR factor = CONJ(*h), dot = 0, *corner = a + (i + 1) * n + i + 1;
  for (int64_t j = 0; j < rest; j++) {
    v[j] = j == 0 ? 1 : a[(i + 1 + j) * n + i];
    p[j] = 0;
  }
  for (int64_t r = 0; r < rest; r++) {
    const SCALAR *row = corner + r * n;
    SCALAR sum = RE(row[r]) * v[r];
    for (int64_t j = 0; j < r; j++) {
      sum += row[j] * v[j];
      p[j] += CONJ(row[j]) * v[r];
    }
    p[r] += sum;
  }
  for (int64_t j = 0; j < rest; j++) {
    p[j] *= factor;
    dot += CONJ(p[j]) * v[j];
  }
  dot *= factor * (REAL)-0.5;
  for (int64_t j = 0; j < rest; j++) p[j] += dot * v[j];
  for (int64_t r = 0; r < rest; r++) {
    SCALAR *row = corner + r * n;
    for (int64_t j = 0; j <= r; j++) row[j] -= v[r] * CONJ(p[j]) + p[r] * CONJ(v[j]);
  }
  a[(i + 1) * n + i] = beta;
}

/* a = Q T Q*; q may be NULL. work: 3 n elements. */
static void FN(tridiagonalise)(int64_t n, SCALAR *a, REAL *diag, REAL *sub, SCALAR *q, SCALAR *work) {
  SCALAR *h = work, *v = h + n, *p = v + n;
  for (int64_t i = 0; i < n - 1; i++) FN(tridiagonal_step)(n, i, a, &h[i], v, p);
  for (int64_t i = 0; i < n; i++) diag[i] = RE(a[i * n + i]);
  for (int64_t i = 0; i < n - 1; i++) sub[i] = RE(a[(i + 1) * n + i]);
  if (q == NULL) return;
  FN(set_identity)(n, n, q);
  for (int64_t k = n - 2; k >= 0; k--) {
    FN(reflect_left)(n - k - 1, n - k - 1, q + (k + 1) * n + k + 1, n, a + (k + 1) * n + k, n, CONJ(h[k]), v);
  }
}

/* The eigenvalue of the last 2x2 block that is nearer to its last element. */
static REAL FN(wilkinson_shift)(const REAL *diag, const REAL *sub, int64_t end) {
  REAL td = (diag[end - 1] - diag[end]) * (REAL)0.5, e = sub[end - 1], mu = diag[end];
  if (td == 0) return mu - fabs(e);
  if (e == 0) return mu;
  REAL e2 = e * e, h = hypot(td, e), sum = td + (td > 0 ? h : -h);
  return e2 == 0 ? mu - e / (sum / e) : mu - e2 / sum;
}

/* One QR step on the rows start..end; qt: Q transposed, so that what is rotated lies together. */
static void FN(tridiagonal_qr)(int64_t n, int64_t start, int64_t end, REAL *diag, REAL *sub, SCALAR *qt) {
  REAL x = diag[start] - FN(wilkinson_shift)(diag, sub, end), z = sub[start], c = 0, s = 0;
  for (int64_t k = start; k < end && z != 0; k++) {
    FN(real_givens)(x, z, &c, &s);
    REAL sdk = s * diag[k] + c * sub[k], dkp1 = s * sub[k] + c * diag[k + 1];
    diag[k] = c * (c * diag[k] - s * sub[k]) - s * (c * sub[k] - s * diag[k + 1]);
    diag[k + 1] = s * sdk + c * dkp1;
    sub[k] = c * sdk - s * dkp1;
    if (k > start) sub[k - 1] = c * sub[k - 1] - s * z;
    x = sub[k];
    if (k < end - 1) {
      z = -s * sub[k + 1];
      sub[k + 1] = c * sub[k + 1];
    }
    if (qt != NULL) FN(rotate)(n, qt + k * n, 1, qt + (k + 1) * n, 1, (FN(rotation_t)){c, -s});
  }
}

/* False: no convergence. */
static bool FN(diagonalise)(int64_t n, REAL *diag, REAL *sub, SCALAR *qt) {
  int64_t end = n - 1, start = 0, steps = 0;
  while (end > 0) {
    for (int64_t i = start; i < end; i++) {
      REAL scaled = sub[i] / REAL_EPS;
      if (fabs(sub[i]) < REAL_MIN || scaled * scaled <= fabs(diag[i]) + fabs(diag[i + 1])) sub[i] = 0;
    }
    while (end > 0 && sub[end - 1] == 0) end--;
    if (end <= 0) break;
    if (++steps > 30 * n) return false;
    start = end - 1;
    while (start > 0 && sub[start - 1] != 0) start--;
    FN(tridiagonal_qr)(n, start, end, diag, sub, qt);
  }
  for (int64_t i = 0; i < n - 1; i++) { /* ascending */
    int64_t k = i;
    for (int64_t j = i + 1; j < n; j++) k = diag[j] < diag[k] ? j : k;
    if (k == i) continue;
    REAL t = diag[i];
    diag[i] = diag[k];
    diag[k] = t;
    if (qt != NULL) FN(swap)(n, qt + i * n, 1, qt + k * n, 1);
  }
  return true;
}

/* Eigenvalues of a in e[n]; v[n, n], if it is not NULL, has the vectors in its columns. */
static weft_status_t *FN(self_adjoint)(int64_t n, const SCALAR *in, SCALAR *e, SCALAR *v) {
  if (n == 0) return NULL;
  if (n == 1) {
    e[0] = RE(in[0]);
    if (v != NULL) v[0] = 1;
    return NULL;
  }
  SCALAR *a = weft_malloc((size_t)(n * n + 3 * n) * sizeof *a);
  REAL *diag = weft_malloc((size_t)(2 * n) * sizeof *diag), scale;
  weft_status_t *s = NULL;
  if (a == NULL || diag == NULL) {
    s = WEFT_NO_MEMORY("eigenvalues");
  } else {
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < n; j++) a[i * n + j] = j <= i ? in[i * n + j] : 0;
    }
    scale = FN(largest)(n * n, a);
    if (scale == 0) scale = 1;
    for (int64_t i = 0; i < n * n; i++) a[i] /= scale;
    FN(tridiagonalise)(n, a, diag, diag + n, v, a + n * n);
    if (v != NULL) { /* by columns */
      for (int64_t i = 0; i < n; i++) FN(swap)(i, v + i * n, 1, v + i, n);
    }
    if (!FN(diagonalise)(n, diag, diag + n, v)) {
      s = WEFT_ERROR(INVALID_ARGUMENT,
                     "Self-adjoint eigen decomposition was not successful. The input might not be valid.");
    }
    for (int64_t i = 0; i < n; i++) e[i] = diag[i] * scale;
    if (v != NULL) {
      for (int64_t i = 0; i < n; i++) FN(swap)(i, v + i * n, 1, v + i, n);
    }
  }
  weft_free(a);
  weft_free(diag);
  return s;
}

static weft_status_t *FN(self_adjoint_eig_one)(const weft_linalg_call_t *c, const void *const *in,
                                               void *const *out) {
  return FN(self_adjoint)(c->in[0].rows, in[0], out[0], c->flags->vectors ? out[1] : NULL);
}

/* The eigenvalues are the first row, the vectors the others. */
static weft_status_t *FN(packed_eig_one)(const weft_linalg_call_t *c, const void *const *in,
                                         void *const *out) {
  int64_t n = c->in[0].rows;
  SCALAR *e = out[0];
  return FN(self_adjoint)(n, in[0], e, e + n);
}
