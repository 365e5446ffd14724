/* kernels/cpu/batch_norm_one.tmpl.h - the loops of batch_norm.c for one element type of x. The tensor is
 * [outer, channels, inner]; sums are kept in double. */

/* sums[c] += x and, where `center` is given, squares[c] += (x - center)^2, over outer [begin, end). */
static void WEFT_CAT(norm_sums, SUFFIX)(const norm_job_t *j, int64_t begin, int64_t end, double *sums) {
  const ELEM *x = j->x;
  for (int64_t o = begin; o < end; o++) {
    for (int64_t c = 0; c < j->channels; c++) {
      const ELEM *p = x + (o * j->channels + c) * j->inner;
      const double center = j->center == NULL ? 0 : j->center[c];
      double sum = 0;
      if (j->center == NULL) {
        for (int64_t i = 0; i < j->inner; i++) sum += (double)LOAD(p[i]);
      } else {
        for (int64_t i = 0; i < j->inner; i++) sum += ((double)LOAD(p[i]) - center) * ((double)LOAD(p[i]) - center);
      }
      sums[c] += sum;
    }
  }
}

/* y = x * factor[c] + shift[c]. */
static void WEFT_CAT(norm_apply, SUFFIX)(const norm_job_t *j, int64_t begin, int64_t end) {
  const ELEM *x = j->x;
  ELEM *y = j->y;
  for (int64_t o = begin; o < end; o++) {
    if (j->inner == 1) {
      const ELEM *p = x + o * j->channels;
      ELEM *q = y + o * j->channels;
      for (int64_t c = 0; c < j->channels; c++) q[c] = STORE((LOAD(p[c]) - j->mean[c]) * j->factor[c] + j->shift[c]);
      continue;
    }
    for (int64_t c = 0; c < j->channels; c++) {
      const ELEM *p = x + (o * j->channels + c) * j->inner;
      ELEM *q = y + (o * j->channels + c) * j->inner;
      const float mean = j->mean[c], factor = j->factor[c], shift = j->shift[c];
      for (int64_t i = 0; i < j->inner; i++) q[i] = STORE((LOAD(p[i]) - mean) * factor + shift);
    }
  }
}

/* sums[c] += dy; sums[channels + c] += dy * (x - mean). */
static void WEFT_CAT(norm_grad_sums, SUFFIX)(const norm_job_t *j, int64_t begin, int64_t end, double *sums) {
  const ELEM *x = j->x, *dy = j->dy;
  for (int64_t o = begin; o < end; o++) {
    for (int64_t c = 0; c < j->channels; c++) {
      const int64_t base = (o * j->channels + c) * j->inner;
      const double mean = (double)j->mean[c];
      double plain = 0, weighted = 0;
      for (int64_t i = 0; i < j->inner; i++) {
        const double g = (double)LOAD(dy[base + i]);
        plain += g;
        weighted += g * ((double)LOAD(x[base + i]) - mean);
      }
      sums[c] += plain;
      sums[j->channels + c] += weighted;
    }
  }
}

/* dx = factor[c] * (dy - shift[c] - (x - mean[c]) * slope[c]). */
static void WEFT_CAT(norm_grad, SUFFIX)(const norm_job_t *j, int64_t begin, int64_t end) {
  const ELEM *x = j->x, *dy = j->dy;
  ELEM *dx = j->y;
  for (int64_t o = begin; o < end; o++) {
    for (int64_t c = 0; c < j->channels; c++) {
      const int64_t base = (o * j->channels + c) * j->inner;
      const float mean = j->mean[c], factor = j->factor[c], shift = j->shift[c], slope = j->slope[c];
      for (int64_t i = base; i < base + j->inner; i++) {
        dx[i] = STORE(factor * (LOAD(dy[i]) - shift - (LOAD(x[i]) - mean) * slope));
      }
    }
  }
}
