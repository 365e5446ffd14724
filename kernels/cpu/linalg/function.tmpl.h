/* kernels/cpu/linalg/function.tmpl.h - functions of one matrix, for one scalar type. */

/* ---- the exponential: Padé approximants, scaling and squaring. Source: Higham, "The scaling and squaring
 * method for the matrix exponential revisited", SIAM J. Matrix Anal. Appl. 26 (2005). ---- */

typedef struct FN(pade) {
  int64_t n;
  int degree;
  const double *b;   /* coefficients of even and odd powers, degree + 1 of them */
  SCALAR *powers[5]; /* 1, A^2, A^4, A^6, A^8: as many as needed */
} FN(pade_t);

/* out = the sum of b[first + 2 i] A^(2 i), i < count */
static void FN(polynomial)(const FN(pade_t) * p, int first, int count, SCALAR *out) {
  for (int64_t e = 0; e < p->n * p->n; e++) {
    SCALAR sum = 0;
    for (int i = count - 1; i >= 0; i--) sum += (REAL)p->b[first + 2 * i] * p->powers[i][e];
    out[e] = sum;
  }
}

/* V of even powers (first 0) or U / A of odd ones (first 1). Degree 13 multiplies the upper half by A^6. */
static weft_status_t *FN(pade_half)(const FN(pade_t) * p, int first, SCALAR *scratch, SCALAR *out) {
  int64_t n = p->n;
  if (p->degree < 13) {
    FN(polynomial)(p, first, (p->degree + 1) / 2, out);
    return NULL;
  }
  FN(pade_t) high = *p;
  high.b = p->b + 6;
  high.powers[0] = scratch; /* no constant term */
  memset(scratch, 0, (size_t)(n * n) * sizeof *scratch);
  FN(polynomial)(&high, first, 4, out);
  memcpy(scratch, out, (size_t)(n * n) * sizeof *scratch);
  WEFT_RETURN_IF_ERROR(FN(multiply)(WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, n, n, n, p->powers[3], scratch, out));
  FN(polynomial)(p, first, 4, scratch);
  for (int64_t e = 0; e < n * n; e++) out[e] += scratch[e];
  return NULL;
}

static int FN(pade_degree)(REAL norm, int *squarings) {
  static const double b32[] = {4.258730016922831e-1, 1.880152677804762},
                      b64[] = {1.495585217958292e-2, 2.53939833006323e-1, 9.504178996162932e-1,
                               2.097847961257068};
  bool is_float = sizeof(REAL) == sizeof(float);
  const double *bounds = is_float ? b32 : b64;
  int count = is_float ? 2 : 4, i = 0;
  *squarings = 0;
  while (i < count && !(norm < bounds[i])) i++;
  if (i < count) return 3 + 2 * i;
  if (isfinite(norm)) (void)frexp(norm / (REAL)(is_float ? 3.925724783138660 : 5.371920351148152), squarings);
  if (*squarings < 0) *squarings = 0;
  return is_float ? 7 : 13;
}

static const double *FN(pade_coefficients)(int degree) {
  static const double b3[] = {120, 60, 12, 1}, b5[] = {30240, 15120, 3360, 420, 30, 1},
                      b7[] = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1},
                      b9[] = {17643225600., 8821612800., 2075673600, 302702400, 30270240,
                              2162160,      110880,      3960,       90,        1},
                      b13[] = {64764752532480000.,
                               32382376266240000.,
                               7771770303897600.,
                               1187353796428800.,
                               129060195264000.,
                               10559470521600.,
                               670442572800.,
                               33522128640.,
                               1323241920,
                               40840800,
                               960960,
                               16380,
                               182,
                               1};
  return degree == 3 ? b3 : degree == 5 ? b5 : degree == 7 ? b7 : degree == 9 ? b9 : b13;
}

/* space: 10 matrices */
static weft_status_t *FN(exponential)(int64_t n, SCALAR *space, int64_t *perm, SCALAR *out) {
  const weft_gemm_op_t plain = WEFT_GEMM_PLAIN;
  int64_t size = n * n;
  int squarings = 0, sign = 1;
  SCALAR *a = space, *u = a + 6 * size, *v = u + size, *w = v + size, *scratch = w + size;
  REAL norm = 0;
  for (int64_t j = 0; j < n; j++) {
    REAL sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ABS(a[i * n + j]);
    if (!(sum <= norm)) norm = sum;
  }
  FN(pade_t) p = {.n = n, .degree = FN(pade_degree)(norm, &squarings)};
  p.b = FN(pade_coefficients)(p.degree);
  for (int64_t e = 0; e < size; e++) a[e] = MAKE(ldexp(RE(a[e]), -squarings), ldexp(IM(a[e]), -squarings));
  for (int i = 0; i < 5; i++) p.powers[i] = a + (i + 1) * size;
  FN(set_identity)(n, n, p.powers[0]);
  WEFT_RETURN_IF_ERROR(FN(multiply)(plain, plain, n, n, n, a, a, p.powers[1]));
  for (int i = 2; i < 5 && 2 * i < p.degree && i < (p.degree == 13 ? 4 : 5); i++)
    WEFT_RETURN_IF_ERROR(FN(multiply)(plain, plain, n, n, n, p.powers[i - 1], p.powers[1], p.powers[i]));
  WEFT_RETURN_IF_ERROR(FN(pade_half)(&p, 1, scratch, w));
  WEFT_RETURN_IF_ERROR(FN(multiply)(plain, plain, n, n, n, a, w, u));
  WEFT_RETURN_IF_ERROR(FN(pade_half)(&p, 0, scratch, v));
  for (int64_t e = 0; e < size; e++) {
    w[e] = u[e] + v[e];
    v[e] -= u[e];
  }
  WEFT_RETURN_IF_ERROR(FN(lu)(n, v, perm, &sign));
  FN(lu_solve)(n, n, v, perm, w, out);
  for (int i = 0; i < squarings; i++) {
    memcpy(w, out, (size_t)size * sizeof *w);
    WEFT_RETURN_IF_ERROR(FN(multiply)(plain, plain, n, n, n, w, w, out));
  }
  return NULL;
}

static weft_status_t *FN(exponential_one)(const weft_linalg_call_t *c, const void *const *in,
                                          void *const *out) {
  int64_t n = c->in[0].rows, *perm = weft_malloc((size_t)(n + 1) * sizeof *perm);
  SCALAR *space = weft_malloc((size_t)(10 * n * n + 1) * sizeof *space);
  weft_status_t *s = NULL;
  if (space == NULL || perm == NULL) {
    s = WEFT_NO_MEMORY("a matrix exponential");
  } else if (n > 0) {
    memcpy(space, in[0], (size_t)(n * n) * sizeof *space);
    s = FN(exponential)(n, space, perm, out[0]);
  }
  weft_free(space);
  weft_free(perm);
  return s;
}

#if IS_COMPLEX

/* r = the square root of t; both upper triangular, r zero below. Source: Björck, Hammarling, "A Schur method
 * for the square root of a matrix", Linear Algebra Appl. 52 (1983). */
static void FN(triangular_root)(int64_t n, const SCALAR *t, SCALAR *r) {
  memset(r, 0, (size_t)(n * n) * sizeof *r);
  for (int64_t i = 0; i < n; i++) r[i * n + i] = sqrt(t[i * n + i]);
  for (int64_t j = 1; j < n; j++) {
    for (int64_t i = j - 1; i >= 0; i--) {
      SCALAR sum = 0;
      for (int64_t k = i + 1; k < j; k++) sum += r[i * n + k] * r[k * n + j];
      r[i * n + j] = (t[i * n + j] - sum) / (r[i * n + i] + r[j * n + j]);
    }
  }
}

/* out = u f u*, f upper triangular; work: a matrix. */
static weft_status_t *FN(from_schur)(int64_t n, const SCALAR *u, const SCALAR *f, SCALAR *work, SCALAR *out) {
  WEFT_RETURN_IF_ERROR(FN(multiply)(WEFT_GEMM_PLAIN, WEFT_GEMM_ADJOINT, n, n, n, f, u, work));
  return FN(multiply)(WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, n, n, n, u, work, out);
}

/* u f(t) u* with the Schur decomposition u t u*; f(n, t, scratch, result). */
static weft_status_t *FN(by_schur)(int64_t n, const SCALAR *a,
                                   void (*f)(int64_t, SCALAR *, SCALAR *, SCALAR *), SCALAR *out) {
  if (n == 0) return NULL;
  bool converged = true;
  SCALAR *t = weft_malloc((size_t)(4 * n * n) * sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("a function of a matrix");
  SCALAR *u = t + n * n, *r = u + n * n, *work = r + n * n;
  memcpy(t, a, (size_t)(n * n) * sizeof *t);
  weft_status_t *s = FN(weft_linalg_schur)(n, t, u, &converged);
  if (s == NULL) {
    f(n, t, work, r);
    s = FN(from_schur)(n, u, r, work, out);
  }
  weft_free(t);
  return s;
}

static void FN(root_of)(int64_t n, SCALAR *t, SCALAR *work, SCALAR *r) {
  (void)work;
  FN(triangular_root)(n, t, r);
}

static weft_status_t *FN(square_root_one)(const weft_linalg_call_t *c, const void *const *in,
                                          void *const *out) {
  return FN(by_schur)(c->in[0].rows, in[0], FN(root_of), out[0]);
}

/* ---- the logarithm: square roots until t is near to 1, then Padé approximants as partial fractions.
 * Source: Higham, "Evaluating Padé approximants of the matrix logarithm", SIAM J. Matrix Anal. Appl. 22
 * (2001). */

/* Nodes and weights of the Gauss-Legendre rule on [0, 1] of so many points. */
static const double FN(log_nodes)[][2] = {
    {0.0254460438286207377, 0.0647424830844348466}, {0.1292344072003027801, 0.1398526957446383340},
    {0.2970774243113014165, 0.1909150252525594725}, {0.5, 0.2089795918367346939},
    {0.7029225756886985835, 0.1909150252525594725}, {0.8707655927996972199, 0.1398526957446383340},
    {0.9745539561713792623, 0.0647424830844348466}};

static REAL FN(distance_from_one)(int64_t n, const SCALAR *t) {
  REAL norm = 0;
  for (int64_t j = 0; j < n; j++) {
    REAL sum = 0;
    for (int64_t i = 0; i <= j; i++) sum += ABS(t[i * n + j] - (i == j));
    if (!(sum <= norm)) norm = sum;
  }
  return norm;
}

static void FN(log_of)(int64_t n, SCALAR *t, SCALAR *work, SCALAR *r) {
  enum { MAX_ROOTS = 128 }; /* a singular matrix never comes near to 1 */
  const int64_t size = n * n;
  int roots = 0;
  REAL far = (REAL)0.2642960831111435;
  for (; roots < MAX_ROOTS && !(FN(distance_from_one)(n, t) < far); roots++) {
    FN(triangular_root)(n, t, r);
    memcpy(t, r, (size_t)size * sizeof *t);
  }
  memset(r, 0, (size_t)size * sizeof *r);
  /* work holds (1 + node (t - 1)), r the sum; each column of t - 1 is solved for in turn */
  for (int64_t i = 0; i < n; i++) t[i * n + i] -= 1;
  for (size_t k = 0; k < sizeof FN(log_nodes) / sizeof *FN(log_nodes); k++) {
    REAL node = (REAL)FN(log_nodes)[k][0], weight = (REAL)FN(log_nodes)[k][1];
    memcpy(work, t, (size_t)size * sizeof *work);
    for (int64_t i = n - 1; i >= 0; i--) { /* (1 + node t) x = t, x in work */
      for (int64_t j = i + 1; j < n; j++) {
        SCALAR f = node * t[i * n + j];
        for (int64_t col = j; col < n; col++) work[i * n + col] -= f * work[j * n + col];
      }
      SCALAR d = 1 + node * t[i * n + i];
      for (int64_t col = i; col < n; col++) work[i * n + col] /= d;
    }
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = i; j < n; j++) r[i * n + j] += weight * work[i * n + j];
    }
  }
  REAL scale = ldexp((REAL)1, roots);
  for (int64_t e = 0; e < size; e++) r[e] *= scale;
}

static weft_status_t *FN(logarithm_one)(const weft_linalg_call_t *c, const void *const *in,
                                        void *const *out) {
  return FN(by_schur)(c->in[0].rows, in[0], FN(log_of), out[0]);
}

#else

/* ---- the square root of a real matrix, which may have complex eigenvalues ---- */

/* The block of size 1 or 2 that begins at i. */
static int FN(block_at)(int64_t n, const SCALAR *t, int64_t i) {
  return i + 1 < n && t[(i + 1) * n + i] != 0 ? 2 : 1;
}

/* x (p x q, row by row) solves a x + x b = c, where a is p x p and b is q x q: as p q equations. */
static void FN(sylvester)(int p, int q, const SCALAR *a, const SCALAR *b, const SCALAR *c, SCALAR *x) {
  SCALAR m[16] = {0};
  int64_t perm[4];
  int sign, size = p * q;
  for (int i = 0; i < p; i++) {
    for (int j = 0; j < q; j++) {
      for (int k = 0; k < p; k++) m[(i * q + j) * size + k * q + j] += a[i * p + k];
      for (int k = 0; k < q; k++) m[(i * q + j) * size + i * q + k] += b[k * q + j];
    }
  }
  weft_status_free(FN(lu)(size, m, perm, &sign)); /* so small a one allocates nothing */
  FN(lu_solve)(size, 1, m, perm, c, x);
}

/* A block on the diagonal: of a real eigenvalue, or of a pair a +- i w: then r = s + (t - a) / (2 s), where s
 * is the real part of the root of a + i w. */
static void FN(root_block)(int64_t n, const SCALAR *t, int64_t i, SCALAR *r) {
  const SCALAR *at = t + i * n + i;
  if (FN(block_at)(n, t, i) == 1) {
    r[i * n + i] = sqrt(*at);
    return;
  }
  SCALAR a = (at[0] + at[n + 1]) / 2, half = (at[0] - at[n + 1]) / 2, w2 = -(half * half + at[1] * at[n]);
  SCALAR s = sqrt((a + hypot(a, sqrt(w2))) / 2);
  if (a < 0) s = sqrt(w2) / (2 * sqrt((hypot(a, sqrt(w2)) - a) / 2));
  r[i * n + i] = s + (at[0] - a) / (2 * s);
  r[i * n + i + 1] = at[1] / (2 * s);
  r[(i + 1) * n + i] = at[n] / (2 * s);
  r[(i + 1) * n + i + 1] = s + (at[n + 1] - a) / (2 * s);
}

static void FN(copy_block)(int64_t n, const SCALAR *t, int64_t i, int64_t j, int p, int q, SCALAR *out) {
  for (int k = 0; k < p; k++) {
    for (int l = 0; l < q; l++) out[k * q + l] = t[(i + k) * n + j + l];
  }
}

/* r = the square root of t, which is upper triangular but for 2x2 blocks. */
static void FN(quasi_triangular_root)(int64_t n, const SCALAR *t, SCALAR *r) {
  memset(r, 0, (size_t)(n * n) * sizeof *r);
  for (int64_t i = 0; i < n; i += FN(block_at)(n, t, i)) FN(root_block)(n, t, i, r);
  for (int64_t j = 0; j < n; j += FN(block_at)(n, t, j)) {
    int q = FN(block_at)(n, t, j);
    for (int64_t i = j - 1; i >= 0; i--) {
      int p = i > 0 && FN(block_at)(n, t, i - 1) == 2 ? 2 : 1;
      SCALAR a[4], b[4], c[4], x[4];
      i -= p - 1;
      FN(copy_block)(n, r, i, i, p, p, a);
      FN(copy_block)(n, r, j, j, q, q, b);
      FN(copy_block)(n, t, i, j, p, q, c);
      for (int k = 0; k < p; k++) {
        for (int l = 0; l < q; l++) {
          for (int64_t m = i + p; m < j; m++) c[k * q + l] -= r[(i + k) * n + m] * r[m * n + j + l];
        }
      }
      FN(sylvester)(p, q, a, b, c, x);
      for (int k = 0; k < p; k++) {
        for (int l = 0; l < q; l++) r[(i + k) * n + j + l] = x[k * q + l];
      }
    }
  }
}

static weft_status_t *FN(real_root)(int64_t n, const SCALAR *a, SCALAR *space, SCALAR *out) {
  SCALAR *t = space, *u = t + n * n, *r = u + n * n;
  bool converged = true;
  memcpy(t, a, (size_t)(n * n) * sizeof *t);
  WEFT_RETURN_IF_ERROR(FN(weft_linalg_schur)(n, t, u, &converged));
  FN(quasi_triangular_root)(n, t, r);
  WEFT_RETURN_IF_ERROR(FN(multiply)(WEFT_GEMM_PLAIN, WEFT_GEMM_TRANSPOSED, n, n, n, r, u, t));
  return FN(multiply)(WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, n, n, n, u, t, out);
}

static weft_status_t *FN(square_root_one)(const weft_linalg_call_t *c, const void *const *in,
                                          void *const *out) {
  int64_t n = c->in[0].rows;
  if (n == 0) return NULL;
  SCALAR *space = weft_malloc((size_t)(3 * n * n) * sizeof *space);
  if (space == NULL) return WEFT_NO_MEMORY("a matrix square root");
  weft_status_t *s = FN(real_root)(n, in[0], space, out[0]);
  weft_free(space);
  return s;
}

#endif
