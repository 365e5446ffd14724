/* kernels/cpu/nn/fused_rows.c - bias and activation of a product whose channels lie together: one walk over
 * its elements, a row at a time. */
#include "kernels/cpu/nn/fused_rows.h"

typedef struct fused_rows_job {
  float *y;
  const float *bias;
  int64_t channels;
  float alpha;
} fused_rows_job_t;

#define ROWS_STEM rows_plain
#define ROWS_EXPR(v) (v)
#include "kernels/cpu/nn/fused_rows_one.tmpl.h"
#define ROWS_STEM rows_relu
#define ROWS_EXPR(v) ((v) < 0 ? 0 : (v))
#include "kernels/cpu/nn/fused_rows_one.tmpl.h"
#define ROWS_STEM rows_relu6
#define ROWS_EXPR(v) ((v) < 0 ? 0 : (v) > 6 ? 6 : (v))
#include "kernels/cpu/nn/fused_rows_one.tmpl.h"
#define ROWS_STEM rows_leaky_relu
#define ROWS_EXPR(v) ((v) > 0 ? (v) : alpha * (v))
#include "kernels/cpu/nn/fused_rows_one.tmpl.h"

void weft_fused_rows(weft_thread_pool_t *pool, float *y, const float *bias, int64_t rows, int64_t channels,
                     weft_row_activation_t activation, float alpha) {
  static weft_range_fn *const fns[WEFT_ROWS_NUM_ACTIVATIONS] = {
      [WEFT_ROWS_PLAIN] = rows_plain,
      [WEFT_ROWS_RELU] = rows_relu,
      [WEFT_ROWS_RELU6] = rows_relu6,
      [WEFT_ROWS_LEAKY_RELU] = rows_leaky_relu,
  };
  fused_rows_job_t j = {y, bias, channels, alpha};
  if (rows == 0 || channels == 0) return;
  weft_parallel_for(pool, rows, WEFT_CPU_GRAIN / channels + 1, fns[activation], &j);
}
