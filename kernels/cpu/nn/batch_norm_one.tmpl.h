/* kernels/cpu/nn/batch_norm_one.tmpl.h - the loops of batch_norm.c for one element type of x. The tensor is
 * [outer, channels, inner]: with inner 1 the channels of a pixel lie side by side and loops run over
 * channels, else they run over the plane of a channel, with eight sums at once, so that one addition need not
 * wait for the last. Sums are kept in double.
 */

/* Channels side by side: sums[c] = sum of x, sums[channels + c] = sum of (x - mean)^2, over outer [o, o_end),
 * in one pass: mean and squares of a block of pixels, which stays in the cache, are joined with those of the
 * blocks before it. Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
 * Sample Variances" (1979). */
static void WEFT_CAT(norm_moments, SUFFIX)(const norm_job_t *j, int64_t o, int64_t o_end,
                                           double *restrict sums) {
  const int64_t C = j->channels, begin = o;
  double *restrict squares = sums + C;
  for (; o < o_end; o += NORM_ROWS) {
    const int64_t rows = o_end - o < NORM_ROWS ? o_end - o : NORM_ROWS;
    fetch((const ELEM *)j->x + (o + rows) * C, (o_end - o - rows) * C, sizeof(ELEM), C);
    const double before = (double)(o - begin), n = (double)rows, weight = before * n / (before + n);
    for (int64_t c = 0; c < C; c += NORM_WIDTH) {
      const ELEM *restrict x = (const ELEM *)j->x + o * C + c;
      const int width = C - c < NORM_WIDTH ? (int)(C - c) : NORM_WIDTH;
      double sum[NORM_WIDTH] = {0}, square[NORM_WIDTH] = {0}, mean[NORM_WIDTH];
      if (width == NORM_WIDTH) { /* a constant, so that the sums stay in registers */
        for (int64_t r = 0; r < rows; r++) {
          for (int k = 0; k < NORM_WIDTH; k++) sum[k] += (double)LOAD(x[r * C + k]);
        }
        for (int k = 0; k < NORM_WIDTH; k++) mean[k] = sum[k] / n;
        for (int64_t r = 0; r < rows; r++) {
          for (int k = 0; k < NORM_WIDTH; k++) {
            const double d = (double)LOAD(x[r * C + k]) - mean[k];
            square[k] += d * d;
          }
        }
      } else {
        for (int64_t r = 0; r < rows; r++) {
          for (int k = 0; k < width; k++) sum[k] += (double)LOAD(x[r * C + k]);
        }
        for (int k = 0; k < width; k++) mean[k] = sum[k] / n;
        for (int64_t r = 0; r < rows; r++) {
          for (int k = 0; k < width; k++) {
            const double d = (double)LOAD(x[r * C + k]) - mean[k];
            square[k] += d * d;
          }
        }
      }
      for (int k = 0; k < width; k++) {
        const double apart = before == 0 ? 0 : mean[k] - sums[c + k] / before;
        squares[c + k] += square[k] + apart * apart * weight;
        sums[c + k] += sum[k];
      }
    }
  }
}

/* Planes: sums[c] += x or, where `center` is given, (x - center)^2, over outer [o, o_end) and channels [c,
 * c_end). */
static void WEFT_CAT(norm_sums, SUFFIX)(const norm_job_t *j, int64_t o, int64_t o_end, int64_t c,
                                        int64_t c_end, double *restrict sums) {
  const int64_t C = j->channels, I = j->inner;
  const double *restrict center = j->center;
  for (; o < o_end; o++) {
    const ELEM *restrict x = (const ELEM *)j->x + o * C * I;
    for (int64_t at = c; at < c_end; at++) {
      const ELEM *restrict p = x + at * I;
      const double mean = center == NULL ? 0 : center[at];
      double lane[8] = {0};
      int64_t i = 0;
      if (center == NULL) {
        for (; i + 8 <= I; i += 8) {
          for (int k = 0; k < 8; k++) lane[k] += (double)LOAD(p[i + k]);
        }
        for (; i < I; i++) lane[0] += (double)LOAD(p[i]);
      } else {
        for (; i + 8 <= I; i += 8) {
          for (int k = 0; k < 8; k++) {
            const double d = (double)LOAD(p[i + k]) - mean;
            lane[k] += d * d;
          }
        }
        for (; i < I; i++) lane[0] += ((double)LOAD(p[i]) - mean) * ((double)LOAD(p[i]) - mean);
      }
      for (int k = 0; k < 8; k++) sums[at] += lane[k];
    }
  }
}

/* y = (x - mean[c]) * factor[c] + shift[c], for units [u, end): rows of channels, or planes. */
static void WEFT_CAT(norm_apply, SUFFIX)(const norm_job_t *j, int64_t u, int64_t end) {
  const int64_t C = j->channels, I = j->inner;
  const float *restrict means = j->mean, *restrict factors = j->factor, *restrict shifts = j->shift;
  for (; u < end; u++) {
    if (I == 1) {
      const ELEM *restrict p = (const ELEM *)j->x + u * C;
      ELEM *restrict q = (ELEM *)j->y + u * C;
      for (int64_t c = 0; c < C; c++) q[c] = STORE((LOAD(p[c]) - means[c]) * factors[c] + shifts[c]);
    } else {
      const ELEM *restrict p = (const ELEM *)j->x + u * I;
      ELEM *restrict q = (ELEM *)j->y + u * I;
      const float mean = means[u % C], factor = factors[u % C], shift = shifts[u % C];
      for (int64_t i = 0; i < I; i++) q[i] = STORE((LOAD(p[i]) - mean) * factor + shift);
    }
  }
}

static inline void WEFT_CAT(norm_load, SUFFIX)(const ELEM *x, norm_vector_t *out) {
  float v[NORM_WIDTH];
  for (int k = 0; k < NORM_WIDTH; k++) v[k] = LOAD(x[k]);
  memcpy(out, v, sizeof *out);
}

/* sums[c] += dy; sums[channels + c] += dy * (x - mean). Ranges as above. Of a few pixels the sums are float.
 */
static void WEFT_CAT(norm_grad_sums, SUFFIX)(const norm_job_t *j, int64_t o, int64_t o_end, int64_t c,
                                             int64_t c_end, double *restrict sums) {
  const int64_t C = j->channels, I = j->inner;
  const float *restrict means = j->mean;
  double *restrict products = sums + C;
  for (; I == 1 && o < o_end;
       o += NORM_ROWS) { /* blocks of pixels and channels: the sums stay in registers */
    const int64_t rows = o_end - o < NORM_ROWS ? o_end - o : NORM_ROWS;
    fetch((const ELEM *)j->x + (o + rows) * C, (o_end - o - rows) * C, sizeof(ELEM), C);
    fetch((const ELEM *)j->dy + (o + rows) * C, (o_end - o - rows) * C, sizeof(ELEM), C);
    for (int64_t at = c; at < c_end; at += NORM_WIDTH) {
      const ELEM *restrict x = (const ELEM *)j->x + o * C + at, *restrict dy =
                                                                    (const ELEM *)j->dy + o * C + at;
      const int width = c_end - at < NORM_WIDTH ? (int)(c_end - at) : NORM_WIDTH;
      double plain[NORM_WIDTH] = {0}, product[NORM_WIDTH] = {0}, mean[NORM_WIDTH] = {0};
      for (int k = 0; k < width; k++) mean[k] = (double)means[at + k];
      if (width == NORM_WIDTH) {
        norm_vector_t center;
        memcpy(&center, means + at, sizeof center);
        for (int64_t r = 0; r < rows;) {
          const int64_t end = r + NORM_SHORT < rows ? r + NORM_SHORT : rows;
          norm_vector_t few = {0}, products_of_few = {0};
          for (; r < end; r++) {
            norm_vector_t g, v;
            WEFT_CAT(norm_load, SUFFIX)(dy + r * C, &g);
            WEFT_CAT(norm_load, SUFFIX)(x + r * C, &v);
            few += g;
            products_of_few += g * (v - center);
          }
          for (int k = 0; k < NORM_WIDTH; k++) {
            plain[k] += (double)few[k];
            product[k] += (double)products_of_few[k];
          }
        }
      } else {
        for (int64_t r = 0; r < rows; r++) {
          for (int k = 0; k < width; k++) {
            const double g = (double)LOAD(dy[r * C + k]);
            plain[k] += g;
            product[k] += g * ((double)LOAD(x[r * C + k]) - mean[k]);
          }
        }
      }
      for (int k = 0; k < width; k++) {
        sums[at + k] += plain[k];
        products[at + k] += product[k];
      }
    }
  }
  for (; o < o_end; o++) {
    const ELEM *restrict x = (const ELEM *)j->x + o * C * I, *restrict dy = (const ELEM *)j->dy + o * C * I;
    for (int64_t at = c; at < c_end; at++) {
      const ELEM *restrict p = x + at * I, *restrict q = dy + at * I;
      const double mean = (double)means[at];
      double plain[8] = {0}, product[8] = {0};
      int64_t i = 0;
      for (; i + 8 <= I; i += 8) {
        for (int k = 0; k < 8; k++) {
          const double g = (double)LOAD(q[i + k]);
          plain[k] += g;
          product[k] += g * ((double)LOAD(p[i + k]) - mean);
        }
      }
      for (; i < I; i++) {
        plain[0] += (double)LOAD(q[i]);
        product[0] += (double)LOAD(q[i]) * ((double)LOAD(p[i]) - mean);
      }
      for (int k = 0; k < 8; k++) {
        sums[at] += plain[k];
        products[at] += product[k];
      }
    }
  }
}

/* dx = factor[c] * (dy - shift[c] - (x - mean[c]) * slope[c]), for units [u, end). */
static void WEFT_CAT(norm_grad, SUFFIX)(const norm_job_t *j, int64_t u, int64_t end) {
  const int64_t C = j->channels, I = j->inner;
  const float *restrict means = j->mean, *restrict factors = j->factor, *restrict shifts = j->shift;
  const float *restrict slopes = j->slope;
  for (; u < end; u++) {
    const int64_t at = I == 1 ? u * C : u * I;
    const ELEM *restrict x = (const ELEM *)j->x + at, *restrict dy = (const ELEM *)j->dy + at;
    ELEM *restrict dx = (ELEM *)j->y + at;
    if (I == 1) {
      for (int64_t c = 0; c < C; c++) {
        dx[c] = STORE(factors[c] * (LOAD(dy[c]) - shifts[c] - (LOAD(x[c]) - means[c]) * slopes[c]));
      }
    } else {
      const float mean = means[u % C], factor = factors[u % C], shift = shifts[u % C], slope = slopes[u % C];
      for (int64_t i = 0; i < I; i++)
        dx[i] = STORE(factor * (LOAD(dy[i]) - shift - (LOAD(x[i]) - mean) * slope));
    }
  }
}
