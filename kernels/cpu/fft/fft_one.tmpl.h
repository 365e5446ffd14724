/* kernels/cpu/fft/fft_one.tmpl.h - see fft.h; for one precision: REAL, FFTW(name), FN(name). */

/* Plans are made for scratch arrays and used with others: they must not count on an alignment. ESTIMATE
 * leaves the arrays alone, so that there need be none. */
#define PLAN_FLAGS (FFTW_ESTIMATE | FFTW_UNALIGNED)

bool FN(weft_fft_plan)(weft_fft_job_t *j) {
  int n[3], lead = 1, last = (int)j->used[j->rank - 1];
  for (int i = 0; i < j->rank; i++) n[i] = (int)j->lengths[i];
  for (int i = 0; i < j->rank - 1; i++) lead *= n[i];
  size_t count = (size_t)(j->used_count > j->to_count ? j->used_count : j->to_count);
  FFTW(complex) *in = FFTW(alloc_complex)(count), *out = FFTW(alloc_complex)(count);
  if (in != NULL && out != NULL) {
    (void)pthread_mutex_lock(&planner);
    switch (j->kind) {
      case WEFT_FFT_COMPLEX:
        j->plan[0] =
            FFTW(plan_dft)(j->rank, n, in, out, j->forward ? FFTW_FORWARD : FFTW_BACKWARD, PLAN_FLAGS);
        break;
      case WEFT_FFT_FROM_REAL:
        j->plan[0] = FFTW(plan_dft_r2c)(j->rank, n, (REAL *)in, out, PLAN_FLAGS);
        break;
      case WEFT_FFT_TO_REAL: /* all but the last dimension in place, then that one */
        if (j->rank > 1) {
          j->plan[0] = FFTW(plan_many_dft)(j->rank - 1, n, last, in, NULL, last, 1, in, NULL, last, 1,
                                           FFTW_BACKWARD, PLAN_FLAGS);
        }
        j->plan[1] = FFTW(plan_many_dft_c2r)(1, &n[j->rank - 1], lead, in, NULL, 1, last, (REAL *)out, NULL,
                                             1, n[j->rank - 1], PLAN_FLAGS);
        break;
    }
    (void)pthread_mutex_unlock(&planner);
  }
  FFTW(free)(in);
  FFTW(free)(out);
  return j->kind == WEFT_FFT_TO_REAL ? j->plan[1] != NULL && (j->rank == 1 || j->plan[0] != NULL)
                                     : j->plan[0] != NULL;
}

void FN(weft_fft_unplan)(weft_fft_job_t *j) {
  (void)pthread_mutex_lock(&planner);
  for (int i = 0; i < 2; i++) {
    if (j->plan[i] != NULL) FFTW(destroy_plan)((FFTW(plan))j->plan[i]);
  }
  (void)pthread_mutex_unlock(&planner);
}

/* The first elements of each dimension; `parts` REALs an element. */
static void FN(crop)(const weft_fft_job_t *j, int64_t parts, const REAL *x, REAL *out) {
  int64_t from[3] = {1, 1, 1}, used[3] = {1, 1, 1};
  for (int i = 0; i < j->rank; i++) {
    from[3 - j->rank + i] = j->from[i];
    used[3 - j->rank + i] = j->used[i];
  }
  for (int64_t a = 0; a < used[0]; a++) {
    for (int64_t b = 0; b < used[1]; b++) {
      memcpy(out + (a * used[1] + b) * used[2] * parts, x + (a * from[1] + b) * from[2] * parts,
             (size_t)(used[2] * parts) * sizeof *out);
    }
  }
}

void FN(weft_fft_run)(void *job, int64_t begin, int64_t end) {
  weft_fft_job_t *j = job;
  int64_t in_parts = j->kind == WEFT_FFT_FROM_REAL ? 1 : 2, out_parts = j->kind == WEFT_FFT_TO_REAL ? 1 : 2;
  double size = 1;
  for (int i = 0; i < j->rank; i++) size *= (double)j->lengths[i];
  REAL *scratch = weft_malloc((size_t)(j->used_count * in_parts) * sizeof *scratch), scale = (REAL)(1 / size);
  if (scratch == NULL) {
    __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED); /* read after the threads have joined */
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    REAL *y = (REAL *)j->y + i * j->to_count * out_parts;
    FN(crop)(j, in_parts, (const REAL *)j->x + i * j->from_count * in_parts, scratch);
    FFTW(complex) *in = (FFTW(complex) *)(void *)scratch, *out = (FFTW(complex) *)(void *)y;
    if (j->kind == WEFT_FFT_COMPLEX) {
      FFTW(execute_dft)((FFTW(plan))j->plan[0], in, out);
    } else if (j->kind == WEFT_FFT_FROM_REAL) {
      FFTW(execute_dft_r2c)((FFTW(plan))j->plan[0], scratch, out);
    } else {
      if (j->rank > 1) FFTW(execute_dft)((FFTW(plan))j->plan[0], in, in);
      FFTW(execute_dft_c2r)((FFTW(plan))j->plan[1], in, y);
    }
    for (int64_t e = 0; e < j->to_count * out_parts && !j->forward; e++) y[e] *= scale;
  }
  weft_free(scratch);
}
#undef PLAN_FLAGS
