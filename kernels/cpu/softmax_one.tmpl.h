/* kernels/cpu/softmax_one.tmpl.h - the loops of softmax.c for one element type: rows of C classes. */

/* y = exp(x - max) / sum, or its logarithm. */
static void WEFT_CAT(softmax, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  int64_t C = j->classes;
  for (int64_t row = begin; row < end; row++) {
    const ELEM *x = (const ELEM *)j->x + row * C;
    ELEM *y = (ELEM *)j->y + row * C;
    COMP max = LOAD(x[0]), sum = 0;
    for (int64_t i = 1; i < C; i++) max = LOAD(x[i]) > max ? LOAD(x[i]) : max;
    for (int64_t i = 0; i < C; i++) sum += exp(LOAD(x[i]) - max);
    if (j->log) {
      const COMP shift = max + log(sum);
      /* Two subtractions keep the digits of x - max when max is large. */
      for (int64_t i = 0; i < C; i++)
        y[i] = STORE(isfinite(shift) ? LOAD(x[i]) - max - log(sum) : LOAD(x[i]) - shift);
    } else {
      for (int64_t i = 0; i < C; i++) y[i] = STORE(exp(LOAD(x[i]) - max) / sum);
    }
  }
}

/* loss = sum labels * (log sum exp - (x - max)); backprop = softmax - labels. A logit of minus infinity gives
 * NaN, as in TensorFlow, whatever its label. */
static void WEFT_CAT(cross, SUFFIX)(const softmax_job_t *j, int64_t begin, int64_t end) {
  int64_t C = j->classes;
  for (int64_t row = begin; row < end; row++) {
    const ELEM *x = (const ELEM *)j->x + (j->x_rows == 1 ? 0 : row * j->x_width);
    const ELEM *labels = (const ELEM *)j->labels + (j->label_rows == 1 ? 0 : row * j->label_width);
    int64_t xs = j->x_width == 1 ? 0 : 1, ls = j->label_width == 1 ? 0 : 1;
    ELEM *loss = (ELEM *)j->y + row, *back = (ELEM *)j->backprop + row * C;
    COMP max = C > 0 ? LOAD(x[0]) : 0, sum = 0, total = 0;
    for (int64_t i = 1; i < C; i++) max = LOAD(x[i * xs]) > max ? LOAD(x[i * xs]) : max;
    for (int64_t i = 0; i < C; i++) sum += exp(LOAD(x[i * xs]) - max);
    const COMP log_sum = log(sum);
    for (int64_t i = 0; i < C; i++) {
      const COMP v = LOAD(x[i * xs]) - max, l = LOAD(labels[i * ls]);
      total += l * (log_sum - v);
      back[i] = STORE(exp(v) / sum - l);
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
    COMP max = LOAD(x[0]), sum = 0;
    for (int64_t i = 1; i < C; i++) max = LOAD(x[i]) > max ? LOAD(x[i]) : max;
    for (int64_t i = 0; i < C; i++) sum += exp(LOAD(x[i]) - max);
    *loss = STORE(log(sum) - (LOAD(x[label]) - max));
    for (int64_t i = 0; i < C; i++) back[i] = STORE(exp(LOAD(x[i]) - max) / sum - (i == label ? 1 : 0));
  }
}
