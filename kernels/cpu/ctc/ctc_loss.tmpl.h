/* kernels/cpu/ctc/ctc_loss.tmpl.h - loss and gradient of one sequence, in one type.
 *
 * Parameters, undefined below: CTC_REAL; CTC_STEM, functions are STEM_sequence ...; CTC_F(name), the C
 * library's function for REAL; CTC_LOG_SUM. Source: Graves, "Supervised sequence labelling with recurrent
 * neural networks" (2012), section 7.3, whose equations are named.
 *
 * Variables of path position u at time t lie at t * num_path + u.
 */
#define NAME(x) WEFT_CAT(CTC_STEM, x)
#define REAL CTC_REAL

/* y[t * num_classes + k]: the probability of class k at time t. */
static void NAME(softmax)(const ctc_sequence_t *s, REAL *y) {
  for (int64_t t = 0; t < s->length; t++, y += s->num_classes) {
    const REAL *x = (const REAL *)s->inputs + t * s->step;
    REAL max = x[0], sum = 0;
    for (int64_t k = 1; k < s->num_classes; k++) max = x[k] > max ? x[k] : max;
    for (int64_t k = 0; k < s->num_classes; k++) sum += y[k] = CTC_F(exp)(x[k] - max);
    for (int64_t k = 0; k < s->num_classes; k++) y[k] /= sum;
  }
}

/* Path positions that can be reached at time t and from which the end can be. */
static inline int64_t NAME(first)(const ctc_sequence_t *s, int64_t t) {
  const int64_t u = s->num_path - 2 * (s->length - t);
  return u < 0 ? 0 : u;
}
static inline int64_t NAME(limit)(const ctc_sequence_t *s, int64_t t) {
  return 2 * (t + 1) < s->num_path ? 2 * (t + 1) : s->num_path;
}

/* Equations 7.5 to 7.9. */
static void NAME(alphas)(const ctc_sequence_t *s, const REAL *y, REAL *alpha) {
  const int64_t n = s->num_path, blank = s->num_classes - 1;
  for (int64_t i = 0; i < n * s->length; i++) alpha[i] = -(REAL)HUGE_VAL;
  alpha[0] = CTC_F(log)(y[blank]);
  if (n > 1) alpha[1] = CTC_F(log)(y[s->path[1]]);
  for (int64_t t = 1; t < s->length; t++) {
    const REAL *before = alpha + (t - 1) * n;
    for (int64_t u = NAME(first)(s, t); u < NAME(limit)(s, t); u++) {
      const bool is_blank = s->path[u] == blank;
      REAL sum = s->merges || is_blank ? before[u] : -(REAL)HUGE_VAL;
      if (u > 0) sum = CTC_LOG_SUM(sum, before[u - 1]);
      if (u > 1 && !is_blank && !(s->merges && s->path[u] == s->path[u - 2]))
        sum = CTC_LOG_SUM(sum, before[u - 2]);
      alpha[t * n + u] = CTC_F(log)(y[t * s->num_classes + s->path[u]]) + sum;
    }
  }
}

/* Equations 7.13 to 7.15. A path of blanks alone has one position, and the second one from the end is then
 * the only one of the step before: TensorFlow sets it. */
static void NAME(betas)(const ctc_sequence_t *s, const REAL *y, REAL *beta) {
  const int64_t n = s->num_path, blank = s->num_classes - 1, last = s->length * n - 1;
  for (int64_t i = 0; i <= last; i++) beta[i] = -(REAL)HUGE_VAL;
  beta[last] = 0;
  if (last > 0) beta[last - 1] = 0;
  for (int64_t t = s->length - 2; t >= 0; t--) {
    const REAL *after = beta + (t + 1) * n, *next = y + (t + 1) * s->num_classes;
    for (int64_t u = NAME(first)(s, t); u < NAME(limit)(s, t); u++) {
      const bool is_blank = s->path[u] == blank;
      REAL *b = &beta[t * n + u];
      if (s->merges || is_blank) *b = CTC_LOG_SUM(*b, after[u] + CTC_F(log)(next[s->path[u]]));
      if (u + 1 < n) *b = CTC_LOG_SUM(*b, after[u + 1] + CTC_F(log)(next[s->path[u + 1]]));
      if (u + 2 < n && !is_blank && !(s->merges && s->path[u] == s->path[u + 2]))
        *b = CTC_LOG_SUM(*b, after[u + 2] + CTC_F(log)(next[s->path[u + 2]]));
    }
  }
}

/* Equations 7.26 and 7.34. `sums` has room for each class. */
static void NAME(gradient)(const ctc_sequence_t *s, const REAL *y, const REAL *alpha, const REAL *beta,
                           REAL log_p, REAL *sums) {
  for (int64_t t = 0; t < s->length; t++, y += s->num_classes) {
    REAL *dy = (REAL *)s->gradient + t * s->step;
    if (log_p == -(REAL)HUGE_VAL) { /* no path has any probability */
      memcpy(dy, y, (size_t)s->num_classes * sizeof *dy);
      continue;
    }
    for (int64_t k = 0; k < s->num_classes; k++) sums[k] = -(REAL)HUGE_VAL;
    for (int64_t u = 0; u < s->num_path; u++) {
      const int64_t at = t * s->num_path + u;
      sums[s->path[u]] = CTC_LOG_SUM(sums[s->path[u]], alpha[at] + beta[at]);
    }
    for (int64_t k = 0; k < s->num_classes; k++) dy[k] = y[k] - (REAL)expf((float)(sums[k] - log_p));
  }
}

static weft_status_t *NAME(sequence)(const ctc_sequence_t *s) {
  int64_t states = 0, all = 0;
  REAL *y = NULL;
  if (weft_cpu_mul(s->length, s->num_path, &states) && weft_cpu_mul(s->length + 1, s->num_classes, &all) &&
      states < INT64_MAX / 4 && all < INT64_MAX / 4)
    y = weft_calloc((size_t)(all + 2 * states), sizeof *y);
  if (y == NULL) return WEFT_NO_MEMORY("paths of %" PRId64 " labels", s->num_path);
  REAL *alpha = y + all, *beta = alpha + states, log_p = -(REAL)HUGE_VAL;
  NAME(softmax)(s, y);
  NAME(alphas)(s, y, alpha);
  NAME(betas)(s, y, beta);
  for (int64_t u = 0; u < s->num_path; u++) log_p = CTC_LOG_SUM(log_p, alpha[u] + beta[u]);
  *(REAL *)s->loss = -log_p;
  NAME(gradient)(s, y, alpha, beta, log_p, y + s->length * s->num_classes);
  weft_free(y);
  return NULL;
}

#undef NAME
#undef REAL
#undef CTC_REAL
#undef CTC_STEM
#undef CTC_F
#undef CTC_LOG_SUM
