/* kernels/cpu/linalg/factor.tmpl.h - factorisations of one matrix, for one scalar type. */

/* A matrix that is not positive definite gives NaN, not an error; TensorFlow's NaN of a complex type is 0. */
static weft_status_t *FN(cholesky_one)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  const SCALAR *a = in[0];
  SCALAR *l = out[0];
  int64_t n = c->in[0].rows;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) l[i * n + j] = j <= i ? a[i * n + j] : 0;
  }
  if (FN(cholesky)(n, l)) return NULL;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j <= i; j++) l[i * n + j] = IS_COMPLEX ? 0 : MAKE(NAN, 0);
  }
  return NULL;
}

/* Of the gradient of L, in the lower triangle of g, that of the matrix. Source: Murray, "Differentiation of
 * the Cholesky decomposition", arXiv 1602.07527, the unblocked form. */
static weft_status_t *FN(cholesky_grad_one)(const weft_linalg_call_t *c, const void *const *in,
                                            void *const *out) {
  const SCALAR *l = in[0], *grad = in[1];
  SCALAR *g = out[0];
  int64_t n = c->in[0].rows;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) g[i * n + j] = j <= i ? grad[i * n + j] : 0;
  }
  for (int64_t k = n - 1; k >= 0; k--) {
    SCALAR d = l[k * n + k], sum = 0;
    for (int64_t i = k + 1; i < n; i++) sum += CONJ(l[i * n + k]) * g[i * n + k];
    g[k * n + k] -= sum / d;
    for (int64_t i = k; i < n; i++) g[i * n + k] /= d;
    for (int64_t i = k; i < n; i++) {
      SCALAR f = CONJ(g[i * n + k]);
      for (int64_t j = 0; j < k; j++) g[k * n + j] -= f * l[i * n + j];
    }
    for (int64_t i = k + 1; i < n; i++) {
      SCALAR f = g[i * n + k];
      for (int64_t j = 0; j < k; j++) g[i * n + j] -= f * l[k * n + j];
    }
    g[k * n + k] /= 2;
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j <= i; j++) g[i * n + j] = g[j * n + i] = (g[i * n + j] + g[j * n + i]) / 2;
  }
  return NULL;
}

static weft_status_t *FN(lu_one)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  int64_t n = c->in[0].rows;
  if (n == 0) return NULL;
  int sign = 1;
  int64_t *perm = weft_malloc((size_t)n * sizeof *perm);
  if (perm == NULL) return WEFT_NO_MEMORY("an LU decomposition");
  memcpy(out[0], in[0], (size_t)(n * n) * sizeof(SCALAR));
  weft_status_t *s = FN(lu)(n, out[0], perm, &sign);
  bool is_wide = weft_dtype_base(c->ctx->node->output_types[1]) == WEFT_I64;
  for (int64_t i = 0; i < n; i++) {
    if (is_wide) {
      ((int64_t *)out[1])[i] = perm[i];
    } else {
      ((int32_t *)out[1])[i] = (int32_t)perm[i];
    }
  }
  weft_free(perm);
  if (s == NULL && !FN(has_pivots)(n, out[0]))
    return WEFT_ERROR(INVALID_ARGUMENT, "Input is not invertible.");
  return s;
}

static weft_status_t *FN(qr_one)(const weft_linalg_call_t *c, const void *const *in, void *const *out) {
  int64_t m = c->in[0].rows, n = c->in[0].cols, least = m < n ? m : n, inner = c->out[0].cols;
  SCALAR *q = out[0], *r = out[1];
  SCALAR *a = weft_malloc((size_t)(m * n + least + (n > inner ? n : inner) + 1) * sizeof *a);
  if (a == NULL) return WEFT_NO_MEMORY("a QR decomposition");
  SCALAR *tau = a + m * n, *work = tau + least;
  memcpy(a, in[0], (size_t)(m * n) * sizeof *a);
  FN(qr)(m, n, a, tau, work);
  for (int64_t i = 0; i < inner; i++) {
    for (int64_t j = 0; j < n; j++) r[i * n + j] = j >= i ? a[i * n + j] : 0;
  }
  FN(set_identity)(m, inner, q);
  FN(apply_q)(m, n, least, a, tau, inner, q, work);
  weft_free(a);
  return NULL;
}
