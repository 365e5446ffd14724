/* kernels/cpu/nn/softmax_one.tmpl.h - the loops of softmax.c for one element type: rows of C classes.
 *
 * A row of more than CHUNK classes is taken CHUNK classes at a time, in as many lanes, which are joined in
 * pairs; its last chunk ends with the row, and begins within the one before. Of rows with fewer classes ROWS
 * are taken beside each other, one in each lane. So all loops are vector loops.
 *
 * An operand's step is 1, or 0 where one number stands for a whole row; of a long row it is then CHUNK times
 * the same.
 */

static inline void WEFT_CAT(load, SUFFIX)(const ELEM *x, COMP *out) {
  for (int k = 0; k < CHUNK; k++) out[k] = LOAD(x[k]);
}

static inline void WEFT_CAT(store, SUFFIX)(const COMP *v, ELEM *y) {
  for (int k = 0; k < CHUNK; k++) y[k] = STORE(v[k]);
}

static inline COMP WEFT_CAT(join_sum, SUFFIX)(COMP *lane) {
#pragma GCC unroll 8
  for (int half = CHUNK / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  }
  return lane[0];
}

/* ---- a row of more than CHUNK classes ---- */

static inline void WEFT_CAT(max_chunk, SUFFIX)(const ELEM *x, COMP *lane) {
  for (int k = 0; k < CHUNK; k++) {
    const COMP v = LOAD(x[k]);
    lane[k] = v > lane[k] ? v : lane[k];
  }
}

/* The greatest number; a NaN is not one, and ends in the sum of the exponentials. */
static inline COMP WEFT_CAT(row_max, SUFFIX)(const ELEM *x, int64_t step, int64_t C) {
  COMP lane[CHUNK];
  for (int k = 0; k < CHUNK; k++) lane[k] = -(COMP)INFINITY;
  for (int64_t i = 0; i + CHUNK <= C; i += CHUNK) WEFT_CAT(max_chunk, SUFFIX)(x + i * step, lane);
  if (C % CHUNK != 0) WEFT_CAT(max_chunk, SUFFIX)(x + (C - CHUNK) * step, lane);
#pragma GCC unroll 8
  for (int half = CHUNK / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; k++) lane[k] = lane[k + half] > lane[k] ? lane[k + half] : lane[k];
  }
  return lane[0];
}

static inline void WEFT_CAT(exp_chunk, SUFFIX)(const ELEM *x, COMP max, COMP *e) {
  for (int k = 0; k < CHUNK; k++) e[k] = WEFT_CAT(weft_exp_of_negative, SUFFIX)(LOAD(x[k]) - max);
}

/* Sum of exp(x - max); the terms also go to `keep` (which may be x), unless it is NULL. What the rows after
 * these will read is fetched meanwhile: the exponentials take longer. */
static inline COMP WEFT_CAT(row_exp, SUFFIX)(const ELEM *x, int64_t step, int64_t C, COMP max, COMP *keep) {
  COMP lane[CHUNK], last[CHUNK];
  const int64_t at = C - CHUNK, whole = C / CHUNK * CHUNK;
  for (int k = 0; k < CHUNK; k++) lane[k] = 0;
  if (whole < C) { /* of the last chunk what no other has; first, since `keep` may be x */
    WEFT_CAT(exp_chunk, SUFFIX)(x + at * step, max, last);
    for (int k = 0; k < CHUNK; k++) lane[k] = k >= whole - at ? last[k] : 0;
  }
  if (keep != NULL) {
    for (int64_t i = 0; i < whole; i += CHUNK) {
      fetch_ahead(x + i * step + MOST_KEPT, CHUNK * sizeof *x);
      WEFT_IVDEP /* a row that is x is read where it is written */
          for (int k = 0; k < CHUNK; k++) {
        const COMP e = WEFT_CAT(weft_exp_of_negative, SUFFIX)(LOAD(x[i * step + k]) - max);
        lane[k] += e;
        keep[i + k] = e;
      }
    }
    if (whole < C) memcpy(keep + at, last, sizeof last);
  } else {
    for (int64_t i = 0; i < whole; i += CHUNK) {
      fetch_ahead(x + i * step + MOST_KEPT, CHUNK * sizeof *x);
      for (int k = 0; k < CHUNK; k++)
        lane[k] += WEFT_CAT(weft_exp_of_negative, SUFFIX)(LOAD(x[i * step + k]) - max);
    }
  }
  return WEFT_CAT(join_sum, SUFFIX)(lane);
}

/* The terms of a row: where they stayed (in the row of the result if they fit there, or in `room`), or NULL.
 */
static inline COMP *WEFT_CAT(room_for_terms, SUFFIX)(ELEM *result, COMP *room, int64_t C) {
  if (sizeof(ELEM) == sizeof(COMP)) return (COMP *)(void *)result;
  return C <= MOST_KEPT ? room : NULL;
}

/* CHUNK of them, from class i on. */
static inline void WEFT_CAT(terms_chunk, SUFFIX)(const COMP *terms, const ELEM *x, int64_t step, int64_t i,
                                                 COMP max, COMP *e) {
  if (terms != NULL) {
    memcpy(e, terms + i, CHUNK * sizeof *e);
  } else {
    WEFT_CAT(exp_chunk, SUFFIX)(x + i * step, max, e);
  }
}

/* max[k] and the sum of exp(x - max[k]) of `rows` rows of x, a step at a time for all of them: a row's steps
 * wait for each other, those of different rows do not. The terms of row k stay from terms + k * C on, unless
 * `terms` is NULL. */
static inline void WEFT_CAT(rows_exp, SUFFIX)(int64_t rows, const ELEM *x, int64_t C, COMP *max, COMP *sum,
                                              COMP *terms) {
  for (int64_t k = 0; k < rows; k++) max[k] = WEFT_CAT(row_max, SUFFIX)(x + k * C, 1, C);
  for (int64_t k = 0; k < rows; k++) {
    sum[k] = WEFT_CAT(row_exp, SUFFIX)(x + k * C, 1, C, max[k], terms == NULL ? NULL : terms + k * C);
  }
}

/* y = exp(x - max) / sum, by the sum's reciprocal as in TensorFlow, of up to ROWS rows. y may be x. */
static inline void WEFT_CAT(softmax_rows, SUFFIX)(int64_t rows, int64_t C, const ELEM *x, ELEM *y,
                                                  COMP *room) {
  COMP *terms = WEFT_CAT(room_for_terms, SUFFIX)(y, room, C), e[CHUNK], last[CHUNK], max[ROWS], share[ROWS];
  WEFT_CAT(rows_exp, SUFFIX)(rows, x, C, max, share, terms);
  for (int64_t k = 0; k < rows; k++) share[k] = 1 / share[k];
  for (int64_t k = 0; k < rows; k++, x += C, y += C) {
    const COMP *row = terms == NULL ? NULL : terms + k * C;
    const int64_t whole = C / CHUNK * CHUNK;
    if (whole < C) WEFT_CAT(terms_chunk, SUFFIX)(row, x, 1, C - CHUNK, max[k], last);
    if (row != NULL) {
      for (int64_t i = 0; i < whole; i += CHUNK) {
        WEFT_IVDEP
        for (int c = 0; c < CHUNK; c++) y[i + c] = STORE(row[i + c] * share[k]);
      }
    } else {
      for (int64_t i = 0; i < whole; i += CHUNK) {
        WEFT_CAT(exp_chunk, SUFFIX)(x + i, max[k], e);
        for (int c = 0; c < CHUNK; c++) e[c] *= share[k];
        WEFT_CAT(store, SUFFIX)(e, y + i);
      }
    }
    if (whole < C) {
      for (int c = 0; c < CHUNK; c++) last[c] *= share[k];
      WEFT_CAT(store, SUFFIX)(last, y + C - CHUNK);
    }
  }
}

/* y = x - max - log sum: two subtractions keep the digits of x - max. */
static inline void WEFT_CAT(log_softmax_rows, SUFFIX)(int64_t rows, int64_t C, const ELEM *x, ELEM *y) {
  COMP v[CHUNK], last[CHUNK], max[ROWS], log_sum[ROWS];
  WEFT_CAT(rows_exp, SUFFIX)(rows, x, C, max, log_sum, NULL);
  /* In all lanes: the vector's log and that of a number left over differ in the last bit. */
  for (int64_t k = rows; k < ROWS; k++) log_sum[k] = 1;
  for (int k = 0; k < ROWS; k++) log_sum[k] = WEFT_CAT(weft_log, SUFFIX)(log_sum[k]);
  for (int64_t k = 0; k < rows; k++, x += C, y += C) {
    WEFT_CAT(load, SUFFIX)(x + C - CHUNK, last);
    for (int64_t i = 0; i + CHUNK < C; i += CHUNK) {
      WEFT_CAT(load, SUFFIX)(x + i, v);
      for (int c = 0; c < CHUNK; c++) v[c] = v[c] - max[k] - log_sum[k];
      WEFT_CAT(store, SUFFIX)(v, y + i);
    }
    for (int c = 0; c < CHUNK; c++) last[c] = last[c] - max[k] - log_sum[k];
    WEFT_CAT(store, SUFFIX)(last, y + C - CHUNK);
  }
}

/* Of each class: the part of the loss, and in e the gradient out of exp(x - max). */
static inline void WEFT_CAT(cross_chunk, SUFFIX)(const ELEM *x, const ELEM *labels, COMP max, COMP sum,
                                                 COMP log_sum, COMP *part, COMP *e) {
  COMP v[CHUNK], label[CHUNK];
  WEFT_CAT(load, SUFFIX)(x, v);
  WEFT_CAT(load, SUFFIX)(labels, label);
  for (int k = 0; k < CHUNK; k++) part[k] = label[k] * (log_sum - (v[k] - max));
  for (int k = 0; k < CHUNK; k++) e[k] = e[k] / sum - label[k];
}

/* loss = sum labels * (log sum exp - (x - max)); backprop = softmax - labels. A logit of minus infinity gives
 * NaN, as in TensorFlow, whatever its label. */
static inline void WEFT_CAT(cross_row, SUFFIX)(const ELEM *x, int64_t xs, const ELEM *labels, int64_t ls,
                                               int64_t C, ELEM *loss, ELEM *back, COMP *room) {
  COMP *terms = WEFT_CAT(room_for_terms, SUFFIX)(back, room, C);
  COMP lane[CHUNK], part[CHUNK], e[CHUNK], last[CHUNK];
  const int64_t at = C - CHUNK, seen = CHUNK - 1 - (C - 1) % CHUNK;
  const COMP max = WEFT_CAT(row_max, SUFFIX)(x, xs, C), sum = WEFT_CAT(row_exp, SUFFIX)(x, xs, C, max, terms),
             log_sum = WEFT_CAT(weft_log, SUFFIX)(sum);
  WEFT_CAT(terms_chunk, SUFFIX)(terms, x, xs, at, max, last);
  WEFT_CAT(cross_chunk, SUFFIX)(x + at * xs, labels + at * ls, max, sum, log_sum, part, last);
  for (int k = 0; k < CHUNK; k++) lane[k] = k >= seen ? part[k] : 0;
  for (int64_t i = 0; i + CHUNK < C; i += CHUNK) {
    WEFT_CAT(terms_chunk, SUFFIX)(terms, x, xs, i, max, e);
    WEFT_CAT(cross_chunk, SUFFIX)(x + i * xs, labels + i * ls, max, sum, log_sum, part, e);
    for (int k = 0; k < CHUNK; k++) lane[k] += part[k];
    WEFT_CAT(store, SUFFIX)(e, back + i);
  }
  WEFT_CAT(store, SUFFIX)(last, back + at);
  *loss = STORE(WEFT_CAT(join_sum, SUFFIX)(lane));
}

/* The same where the label is a class. */
static inline void WEFT_CAT(sparse_row, SUFFIX)(const ELEM *x, int64_t label, int64_t C, ELEM *loss,
                                                ELEM *back, COMP *room) {
  COMP *terms = WEFT_CAT(room_for_terms, SUFFIX)(back, room, C), e[CHUNK], last[CHUNK];
  const COMP max = WEFT_CAT(row_max, SUFFIX)(x, 1, C), sum = WEFT_CAT(row_exp, SUFFIX)(x, 1, C, max, terms),
             term =
                 terms != NULL ? terms[label] : WEFT_CAT(weft_exp_of_negative, SUFFIX)(LOAD(x[label]) - max);
  *loss = STORE(WEFT_CAT(weft_log, SUFFIX)(sum) - (LOAD(x[label]) - max));
  WEFT_CAT(terms_chunk, SUFFIX)(terms, x, 1, C - CHUNK, max, last);
  for (int64_t i = 0; i + CHUNK < C; i += CHUNK) {
    WEFT_CAT(terms_chunk, SUFFIX)(terms, x, 1, i, max, e);
    for (int k = 0; k < CHUNK; k++) e[k] /= sum;
    WEFT_CAT(store, SUFFIX)(e, back + i);
  }
  for (int k = 0; k < CHUNK; k++) last[k] /= sum;
  WEFT_CAT(store, SUFFIX)(last, back + C - CHUNK);
  back[label] = STORE(term / sum - 1);
}

/* ---- ROWS rows of up to CHUNK classes ---- */

typedef struct WEFT_CAT(softmax_few, SUFFIX) {
  COMP d[CHUNK][ROWS], e[CHUNK][ROWS]; /* x - max, exp(d): by class and row */
  COMP sum[ROWS], log_sum[ROWS];       /* of e */
  ELEM padded[2][ROWS * CHUNK];        /* operands that end before ROWS rows */
} WEFT_CAT(softmax_few, SUFFIX);

/* `num` rows that are `width` apart, or all one (0): as ROWS rows, of which the last ones may be zeros. */
static inline const ELEM *WEFT_CAT(few_rows, SUFFIX)(const ELEM *x, int64_t width, int64_t num,
                                                     ELEM *padded) {
  if (num >= ROWS || width == 0) return x;
  memset(padded, 0, (size_t)(ROWS * width) * sizeof *padded);
  memcpy(padded, x, (size_t)(num * width) * sizeof *padded);
  return padded;
}

static inline void WEFT_CAT(few, SUFFIX)(const ELEM *x, int64_t width, int64_t step, int64_t C,
                                         WEFT_CAT(softmax_few, SUFFIX) * f) {
  COMP max[ROWS], sum[ROWS];
  for (int64_t c = 0; c < C; c++) {
    for (int k = 0; k < ROWS; k++) f->d[c][k] = LOAD(x[k * width + c * step]);
  }
  for (int k = 0; k < ROWS; k++) max[k] = f->d[0][k];
  for (int64_t c = 1; c < C; c++) {
    for (int k = 0; k < ROWS; k++) max[k] = f->d[c][k] > max[k] ? f->d[c][k] : max[k];
  }
  for (int k = 0; k < ROWS; k++) sum[k] = 0;
  for (int64_t c = 0; c < C; c++) {
    COMP d[ROWS], e[ROWS];
    for (int k = 0; k < ROWS; k++) d[k] = f->d[c][k] - max[k];
    for (int k = 0; k < ROWS; k++) e[k] = WEFT_CAT(weft_exp_of_negative, SUFFIX)(d[k]);
    for (int k = 0; k < ROWS; k++) sum[k] += e[k];
    memcpy(f->d[c], d, sizeof d);
    memcpy(f->e[c], e, sizeof e);
  }
  for (int k = 0; k < ROWS; k++) f->sum[k] = sum[k];
  for (int k = 0; k < ROWS; k++) f->log_sum[k] = WEFT_CAT(weft_log, SUFFIX)(sum[k]);
}

/* The first `num` rows of `v`, class behind class. */
static inline void WEFT_CAT(few_store, SUFFIX)(COMP (*v)[ROWS], int64_t num, int64_t C, ELEM *y) {
  for (int64_t c = 0; c < C; c++) {
    if (num >= ROWS) {
      for (int k = 0; k < ROWS; k++) y[k * C + c] = STORE(v[c][k]);
    } else {
      for (int64_t k = 0; k < num; k++) y[k * C + c] = STORE(v[c][k]);
    }
  }
}

static inline void WEFT_CAT(softmax_few_rows, SUFFIX)(int64_t rows, int64_t C, const ELEM *logits, ELEM *y,
                                                      bool is_log) {
  WEFT_CAT(softmax_few, SUFFIX) f;
  for (int64_t row = 0; row < rows; row += ROWS) {
    const ELEM *x = WEFT_CAT(few_rows, SUFFIX)(logits + row * C, C, rows - row, f.padded[0]);
    WEFT_CAT(few, SUFFIX)(x, C, 1, C, &f);
    if (is_log) {
      for (int64_t c = 0; c < C; c++) {
        for (int k = 0; k < ROWS; k++) f.e[c][k] = f.d[c][k] - f.log_sum[k];
      }
    } else {
      for (int k = 0; k < ROWS; k++) f.sum[k] = 1 / f.sum[k];
      for (int64_t c = 0; c < C; c++) {
        for (int k = 0; k < ROWS; k++) f.e[c][k] *= f.sum[k];
      }
    }
    WEFT_CAT(few_store, SUFFIX)(f.e, rows - row, C, y + row * C);
  }
}

static void WEFT_CAT(cross_few_rows, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->classes, xs = j->x_width == 1 ? 0 : 1, ls = j->label_width == 1 ? 0 : 1;
  const int64_t xw = j->x_rows == 1 ? 0 : j->x_width, lw = j->label_rows == 1 ? 0 : j->label_width;
  WEFT_CAT(softmax_few, SUFFIX) f;
  COMP total[ROWS], label[ROWS];
  for (int64_t row = begin; row < end; row += ROWS) {
    const ELEM *x = WEFT_CAT(few_rows, SUFFIX)((const ELEM *)j->x + row * xw, xw, end - row, f.padded[0]);
    const ELEM *labels =
        WEFT_CAT(few_rows, SUFFIX)((const ELEM *)j->labels + row * lw, lw, end - row, f.padded[1]);
    WEFT_CAT(few, SUFFIX)(x, xw, xs, C, &f);
    for (int k = 0; k < ROWS; k++) total[k] = 0;
    for (int64_t c = 0; c < C; c++) {
      for (int k = 0; k < ROWS; k++) label[k] = LOAD(labels[k * lw + c * ls]);
      for (int k = 0; k < ROWS; k++) total[k] += label[k] * (f.log_sum[k] - f.d[c][k]);
      for (int k = 0; k < ROWS; k++) f.e[c][k] = f.e[c][k] / f.sum[k] - label[k];
    }
    for (int64_t k = 0; k < ROWS && row + k < end; k++) ((ELEM *)j->y)[row + k] = STORE(total[k]);
    WEFT_CAT(few_store, SUFFIX)(f.e, end - row, C, (ELEM *)j->backprop + row * C);
  }
}

static void WEFT_CAT(sparse_few_rows, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->classes;
  WEFT_CAT(softmax_few, SUFFIX) f;
  for (int64_t row = begin; row < end; row += ROWS) {
    const ELEM *x = WEFT_CAT(few_rows, SUFFIX)((const ELEM *)j->x + row * C, C, end - row, f.padded[0]);
    WEFT_CAT(few, SUFFIX)(x, C, 1, C, &f);
    for (int64_t c = 0; c < C; c++) {
      for (int k = 0; k < ROWS; k++) f.e[c][k] /= f.sum[k];
    }
    for (int64_t k = 0; k < ROWS && row + k < end; k++) {
      const int64_t label = weft_cpu_int_at(j->classes_of, row + k);
      ((ELEM *)j->y)[row + k] = STORE(f.log_sum[k] - f.d[label][k]);
      f.e[label][k] -= 1;
    }
    WEFT_CAT(few_store, SUFFIX)(f.e, end - row, C, (ELEM *)j->backprop + row * C);
  }
}

/* ---- any number of classes ---- */

static void WEFT_CAT(softmax, SUFFIX)(int64_t rows, int64_t C, const void *xv, void *yv) {
  const ELEM *x = xv;
  ELEM *y = yv;
  COMP room[MOST_KEPT];
  if (C <= CHUNK) {
    WEFT_CAT(softmax_few_rows, SUFFIX)(rows, C, x, y, false);
    return;
  }
  for (int64_t row = 0, num; row < rows; row += num) {
    num = rows_together(rows - row, C);
    WEFT_CAT(softmax_rows, SUFFIX)(num, C, x + row * C, y + row * C, room);
  }
}

static void WEFT_CAT(log_softmax, SUFFIX)(int64_t rows, int64_t C, const void *xv, void *yv) {
  const ELEM *x = xv;
  ELEM *y = yv;
  if (C <= CHUNK) {
    WEFT_CAT(softmax_few_rows, SUFFIX)(rows, C, x, y, true);
    return;
  }
  for (int64_t row = 0, num; row < rows; row += num) {
    num = rows_together(rows - row, C);
    WEFT_CAT(log_softmax_rows, SUFFIX)(num, C, x + row * C, y + row * C);
  }
}

static inline const ELEM *WEFT_CAT(repeat, SUFFIX)(const ELEM *x, ELEM *same) {
  for (int k = 0; k < CHUNK; k++) same[k] = *x;
  return same;
}

static void WEFT_CAT(cross, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->classes, xs = j->x_width == 1 ? 0 : 1, ls = j->label_width == 1 ? 0 : 1;
  const int64_t xw = j->x_rows == 1 ? 0 : j->x_width, lw = j->label_rows == 1 ? 0 : j->label_width;
  COMP room[MOST_KEPT];
  ELEM same[2][CHUNK];
  if (C <= CHUNK) {
    WEFT_CAT(cross_few_rows, SUFFIX)(j, begin, end);
    return;
  }
  for (int64_t row = begin; row < end; row++) {
    const ELEM *x = (const ELEM *)j->x + row * xw, *labels = (const ELEM *)j->labels + row * lw;
    if (xs == 0) x = WEFT_CAT(repeat, SUFFIX)(x, same[0]);
    if (ls == 0) labels = WEFT_CAT(repeat, SUFFIX)(labels, same[1]);
    WEFT_CAT(cross_row, SUFFIX)
    (x, xs, labels, ls, C, (ELEM *)j->y + row, (ELEM *)j->backprop + row * C, room);
  }
}

static void WEFT_CAT(sparse, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->classes;
  COMP room[MOST_KEPT];
  if (C <= CHUNK) {
    WEFT_CAT(sparse_few_rows, SUFFIX)(j, begin, end);
    return;
  }
  for (int64_t row = begin; row < end; row++) {
    WEFT_CAT(sparse_row, SUFFIX)
    ((const ELEM *)j->x + row * C, weft_cpu_int_at(j->classes_of, row), C, (ELEM *)j->y + row,
     (ELEM *)j->backprop + row * C, room);
  }
}
