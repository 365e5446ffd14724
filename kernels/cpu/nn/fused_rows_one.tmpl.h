/* kernels/cpu/nn/fused_rows_one.tmpl.h - one activation: ROWS_STEM is the function's name, ROWS_EXPR(v) the
 * value, in which `alpha` may occur. */
static void ROWS_STEM(void *arg, int64_t begin, int64_t end) {
  const fused_rows_job_t *j = arg;
  const float *bias = j->bias, alpha = j->alpha;
  const int64_t channels = j->channels;
  (void)alpha;
  for (int64_t r = begin; r < end; r++) {
    float *y = j->y + r * channels;
    WEFT_IVDEP
    for (int64_t c = 0; c < channels; c++) {
      const float v = y[c] + bias[c];
      y[c] = ROWS_EXPR(v);
    }
  }
}
#undef ROWS_STEM
#undef ROWS_EXPR
