/* kernels/cpu/linalg/tridiagonal.tmpl.h - for one scalar type. A matrix is given by its superdiagonal, whose
 * last element is not read, its diagonal, and its subdiagonal, whose first element is not read.
 */

/* superdiagonal, diagonal, subdiagonal, matrix. */
static weft_status_t *FN(tridiagonal_product_one)(const weft_linalg_call_t *c, const void *const *in,
                                                  void *const *out) {
  const SCALAR *super = in[0], *diag = in[1], *sub = in[2], *b = in[3];
  SCALAR *y = out[0];
  int64_t m = c->in[3].rows, n = c->in[3].cols;
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      SCALAR sum = b[i * n + j] * diag[i];
      if (i > 0) sum += b[(i - 1) * n + j] * sub[i];
      if (i < m - 1) sum += b[(i + 1) * n + j] * super[i];
      y[i * n + j] = sum;
    }
  }
  return NULL;
}

/* Equations as they are solved. u: the diagonal and the two above it, after elimination, n rows of 3. */
typedef struct FN(tridiagonal) {
  int64_t n, m;
  const SCALAR *super, *diag, *sub, *b;
  SCALAR *u, *x;
} FN(tridiagonal_t);

/* TensorFlow's NaN of a complex type is 0. */
static void FN(not_invertible)(const FN(tridiagonal_t) * t) {
  for (int64_t i = 0; i < t->n * t->m; i++) t->x[i] = IS_COMPLEX ? 0 : MAKE(NAN, 0);
}

/* row = a - f b, elementwise; row may be a or b. */
static void FN(minus)(int64_t m, SCALAR *row, const SCALAR *a, SCALAR f, const SCALAR *b) {
  for (int64_t j = 0; j < m; j++) row[j] = a[j] - f * b[j];
}

/* Without pivoting: Thomas' algorithm. */
static void FN(thomas)(FN(tridiagonal_t) * t) {
  SCALAR *u = t->u, *x = t->x;
  int64_t m = t->m;
  for (int64_t i = 0; i < t->n; i++) {
    SCALAR denom = i == 0 ? t->diag[0] : t->diag[i] - t->sub[i] * u[i - 1];
    if (denom == 0) {
      FN(not_invertible)(t);
      return;
    }
    u[i] = t->super[i] / denom;
    for (int64_t j = 0; j < m; j++) {
      SCALAR rest = i == 0 ? t->b[j] : t->b[i * m + j] - t->sub[i] * x[(i - 1) * m + j];
      x[i * m + j] = rest / denom;
    }
  }
  for (int64_t i = t->n - 2; i >= 0; i--) FN(minus)(m, x + i * m, x + i * m, u[i], x + (i + 1) * m);
}

/* Row i is eliminated from row i + 1, or the other way round if `swaps`. */
static void FN(eliminate)(FN(tridiagonal_t) * t, int64_t i, bool swaps) {
  SCALAR *u = t->u + 3 * i, *next = u + 3, *x = t->x + i * t->m, sub = t->sub[i + 1], diag = t->diag[i + 1];
  const SCALAR *b = t->b + (i + 1) * t->m;
  bool is_last = i == t->n - 2;
  if (!swaps) {
    SCALAR f = sub / u[0];
    next[0] = diag - f * u[1];
    FN(minus)(t->m, x + t->m, b, f, x);
    next[1] = is_last ? 0 : t->super[i + 1];
    u[2] = 0;
    return;
  }
  SCALAR f = u[0] / sub;
  u[0] = sub;
  next[0] = u[1] - f * diag;
  u[1] = diag;
  FN(minus)(t->m, x + t->m, x, f, b);
  memcpy(x, b, (size_t)t->m * sizeof *x);
  u[2] = is_last ? 0 : t->super[i + 1];
  next[1] = is_last ? 0 : -f * t->super[i + 1];
}

/* x[row] minus what the rows below give. */
static void FN(substitute)(const FN(tridiagonal_t) * t, int64_t row) {
  SCALAR *x = t->x + row * t->m;
  if (row < t->n - 1) FN(minus)(t->m, x, x, t->u[3 * row + 1], x + t->m);
  if (row < t->n - 2) FN(minus)(t->m, x, x, t->u[3 * row + 2], x + 2 * t->m);
}

/* As LAPACK's gtsv. */
static void FN(pivoting)(FN(tridiagonal_t) * t) {
  SCALAR *u = t->u;
  for (int64_t i = 0; i < t->n - 1; i++) {
    bool swaps = !(ABS(u[3 * i]) >= ABS(t->sub[i + 1]));
    if (!swaps && u[3 * i] == 0) {
      FN(not_invertible)(t);
      return;
    }
    FN(eliminate)(t, i, swaps);
  }
  if (u[3 * (t->n - 1)] == 0) {
    FN(not_invertible)(t);
    return;
  }
  for (int64_t i = t->n - 1; i >= 0; i--) {
    FN(substitute)(t, i);
    for (int64_t j = 0; j < t->m; j++) t->x[i * t->m + j] /= u[3 * i];
  }
}

/* A pivot so small that the row divided by it overflows is made larger, or both are scaled. As LAPACK's
 * lagts. */
static void FN(perturb)(REAL by, SCALAR *pivot, int64_t m, SCALAR *row) {
  const REAL safe = REAL_MIN, big = 1 / safe;
  REAL size = ABS(*pivot), most = 0;
  if (size >= 1) return;
  by = fabs(by) > safe ? fabs(by) : safe;
  by = copysign(by, RE(*pivot));
  for (int64_t j = 0; j < m; j++) most = ABS(row[j]) > most ? ABS(row[j]) : most;
  for (bool stop = false; size < 1 && !stop; size = ABS(*pivot)) {
    bool is_tiny = size < safe;
    if (is_tiny ? size == 0 || most * safe > size : most > size * big) {
      *pivot += by;
      by *= 2;
    } else {
      for (int64_t j = 0; is_tiny && j < m; j++) row[j] *= big;
      if (is_tiny) *pivot *= big;
      stop = true;
    }
  }
}

static REAL FN(most_of)(REAL most, const SCALAR *u) {
  for (int k = 0; k < 3; k++) most = ABS(u[k]) > most ? ABS(u[k]) : most;
  return most;
}

/* As LAPACK's lagtf and lagts: singular matrices have a solution, a large one. */
static void FN(perturbing)(FN(tridiagonal_t) * t) {
  SCALAR *u = t->u;
  int64_t n = t->n;
  REAL most = n == 1                  ? ABS(u[0])
              : ABS(u[0]) > ABS(u[1]) ? ABS(u[0])
                                      : ABS(u[1]),
       scale = ABS(u[0]) + ABS(u[1]);
  for (int64_t i = 0; i < n - 1; i++) {
    REAL next = ABS(t->sub[i + 1]) + ABS(t->diag[i + 1]);
    if (i < n - 2) next += ABS(t->super[i + 1]);
    bool is_zero = t->sub[i + 1] == 0;
    REAL mine = u[3 * i] == 0 ? 0 : ABS(u[3 * i]) / scale, other = ABS(t->sub[i + 1]) / next;
    bool swaps = !is_zero && !(other <= mine);
    if (is_zero) {
      memcpy(t->x + (i + 1) * t->m, t->b + (i + 1) * t->m, (size_t)t->m * sizeof *t->x);
      u[3 * i + 3] = t->diag[i + 1];
      u[3 * i + 4] = i < n - 2 ? t->super[i + 1] : 0;
      u[3 * i + 2] = 0;
    } else {
      FN(eliminate)(t, i, swaps);
    }
    if (!swaps) scale = next;
    if (i < n - 2) most = FN(most_of)(most, u + 3 * i);
  }
  if (ABS(u[3 * (n - 1)]) > most) most = ABS(u[3 * (n - 1)]);
  for (int64_t i = n - 1; i >= 0; i--) {
    SCALAR pivot = u[3 * i], *x = t->x + i * t->m;
    FN(substitute)(t, i);
    FN(perturb)(REAL_EPS * most, &pivot, t->m, x);
    for (int64_t j = 0; j < t->m; j++) x[j] *= 1 / pivot;
  }
}

/* diagonals [3, n], right-hand sides [n, m]. */
static weft_status_t *FN(tridiagonal_solve_one)(const weft_linalg_call_t *c, const void *const *in,
                                                void *const *out) {
  int64_t n = c->in[0].cols, m = c->in[1].cols;
  const SCALAR *diagonals = in[0];
  const weft_linalg_flags_t *f = c->flags;
  if (n == 0 || m == 0) return NULL;
  FN(tridiagonal_t)
  t = {.n = n,
       .m = m,
       .super = diagonals,
       .diag = diagonals + n,
       .sub = diagonals + 2 * n,
       .b = in[1],
       .u = weft_calloc((size_t)(3 * n), sizeof(SCALAR)),
       .x = out[0]};
  if (t.u == NULL) return WEFT_NO_MEMORY("tridiagonal equations");
  t.u[0] = t.diag[0];
  t.u[1] = n > 1 ? t.super[0] : 0;
  memcpy(t.x, t.b, (size_t)m * sizeof *t.x);
  if (f->partial_pivoting && f->perturb_singular) {
    FN(perturbing)(&t);
  } else if (f->partial_pivoting) {
    FN(pivoting)(&t);
  } else {
    FN(thomas)(&t);
  }
  weft_free(t.u);
  return NULL;
}
