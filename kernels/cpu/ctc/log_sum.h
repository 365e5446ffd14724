/* kernels/cpu/ctc/log_sum.h - sums of probabilities that are kept as logarithms. */
#ifndef WEFT_KERNELS_CPU_CTC_LOG_SUM_H_
#define WEFT_KERNELS_CPU_CTC_LOG_SUM_H_

#include <math.h>

/* log(exp(a) + exp(b)). The correction is computed in float for either type, as TensorFlow does; it is all
 * that double results lack in precision. */
static inline float weft_log_sum_f32(float a, float b) {
  if (a == -HUGE_VALF) return b;
  if (b == -HUGE_VALF) return a;
  return a > b ? a + log1pf(expf(b - a)) : b + log1pf(expf(a - b));
}
static inline double weft_log_sum_f64(double a, double b) {
  if (a == -HUGE_VAL) return b;
  if (b == -HUGE_VAL) return a;
  return a > b ? a + (double)log1pf(expf((float)(b - a))) : b + (double)log1pf(expf((float)(a - b)));
}

#endif /* WEFT_KERNELS_CPU_CTC_LOG_SUM_H_ */
