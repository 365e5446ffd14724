/* kernels/cpu/nn/softmax_one.tmpl.h - the loops of softmax.c for one element type: rows of C classes, CHUNK
 * at a time, so that the exponentials are vector loops.
 *
 * An operand's step is 1, or 0 where one number stands for a whole row.
 */

static COMP WEFT_CAT(row_max, SUFFIX)(const ELEM *x, int64_t step, int64_t C) {
  COMP lane[CHUNK], max = LOAD(x[0]);
  int64_t i = 0;
  for (int k = 0; k < CHUNK; k++) lane[k] = max;
  for (; i + CHUNK <= C && step == 1; i += CHUNK) {
    for (int k = 0; k < CHUNK; k++) lane[k] = LOAD(x[i + k]) > lane[k] ? LOAD(x[i + k]) : lane[k];
  }
  for (; i < C; i++) max = LOAD(x[i * step]) > max ? LOAD(x[i * step]) : max;
  for (int k = 0; k < CHUNK; k++) max = lane[k] > max ? lane[k] : max;
  return max;
}

/* Sum of exp(x - max); the terms also go to `keep` (which may be x), unless it is NULL. A NaN ends in the
 * sum. */
static COMP WEFT_CAT(row_exp, SUFFIX)(const ELEM *x, int64_t step, int64_t C, COMP max, COMP *keep) {
  COMP lane[CHUNK] = {0}, e[CHUNK], sum = 0;
  for (int64_t i = 0; i < C; i += CHUNK) {
    int n = C - i < CHUNK ? (int)(C - i) : CHUNK;
    if (n == CHUNK && step == 1) {
      for (int k = 0; k < CHUNK; k++) e[k] = LOAD(x[i + k]) - max;
    } else {
      for (int k = 0; k < n; k++) e[k] = LOAD(x[(i + k) * step]) - max;
      for (int k = n; k < CHUNK; k++) e[k] = -INFINITY;
    }
    for (int k = 0; k < CHUNK; k++) e[k] = WEFT_CAT(weft_exp, SUFFIX)(e[k]);
    for (int k = 0; k < CHUNK; k++) lane[k] += e[k];
    if (keep != NULL) memcpy(keep + i, e, (size_t)n * sizeof *e);
  }
  for (int k = 0; k < CHUNK; k++) sum += lane[k];
  return sum;
}

/* The same of rows [begin, end) with up to CHUNK classes, ROWS rows beside each other. Returns how many rows
 * were done. The numbers are those of the rows one by one. */
static int64_t WEFT_CAT(softmax_rows, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  const int64_t C = j->classes;
  COMP e[CHUNK][ROWS], max[ROWS], sum[ROWS];
  int64_t row = begin;
  for (; row + ROWS <= end; row += ROWS) {
    const ELEM *x = (const ELEM *)j->x + row * C;
    ELEM *y = (ELEM *)j->y + row * C;
    for (int64_t c = 0; c < C; c++) {
      for (int k = 0; k < ROWS; k++) e[c][k] = LOAD(x[k * C + c]);
    }
    for (int k = 0; k < ROWS; k++) max[k] = e[0][k];
    for (int64_t c = 1; c < C; c++) {
      for (int k = 0; k < ROWS; k++) max[k] = e[c][k] > max[k] ? e[c][k] : max[k];
    }
    for (int k = 0; k < ROWS; k++) sum[k] = 0;
    for (int64_t c = 0; c < C; c++) {
      for (int k = 0; k < ROWS; k++) e[c][k] = WEFT_CAT(weft_exp, SUFFIX)(e[c][k] - max[k]);
      for (int k = 0; k < ROWS; k++) sum[k] += e[c][k];
    }
    for (int k = 0; k < ROWS; k++) sum[k] = 1 / sum[k];
    for (int64_t c = 0; c < C; c++) {
      for (int k = 0; k < ROWS; k++) y[k * C + c] = STORE(e[c][k] * sum[k]);
    }
  }
  return row - begin;
}

/* y = exp(x - max) / sum, by the sum's reciprocal as in TensorFlow, or its logarithm. y may be x. */
static void WEFT_CAT(softmax, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  const bool keeps = sizeof(ELEM) == sizeof(COMP) && !j->log; /* the terms fit where the result goes */
  int64_t C = j->classes;
  if (C <= CHUNK && !j->log) begin += WEFT_CAT(softmax_rows, SUFFIX)(j, begin, end);
  for (int64_t row = begin; row < end; row++) {
    const ELEM *x = (const ELEM *)j->x + row * C;
    ELEM *y = (ELEM *)j->y + row * C;
    const COMP max = WEFT_CAT(row_max, SUFFIX)(x, 1, C);
    const COMP sum = WEFT_CAT(row_exp, SUFFIX)(x, 1, C, max, keeps ? (COMP *)(void *)y : NULL);
    const COMP share = 1 / sum;
    if (keeps) {
      for (int64_t i = 0; i < C; i++) y[i] = STORE(LOAD(y[i]) * share);
    } else if (j->log) {
      const COMP log_sum = log(sum); /* two subtractions keep the digits of x - max */
      for (int64_t i = 0; i < C; i++) y[i] = STORE(LOAD(x[i]) - max - log_sum);
    } else {
      for (int64_t i = 0; i < C; i++) y[i] = STORE(WEFT_CAT(weft_exp, SUFFIX)(LOAD(x[i]) - max) * share);
    }
  }
}

/* loss = sum labels * (log sum exp - (x - max)); backprop = softmax - labels. A logit of minus infinity gives
 * NaN, as in TensorFlow, whatever its label. */
static void WEFT_CAT(cross, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  int64_t C = j->classes, xs = j->x_width == 1 ? 0 : 1, ls = j->label_width == 1 ? 0 : 1;
  for (int64_t row = begin; row < end; row++) {
    const ELEM *x = (const ELEM *)j->x + (j->x_rows == 1 ? 0 : row * j->x_width);
    const ELEM *labels = (const ELEM *)j->labels + (j->label_rows == 1 ? 0 : row * j->label_width);
    ELEM *loss = (ELEM *)j->y + row, *back = (ELEM *)j->backprop + row * C;
    const COMP max = WEFT_CAT(row_max, SUFFIX)(x, xs, C),
               sum = WEFT_CAT(row_exp, SUFFIX)(x, xs, C, max, NULL);
    const COMP log_sum = log(sum);
    COMP total = 0;
    for (int64_t i = 0; i < C; i++) total += LOAD(labels[i * ls]) * (log_sum - (LOAD(x[i * xs]) - max));
    for (int64_t i = 0; i < C; i++) {
      back[i] = STORE(WEFT_CAT(weft_exp, SUFFIX)(LOAD(x[i * xs]) - max) / sum - LOAD(labels[i * ls]));
    }
    *loss = STORE(total);
  }
}

/* The same where the label is a class. */
static void WEFT_CAT(sparse, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  int64_t C = j->classes;
  for (int64_t row = begin; row < end; row++) {
    const ELEM *x = (const ELEM *)j->x + row * C;
    ELEM *loss = (ELEM *)j->y + row, *back = (ELEM *)j->backprop + row * C;
    int64_t label = weft_cpu_int_at(j->classes_of, row);
    const COMP max = WEFT_CAT(row_max, SUFFIX)(x, 1, C), sum = WEFT_CAT(row_exp, SUFFIX)(x, 1, C, max, NULL);
    *loss = STORE(log(sum) - (LOAD(x[label]) - max));
    for (int64_t i = 0; i < C; i++) {
      back[i] = STORE(WEFT_CAT(weft_exp, SUFFIX)(LOAD(x[i]) - max) / sum - (i == label ? 1 : 0));
    }
  }
}
