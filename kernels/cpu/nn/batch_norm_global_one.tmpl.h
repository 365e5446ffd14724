/* kernels/cpu/nn/batch_norm_global_one.tmpl.h - BatchNormWithGlobalNormalization and its gradient for one
 * element type. */
static void WEFT_CAT(global_norm, SUFFIX)(const global_norm_job_t *j) {
  const ELEM *mean = j->mean, *variance = j->variance, *beta = j->beta, *gamma = j->gamma;
  const COMP epsilon = LOAD(STORE(j->epsilon));
  for (int64_t c = 0; c < j->channels; c++) {
    COMP factor = 1 / (COMP)sqrt((double)(LOAD(variance[c]) + epsilon));
    if (j->has_gamma) factor *= LOAD(gamma[c]);
    for (int64_t i = c; i < j->rows * j->channels; i += j->channels)
      ((ELEM *)j->out[0])[i] =
          STORE((LOAD(((const ELEM *)j->x)[i]) - LOAD(mean[c])) * factor + LOAD(beta[c]));
  }
}

/* The gradients of x, the mean, the variance, beta and gamma. */
static void WEFT_CAT(global_norm_grad, SUFFIX)(const global_norm_job_t *j) {
  const ELEM *x = j->x, *dy = j->dy, *mean = j->mean, *variance = j->variance, *gamma = j->gamma;
  const COMP epsilon = LOAD(STORE(j->epsilon));
  for (int64_t c = 0; c < j->channels; c++) {
    const COMP spread = LOAD(variance[c]) + epsilon, inverse = 1 / (COMP)sqrt((double)spread);
    const COMP scale = j->has_gamma ? LOAD(gamma[c]) : 1;
    ACC sum = 0, by_distance = 0;
    for (int64_t i = c; i < j->rows * j->channels; i += j->channels) {
      sum += LOAD(dy[i]);
      by_distance += LOAD(dy[i]) * (LOAD(x[i]) - LOAD(mean[c]));
      ((ELEM *)j->out[0])[i] = STORE(LOAD(dy[i]) * (inverse * scale));
    }
    ((ELEM *)j->out[1])[c] = STORE(-(COMP)sum * (inverse * scale));
    ((ELEM *)j->out[2])[c] = STORE((COMP)by_distance * (inverse * (COMP)-0.5 / spread * scale));
    ((ELEM *)j->out[3])[c] = STORE((COMP)sum);
    ((ELEM *)j->out[4])[c] = STORE(j->has_gamma ? (COMP)by_distance * inverse : 0);
  }
}
