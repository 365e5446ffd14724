/* kernels/cpu/nn/batch_norm_one.tmpl.h - the loops of batch_norm.c for one element type of x. The tensor is
 * [outer, channels, inner]: with inner 1 the channels of a pixel lie side by side and loops run over
 * channels, else they run over the plane of a channel, with eight sums at once, so that one addition need not
 * wait for the last. Sums are kept in double.
 */

/* sum[c] += x - center[c], square[c] += (x - center[c])^2 of `rows` pixels of W channels, which are `stride`
 * apart; four pixels at a time, since an addition to memory takes longer than one in a register. */
static inline void WEFT_CAT(few_moments, SUFFIX)(const ELEM *restrict x, int64_t stride, int64_t rows,
                                                 int64_t left, int64_t W, const float *restrict center,
                                                 float *restrict sum, float *restrict square) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    if (r + NORM_AHEAD + 4 <= left) fetch(x + NORM_AHEAD * stride, 4 * stride * (int64_t)sizeof(ELEM));
    const ELEM *restrict x1 = x + stride, *restrict x2 = x + 2 * stride, *restrict x3 = x + 3 * stride;
    for (int64_t c = 0; c < W; c++) {
      const float d0 = LOAD(x[c]) - center[c], d1 = LOAD(x1[c]) - center[c], d2 = LOAD(x2[c]) - center[c],
                  d3 = LOAD(x3[c]) - center[c];
      sum[c] += (d0 + d1) + (d2 + d3);
      square[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
    }
  }
  for (; r < rows; r++, x += stride) {
    for (int64_t c = 0; c < W; c++) {
      const float d = LOAD(x[c]) - center[c];
      sum[c] += d;
      square[c] += d * d;
    }
  }
}

/* The same sums of any number of pixels, in double: those of NORM_SHORT pixels are float. */
static inline void WEFT_CAT(block_moments, SUFFIX)(const ELEM *x, int64_t stride, int64_t rows, int64_t left,
                                                   int64_t W, const float *center, double *restrict sum,
                                                   double *restrict square) {
  float few[NORM_TILE], squares[NORM_TILE];
  for (int64_t c = 0; c < W; c++) sum[c] = square[c] = 0;
  for (int64_t r = 0; r < rows; r += NORM_SHORT) {
    for (int64_t c = 0; c < W; c++) few[c] = squares[c] = 0;
    WEFT_CAT(few_moments, SUFFIX)
    (x + r * stride, stride, rows - r < NORM_SHORT ? rows - r : NORM_SHORT, left - r, W, center, few,
     squares);
    for (int64_t c = 0; c < W; c++) sum[c] += (double)few[c];
    for (int64_t c = 0; c < W; c++) square[c] += (double)squares[c];
  }
}

/* Channels side by side: sums[c] = sum of x, sums[channels + c] = sum of (x - mean)^2, over outer [o, o_end),
 * in one pass in the order of memory: sums and squares of a block of pixels are joined with those of the
 * blocks before it. Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
 * Sample Variances" (1979).
 *
 * The numbers of a block are taken relative to the mean of the blocks before it (of the first, to its own).
 * So squares may be float: what they have too much, n (block's mean - mean before)^2, is at most twice what
 * the block adds to the sum of squares, and an error that is relative to it is relative to the result. */
static void WEFT_CAT(norm_moments, SUFFIX)(const norm_job_t *j, int64_t o, int64_t o_end,
                                           double *restrict sums) {
  const int64_t C = j->channels, begin = o;
  double *restrict squares = sums + C;
  for (; o < o_end; o += NORM_ROWS) {
    const int64_t rows = o_end - o < NORM_ROWS ? o_end - o : NORM_ROWS;
    const double before = (double)(o - begin), n = (double)rows, weight = before / (n * (before + n));
    for (int64_t at = 0; at < C; at += NORM_TILE) {
      const ELEM *x = (const ELEM *)j->x + o * C + at;
      const int64_t W = C - at < NORM_TILE ? C - at : NORM_TILE;
      float center[NORM_TILE] = {0};
      double sum[NORM_TILE], square[NORM_TILE];
      if (o == begin) {
        WEFT_CAT(block_moments, SUFFIX)(x, C, rows, o_end - o, W, center, sum, square);
        for (int64_t c = 0; c < W; c++) center[c] = (float)(sum[c] / n);
      } else {
        for (int64_t c = 0; c < W; c++) center[c] = (float)(sums[at + c] / before);
      }
      /* The mean of infinities of one sign is infinite, and not the NaN of their differences. */
      for (int64_t c = 0; c < W; c++) center[c] = isfinite(center[c]) ? center[c] : 0;
      WEFT_CAT(block_moments, SUFFIX)(x, C, rows, o_end - o, W, center, sum, square);
      for (int64_t c = 0; c < W; c++) {
        /* n times the block's mean less the mean before it */
        const double here = (double)center[c],
                     apart = before == 0 ? 0 : sum[c] + n * (here - sums[at + c] / before);
        squares[at + c] += square[c] - sum[c] * sum[c] / n + apart * apart * weight;
        sums[at + c] += sum[c] + n * here;
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

/* sum[c] += dy, product[c] += dy (x - center[c]) of `rows` pixels of W channels, which are `stride` apart. */
static inline void WEFT_CAT(few_products, SUFFIX)(const ELEM *restrict x, const ELEM *restrict dy,
                                                  int64_t stride, int64_t rows, int64_t left, int64_t W,
                                                  const float *restrict center, float *restrict sum,
                                                  float *restrict product) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride, dy += 4 * stride) {
    if (r + NORM_AHEAD + 4 <= left) {
      fetch(x + NORM_AHEAD * stride, 4 * stride * (int64_t)sizeof(ELEM));
      fetch(dy + NORM_AHEAD * stride, 4 * stride * (int64_t)sizeof(ELEM));
    }
    const ELEM *restrict x1 = x + stride, *restrict x2 = x + 2 * stride, *restrict x3 = x + 3 * stride;
    const ELEM *restrict g1 = dy + stride, *restrict g2 = dy + 2 * stride, *restrict g3 = dy + 3 * stride;
    for (int64_t c = 0; c < W; c++) {
      sum[c] += (LOAD(dy[c]) + LOAD(g1[c])) + (LOAD(g2[c]) + LOAD(g3[c]));
      product[c] += (LOAD(dy[c]) * (LOAD(x[c]) - center[c]) + LOAD(g1[c]) * (LOAD(x1[c]) - center[c])) +
                    (LOAD(g2[c]) * (LOAD(x2[c]) - center[c]) + LOAD(g3[c]) * (LOAD(x3[c]) - center[c]));
    }
  }
  for (; r < rows; r++, x += stride, dy += stride) {
    for (int64_t c = 0; c < W; c++) {
      sum[c] += LOAD(dy[c]);
      product[c] += LOAD(dy[c]) * (LOAD(x[c]) - center[c]);
    }
  }
}

/* sums[c] += dy; sums[channels + c] += dy * (x - mean). Ranges as above. Of a few pixels the sums are float.
 */
static void WEFT_CAT(norm_grad_sums, SUFFIX)(const norm_job_t *j, int64_t o, int64_t o_end, int64_t c,
                                             int64_t c_end, double *restrict sums) {
  const int64_t C = j->channels, I = j->inner;
  const float *restrict means = j->mean;
  double *restrict products = sums + C;
  for (; I == 1 && o < o_end; o += NORM_SHORT) { /* in the order of memory */
    const int64_t rows = o_end - o < NORM_SHORT ? o_end - o : NORM_SHORT;
    for (int64_t at = c; at < c_end; at += NORM_TILE) {
      const int64_t W = c_end - at < NORM_TILE ? c_end - at : NORM_TILE;
      float sum[NORM_TILE], product[NORM_TILE];
      for (int64_t k = 0; k < W; k++) sum[k] = product[k] = 0;
      WEFT_CAT(few_products, SUFFIX)
      ((const ELEM *)j->x + o * C + at, (const ELEM *)j->dy + o * C + at, C, rows, o_end - o, W, means + at,
       sum, product);
      for (int64_t k = 0; k < W; k++) sums[at + k] += (double)sum[k];
      for (int64_t k = 0; k < W; k++) products[at + k] += (double)product[k];
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
