/* kernels/cpu/linalg/schur.tmpl.h - see schur.h; for one scalar type. */

/* a becomes zero below its first subdiagonal; u as in the header. work: 2 n elements. */
static void FN(hessenberg)(int64_t n, SCALAR *a, SCALAR *u, SCALAR *work) {
  SCALAR *h = work, *row = work + n;
  for (int64_t i = 0; i < n - 1; i++) {
    SCALAR *v = a + (i + 1) * n + i;
    REAL beta = FN(make_reflection)(n - i - 1, v, n, &h[i]);
    FN(reflect_left)(n - i - 1, n - i - 1, v + 1, n, v, n, h[i], row);
    FN(reflect_right)(n, n - i - 1, a + i + 1, n, v, n, CONJ(h[i]));
    *v = beta;
  }
  if (u != NULL) {
    FN(set_identity)(n, n, u);
    for (int64_t k = n - 2; k >= 0; k--) {
      FN(reflect_left)
      (n - k - 1, n - k - 1, u + (k + 1) * n + k + 1, n, a + (k + 1) * n + k, n, CONJ(h[k]), row);
    }
  }
  for (int64_t i = 2; i < n; i++) {
    for (int64_t j = 0; j < i - 1; j++) a[i * n + j] = 0;
  }
}

#if IS_COMPLEX

/* Is t[i + 1, i] next to nothing? Then it becomes zero. */
static bool FN(is_negligible)(int64_t n, SCALAR *t, int64_t i) {
  REAL d = NORM1(t[i * n + i]) + NORM1(t[(i + 1) * n + i + 1]);
  if (!(NORM1(t[(i + 1) * n + i]) <= d * REAL_EPS)) return false;
  t[(i + 1) * n + i] = 0;
  return true;
}

/* An eigenvalue of the 2x2 block that ends at iu. */
static SCALAR FN(schur_shift)(int64_t n, const SCALAR *t, int64_t iu, int64_t iter) {
  const SCALAR *at = t + (iu - 1) * n + iu - 1;
  if ((iter == 10 || iter == 20) && iu > 1) return fabs(RE(at[n])) + fabs(RE(at[-1]));
  REAL scale = ABS(at[0]) + ABS(at[1]) + ABS(at[n]) + ABS(at[n + 1]);
  SCALAR p = at[0] / scale, q = at[1] / scale, r = at[n] / scale, s = at[n + 1] / scale;
  SCALAR b = q * r, c = p - s, root = sqrt(c * c + 4 * b), det = p * s - b, trace = p + s;
  SCALAR one = (trace + root) / 2, two = (trace - root) / 2;
  if (NORM1(one) > NORM1(two)) {
    two = det / one;
  } else if (NORM1(two) != 0) {
    one = det / two;
  }
  return scale * (NORM1(one - s) < NORM1(two - s) ? one : two);
}

/* The rotation that turns (p, q) into (*r, 0). Source: LAPACK Working Note 150. */
static FN(rotation_t) FN(givens)(SCALAR p, SCALAR q, SCALAR *r) {
  FN(rotation_t) g;
  if (q == 0) {
    g = (FN(rotation_t)){RE(p) < 0 ? -1 : 1, 0};
    *r = g.c * p;
  } else if (p == 0) {
    g = (FN(rotation_t)){0, -q / ABS(q)};
    *r = ABS(q);
  } else if (NORM1(p) >= NORM1(q)) {
    REAL p1 = NORM1(p);
    SCALAR ps = p / p1, qs = q / p1;
    REAL p2 = ABS2(ps), u = sqrt(1 + ABS2(qs) / p2);
    if (RE(p) < 0) u = -u;
    g.c = 1 / u;
    g.s = -qs * CONJ(ps) * (RE(g.c) / p2);
    *r = p * u;
  } else {
    REAL q1 = NORM1(q), u = q1 * sqrt(ABS2(p / q1) + ABS2(q / q1)), p1 = ABS(p);
    if (RE(p) < 0) u = -u;
    SCALAR ps = p / p1;
    g.c = p1 / u;
    g.s = -CONJ(ps) * (q / u);
    *r = ps * u;
  }
  return g;
}

/* Rows and columns i, i + 1 of t are rotated, and columns of u. */
static void FN(schur_rotate)(int64_t n, int64_t i, int64_t iu, FN(rotation_t) g, SCALAR *t, SCALAR *u) {
  int64_t rows = (i + 2 < iu ? i + 2 : iu) + 1;
  FN(rotate)(n - i, t + i * n + i, 1, t + (i + 1) * n + i, 1, FN(rotation_adjoint)(g));
  FN(rotate_columns)(rows, t, n, i, i + 1, g);
  if (u != NULL) FN(rotate_columns)(n, u, n, i, i + 1, g);
}

/* False: too many steps. */
static bool FN(triangularise)(int64_t n, SCALAR *t, SCALAR *u) {
  int64_t iu = n - 1, iter = 0, total = 0;
  SCALAR unused;
  while (true) {
    for (; iu > 0 && FN(is_negligible)(n, t, iu - 1); iu--) iter = 0;
    if (iu <= 0) return true;
    iter++;
    if (++total > 30 * n) return false;
    int64_t il = iu - 1;
    while (il > 0 && !FN(is_negligible)(n, t, il - 1)) il--;
    SCALAR shift = FN(schur_shift)(n, t, iu, iter);
    FN(schur_rotate)(n, il, iu, FN(givens)(t[il * n + il] - shift, t[(il + 1) * n + il], &unused), t, u);
    for (int64_t i = il + 1; i < iu; i++) {
      FN(rotation_t) g = FN(givens)(t[i * n + i - 1], t[(i + 1) * n + i - 1], &t[i * n + i - 1]);
      t[(i + 1) * n + i - 1] = 0;
      FN(schur_rotate)(n, i, iu, g, t, u);
    }
  }
}

weft_status_t *FN(weft_linalg_schur)(int64_t n, SCALAR *t, SCALAR *u, bool *converged) {
  SCALAR *work = weft_malloc((size_t)(2 * n + 1) * sizeof *work);
  if (work == NULL) return WEFT_NO_MEMORY("a Schur decomposition");
  if (n == 1 && u != NULL) u[0] = 1;
  *converged = true;
  if (n > 1) {
    FN(hessenberg)(n, t, u, work);
    *converged = FN(triangularise)(n, t, u);
  }
  weft_free(work);
  return NULL;
}

/* x[n, n] with t x = x diag(t); ones on its diagonal, zeros below. */
static void FN(triangular_vectors)(int64_t n, const SCALAR *t, SCALAR *x) {
  REAL norm = sqrt(FN(squared_norm)(n * n, t, 1));
  if (!(norm >= REAL_MIN)) norm = REAL_MIN;
  memset(x, 0, (size_t)(n * n) * sizeof *x);
  for (int64_t k = n - 1; k >= 0; k--) {
    x[k * n + k] = 1;
    for (int64_t i = k - 1; i >= 0; i--) {
      SCALAR sum = -t[i * n + k], z = t[i * n + i] - t[k * n + k];
      for (int64_t j = i + 1; j < k; j++) sum -= t[i * n + j] * x[j * n + k];
      if (z == 0) z = REAL_EPS * norm; /* equal eigenvalues */
      x[i * n + k] = sum / z;
    }
  }
}

static weft_status_t *FN(vectors)(int64_t n, const SCALAR *t, const SCALAR *u, SCALAR *x, SCALAR *v) {
  FN(triangular_vectors)(n, t, x);
  WEFT_RETURN_IF_ERROR(FN(multiply)(WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, n, n, n, u, x, v));
  for (int64_t k = 0; k < n; k++) {
    REAL length = sqrt(FN(squared_norm)(n, v + k, n));
    for (int64_t i = 0; i < n && length > 0; i++) v[i * n + k] /= length;
  }
  return NULL;
}

weft_status_t *FN(weft_linalg_eig)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  int64_t n = c->in[0].rows;
  SCALAR *e = out[0], *v = c->flags->vectors ? out[1] : NULL;
  bool converged = true;
  if (n == 0) return NULL;
  SCALAR *t = weft_malloc((size_t)(3 * n * n) * sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("eigenvalues");
  SCALAR *u = t + n * n, *x = u + n * n;
  memcpy(t, in[0], (size_t)(n * n) * sizeof *t);
  weft_status_t *s = FN(weft_linalg_schur)(n, t, v != NULL ? u : NULL, &converged);
  if (s == NULL && !converged) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Eigen decomposition was not successful. The input might not be valid.");
  }
  for (int64_t i = 0; i < n; i++) e[i] = t[i * n + i];
  if (s == NULL && v != NULL) s = FN(vectors)(n, t, u, x, v);
  for (int64_t i = 0; i < n && s == NULL; i++) {
    int64_t k = i;
    for (int64_t j = i + 1; j < n; j++) k = ABS(e[j]) < ABS(e[k]) ? j : k;
    if (k == i) continue;
    FN(swap)(1, e + i, 1, e + k, 1);
    if (v != NULL) FN(swap)(n, v + i, n, v + k, n);
  }
  weft_free(t);
  return s;
}

#else

/* ---- real matrices: blocks of 2x2 on the diagonal have two complex eigenvalues. Source: Golub, Van Loan,
 * "Matrix Computations", 7.5; shifts are those of EISPACK's hqr, as Eigen has them. ---- */

typedef struct FN(francis) {
  int64_t n;
  SCALAR *t, *u, *work;
  REAL shifted; /* by exceptional shifts */
  REAL least;   /* what is never more than zero */
} FN(francis_t);

/* The first row of the block that ends at iu. */
static int64_t FN(block_begin)(const FN(francis_t) * f, int64_t iu) {
  for (; iu > 0; iu--) {
    const SCALAR *at = f->t + iu * f->n + iu;
    REAL limit = REAL_EPS * (fabs(at[-f->n - 1]) + fabs(at[0]));
    if (fabs(at[-1]) <= (limit > f->least ? limit : f->least)) break;
  }
  return iu;
}

/* Rows iu - 1 and iu are a block: of two real eigenvalues it becomes triangular. */
static void FN(split_pair)(FN(francis_t) * f, int64_t iu) {
  int64_t n = f->n;
  SCALAR *at = f->t + (iu - 1) * n + iu - 1;
  REAL p = (at[0] - at[n + 1]) / 2, q = p * p + at[n] * at[1];
  at[0] += f->shifted;
  at[n + 1] += f->shifted;
  if (q >= 0) {
    REAL root = sqrt(fabs(q));
    FN(rotation_t) g;
    FN(real_givens)(p >= 0 ? p + root : p - root, at[n], &g.c, &g.s);
    FN(rotate)(n - iu + 1, at, 1, at + n, 1, FN(rotation_adjoint)(g));
    FN(rotate_columns)(iu + 1, f->t, n, iu - 1, iu, g);
    at[n] = 0;
    if (f->u != NULL) FN(rotate_columns)(n, f->u, n, iu - 1, iu, g);
  }
  if (iu > 1) at[-1] = 0;
}

/* shift: the last diagonal element, the one before, the product of those beside. */
static void FN(francis_shift)(FN(francis_t) * f, int64_t iu, int64_t iter, REAL shift[3]) {
  const SCALAR *at = f->t + iu * f->n + iu;
  REAL by = 0;
  shift[0] = at[0];
  shift[1] = at[-f->n - 1];
  shift[2] = at[-1] * at[-f->n];
  if (iter == 10) {
    REAL s = fabs(at[-1]) + fabs(at[-f->n - 2]);
    by = shift[0];
    shift[0] = shift[1] = (REAL)0.75 * s;
    shift[2] = (REAL)-0.4375 * s * s;
  } else if (iter == 30) {
    REAL half = (shift[1] - shift[0]) / 2, s = half * half + shift[2];
    if (!(s > 0)) return;
    s = shift[1] < shift[0] ? -(REAL)sqrt(s) : (REAL)sqrt(s);
    by = shift[0] - shift[2] / (s + half);
    shift[0] = shift[1] = shift[2] = (REAL)0.964;
  }
  f->shifted += by;
  for (int64_t i = 0; i <= iu && by != 0; i++) f->t[i * f->n + i] -= by;
}

/* Where the step begins, and its first vector. */
static int64_t FN(francis_begin)(const FN(francis_t) * f, int64_t il, int64_t iu, const REAL shift[3],
                                 SCALAR v[3]) {
  int64_t n = f->n, im = iu - 2;
  for (;; im--) {
    const SCALAR *at = f->t + im * n + im;
    REAL r = shift[0] - at[0], s = shift[1] - at[0];
    v[0] = (r * s - shift[2]) / at[n] + at[1];
    v[1] = at[n + 1] - at[0] - r - s;
    v[2] = at[2 * n + 1];
    if (im == il) return im;
    REAL left = at[-1] * (fabs(v[1]) + fabs(v[2])),
         right = v[0] * (fabs(at[-n - 1]) + fabs(at[0]) + fabs(at[n + 1]));
    if (fabs(left) < REAL_EPS * right) return im;
  }
}

static void FN(francis_step)(FN(francis_t) * f, int64_t il, int64_t im, int64_t iu, SCALAR v[3]) {
  int64_t n = f->n;
  SCALAR tau;
  for (int64_t k = im; k < iu; k++) {
    int size = k < iu - 1 ? 3 : 2;
    for (int i = 0; i < size && k > im; i++) v[i] = f->t[(k + i) * n + k - 1];
    REAL beta = FN(make_reflection)(size, v, 1, &tau);
    if (beta == 0) continue;
    if (k > im) {
      f->t[k * n + k - 1] = beta;
    } else if (k > il) {
      f->t[k * n + k - 1] = -f->t[k * n + k - 1];
    }
    int64_t rows = (k + 3 < iu ? k + 3 : iu) + 1;
    FN(reflect_left)(size, n - k, f->t + k * n + k, n, v, 1, tau, f->work);
    FN(reflect_right)(rows, size, f->t + k, n, v, 1, tau);
    if (f->u != NULL) FN(reflect_right)(n, size, f->u + k, n, v, 1, tau);
  }
  for (int64_t i = im + 2; i <= iu; i++) {
    f->t[i * n + i - 2] = 0;
    if (i > im + 2) f->t[i * n + i - 3] = 0;
  }
}

/* False: too many steps. */
static bool FN(quasi_triangularise)(FN(francis_t) * f) {
  int64_t n = f->n, iu = n - 1, iter = 0, total = 0;
  while (iu >= 0) {
    int64_t il = FN(block_begin)(f, iu);
    if (il == iu) {
      f->t[iu * n + iu] += f->shifted;
      if (iu > 0) f->t[iu * n + iu - 1] = 0;
    } else if (il == iu - 1) {
      FN(split_pair)(f, iu);
    } else {
      REAL shift[3];
      SCALAR v[3];
      FN(francis_shift)(f, iu, iter++, shift);
      if (++total > 40 * n) return false;
      int64_t im = FN(francis_begin)(f, il, iu, shift, v);
      FN(francis_step)(f, il, im, iu, v);
      continue;
    }
    iu = il - 1;
    iter = 0;
  }
  return true;
}

weft_status_t *FN(weft_linalg_schur)(int64_t n, SCALAR *t, SCALAR *u, bool *converged) {
  REAL scale = FN(largest)(n * n, t), norm = 0;
  *converged = true;
  if (scale < REAL_MIN) {
    memset(t, 0, (size_t)(n * n) * sizeof *t);
    if (u != NULL) FN(set_identity)(n, n, u);
    return NULL;
  }
  SCALAR *work = weft_malloc((size_t)(2 * n) * sizeof *work);
  if (work == NULL) return WEFT_NO_MEMORY("a Schur decomposition");
  for (int64_t i = 0; i < n * n; i++) t[i] /= scale;
  FN(hessenberg)(n, t, u, work);
  for (int64_t i = 0; i < n * n; i++) norm += fabs(t[i]);
  FN(francis_t) f = {.n = n, .t = t, .u = u, .work = work, .least = norm * REAL_EPS * REAL_EPS};
  if (f.least < REAL_MIN) f.least = REAL_MIN;
  *converged = isfinite(norm) && FN(quasi_triangularise)(&f);
  for (int64_t i = 0; i < n * n; i++) t[i] *= scale;
  weft_free(work);
  return NULL;
}

/* ---- eigenvectors ---- */

/* Does a block of 2x2 begin at row i? */
static bool FN(is_pair)(int64_t n, const SCALAR *t, int64_t i) {
  return i + 1 < n && t[(i + 1) * n + i] != 0;
}

static void FN(eigenvalues)(int64_t n, const SCALAR *t, COMPLEX *e) {
  for (int64_t i = 0; i < n; i++) {
    const SCALAR *at = t + i * n + i;
    e[i] = at[0];
    if (!FN(is_pair)(n, t, i)) continue;
    REAL p = (at[0] - at[n + 1]) / 2, most = fabs(p);
    if (fabs(at[n]) > most) most = fabs(at[n]);
    if (fabs(at[1]) > most) most = fabs(at[1]);
    REAL z = most * (REAL)sqrt(fabs(p / most * (p / most) + at[n] / most * (at[1] / most)));
    e[i] = at[n + 1] + p + z * (COMPLEX)I;
    e[i + 1] = conj(e[i]);
    i++;
  }
}

/* v: of t's eigenvalue e, whose block ends at `end`; zeros below. */
static void FN(quasi_triangular_vector)(int64_t n, const SCALAR *t, REAL norm, COMPLEX e, int64_t end,
                                        COMPLEX *v) {
  int64_t i = end - 1;
  for (int64_t k = 0; k < n; k++) v[k] = 0;
  v[end] = 1;
  if (cimag(e) != 0) {
    const SCALAR *at = t + i * n + i;
    v[end] = I;
    v[i] = fabs(at[n]) > fabs(at[1]) ? -(at[n + 1] - e) * v[end] / at[n] : -at[1] * v[end] / (at[0] - e);
    i--;
  }
  for (; i >= 0; i--) {
    bool is_pair = i > 0 && FN(is_pair)(n, t, i - 1);
    COMPLEX sum = 0, above = 0, d = t[i * n + i] - e;
    for (int64_t k = i + 1; k <= end; k++) {
      sum -= t[i * n + k] * v[k];
      if (is_pair) above -= t[(i - 1) * n + k] * v[k];
    }
    if (!is_pair) {
      v[i] = sum / (d == 0 ? (COMPLEX)(REAL_EPS * norm) : d);
      continue;
    }
    SCALAR b = t[(i - 1) * n + i], c = t[i * n + i - 1];
    COMPLEX a = t[(i - 1) * n + i - 1] - e, det = a * d - b * c;
    if (det == 0) det = REAL_EPS * norm;
    v[i - 1] = (above * d - b * sum) / det;
    v[i] = (a * sum - c * above) / det;
    i--;
  }
}

static void FN(pair_vectors)(int64_t n, const SCALAR *t, const SCALAR *u, const COMPLEX *e, COMPLEX *x,
                             COMPLEX *v) {
  REAL norm = 0;
  for (int64_t i = 0; i < n * n; i++) norm += fabs(t[i]);
  for (int64_t j = 0; j < n; j++) {
    bool is_pair = FN(is_pair)(n, t, j);
    REAL length = 0;
    FN(quasi_triangular_vector)(n, t, norm, e[j], is_pair ? j + 1 : j, x);
    for (int64_t i = 0; i < n; i++) {
      COMPLEX sum = 0;
      for (int64_t k = 0; k <= j + is_pair; k++) sum += u[i * n + k] * x[k];
      v[i * n + j] = sum;
      length += creal(sum) * creal(sum) + cimag(sum) * cimag(sum);
    }
    length = sqrt(length);
    for (int64_t i = 0; i < n && length > 0; i++) v[i * n + j] /= length;
    for (int64_t i = 0; i < n && is_pair; i++) v[i * n + j + 1] = conj(v[i * n + j]);
    j += is_pair;
  }
}

weft_status_t *FN(weft_linalg_eig)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  int64_t n = c->in[0].rows;
  bool converged = true;
  COMPLEX *e = out[0];
  if (n == 0) return NULL;
  SCALAR *t = weft_malloc((size_t)(2 * n * n) * sizeof *t), *u = t == NULL ? NULL : t + n * n;
  COMPLEX *x = weft_malloc((size_t)n * sizeof *x);
  weft_status_t *s = t == NULL || x == NULL ? WEFT_NO_MEMORY("eigenvalues") : NULL;
  if (s == NULL) {
    memcpy(t, in[0], (size_t)(n * n) * sizeof *t);
    s = FN(weft_linalg_schur)(n, t, c->flags->vectors ? u : NULL, &converged);
  }
  if (s == NULL && converged) {
    FN(eigenvalues)(n, t, e);
    for (int64_t i = 0; i < n; i++) converged = converged && isfinite(creal(e[i])) && isfinite(cimag(e[i]));
  }
  if (s == NULL && !converged)
    s = WEFT_ERROR(INVALID_ARGUMENT, "Eigen decomposition was not successful. The input might not be valid.");
  if (s == NULL && c->flags->vectors) FN(pair_vectors)(n, t, u, e, x, out[1]);
  weft_free(t);
  weft_free(x);
  return s;
}

#endif
