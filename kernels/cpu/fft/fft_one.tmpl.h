/* kernels/cpu/fft/fft_one.tmpl.h - see fft.h; for one precision: REAL, FFTW(name), FN(name). */

/* Plans are made for scratch arrays and used with others that are aligned as they are: FFTW has no vectors
 * for arrays of any alignment, and takes two to five times as long. ESTIMATE leaves the arrays alone, and
 * chooses by the lengths, so that a transform has the same bits each time. */
static bool FN(make_plans)(weft_fft_plans_t *p) {
  int n[3] = {1, 1, 1}, lead = 1;
  int64_t count = 1;
  for (int i = 0; i < p->rank; i++) {
    n[i] = (int)p->lengths[i];
    count *= p->lengths[i] + 2; /* more than either side has */
    if (i < p->rank - 1) lead *= n[i];
  }
  const int length = n[p->rank - 1], last = (int)weft_fft_used(p->kind, length);
  FFTW(complex) *in = weft_aligned_alloc(WEFT_FFT_ALIGNMENT, (size_t)count * sizeof *in),
                *out = weft_aligned_alloc(WEFT_FFT_ALIGNMENT, (size_t)count * sizeof *out);
  bool made = false;
  if (in != NULL && out != NULL) {
    weft_mutex_lock(&planner);
    switch (p->kind) {
      case WEFT_FFT_COMPLEX:
        p->plan[0] = FFTW(plan_dft)(p->rank, n, in, out, p->forward ? FFTW_FORWARD : FFTW_BACKWARD,
                                    FFTW_ESTIMATE | FFTW_PRESERVE_INPUT);
        break;
      case WEFT_FFT_FROM_REAL:
        p->plan[0] = FFTW(plan_dft_r2c)(p->rank, n, (REAL *)in, out, FFTW_ESTIMATE | FFTW_PRESERVE_INPUT);
        break;
      case WEFT_FFT_TO_REAL: /* all but the last dimension in place, then that one */
        if (p->rank > 1) {
          p->plan[0] = FFTW(plan_many_dft)(p->rank - 1, n, last, in, NULL, last, 1, in, NULL, last, 1,
                                           FFTW_BACKWARD, FFTW_ESTIMATE);
        }
        p->plan[1] = FFTW(plan_many_dft_c2r)(1, &n[p->rank - 1], lead, in, NULL, 1, last, (REAL *)out, NULL,
                                             1, length, FFTW_ESTIMATE);
        break;
    }
    weft_mutex_unlock(&planner);
    made = p->kind == WEFT_FFT_TO_REAL ? p->plan[1] != NULL && (p->rank == 1 || p->plan[0] != NULL)
                                       : p->plan[0] != NULL;
  }
  weft_free(in);
  weft_free(out);
  return made;
}

/* The first elements of each dimension; `parts` REALs an element. */
static void FN(crop)(const weft_fft_job_t *j, int64_t parts, const REAL *x, REAL *out) {
  const int rank = j->plans->rank;
  int64_t from[3] = {1, 1, 1}, used[3] = {1, 1, 1};
  for (int i = 0; i < rank; i++) {
    from[3 - rank + i] = j->from[i];
    used[3 - rank + i] = j->used[i];
  }
  for (int64_t a = 0; a < used[0]; a++) {
    for (int64_t b = 0; b < used[1]; b++) {
      memcpy(out + (a * used[1] + b) * used[2] * parts, x + (a * from[1] + b) * from[2] * parts,
             (size_t)(used[2] * parts) * sizeof *out);
    }
  }
}

/* Whether `p` is aligned as the arrays that plans are made for. */
static bool FN(is_aligned)(const REAL *p) { return FFTW(alignment_of)((REAL *)(uintptr_t)p) == 0; }

/* One transform, from `in`, which is overwritten if it is TO_REAL, to `out`. Both are aligned. */
static void FN(execute)(const weft_fft_plans_t *p, REAL *in, REAL *out) {
  FFTW(complex) *from = (FFTW(complex) *)(void *)in, *to = (FFTW(complex) *)(void *)out;
  if (p->kind == WEFT_FFT_COMPLEX) {
    FFTW(execute_dft)((FFTW(plan))p->plan[0], from, to);
  } else if (p->kind == WEFT_FFT_FROM_REAL) {
    FFTW(execute_dft_r2c)((FFTW(plan))p->plan[0], in, to);
  } else {
    if (p->rank > 1) FFTW(execute_dft)((FFTW(plan))p->plan[0], from, from);
    FFTW(execute_dft_c2r)((FFTW(plan))p->plan[1], from, out);
  }
}

void FN(weft_fft_run)(void *job, int64_t begin, int64_t end) {
  weft_fft_job_t *j = job;
  const weft_fft_plans_t *p = j->plans;
  const int64_t in_parts = p->kind == WEFT_FFT_FROM_REAL ? 1 : 2,
                out_parts = p->kind == WEFT_FFT_TO_REAL ? 1 : 2, in_count = j->from_count * in_parts,
                out_count = j->to_count * out_parts;
  const bool takes_all = p->kind != WEFT_FFT_TO_REAL && j->used_count == j->from_count;
  double size = 1;
  for (int i = 0; i < p->rank; i++) size *= (double)p->lengths[i];
  const REAL scale = (REAL)(1 / size);
  REAL *in = weft_aligned_alloc(WEFT_FFT_ALIGNMENT, (size_t)(j->used_count * in_parts) * sizeof *in),
       *out = weft_aligned_alloc(WEFT_FFT_ALIGNMENT, (size_t)out_count * sizeof *out);
  if (in == NULL || out == NULL) atomic_store(&j->failed, true);
  for (int64_t i = begin; i < end && in != NULL && out != NULL; i++) {
    const REAL *x = (const REAL *)j->x + i * in_count;
    REAL *y = (REAL *)j->y + i * out_count, *to = FN(is_aligned)(y) ? y : out;
    if (takes_all && FN(is_aligned)(x)) {
      FN(execute)(p, (REAL *)(uintptr_t)x, to); /* which is only read */
    } else {
      FN(crop)(j, in_parts, x, in);
      FN(execute)(p, in, to);
    }
    if (p->forward) {
      if (to != y) memcpy(y, to, (size_t)out_count * sizeof *y);
    } else {
      WEFT_IVDEP
      for (int64_t e = 0; e < out_count; e++) y[e] = to[e] * scale;
    }
  }
  weft_free(in);
  weft_free(out);
}
