/* kernels/cpu/tile/depth.h - the loops of depthwise convolution: each channel by itself.
 *
 * A vector holds neighbouring channels; some pixels of a row stay in registers while the sum over the taps is
 * made. Each element is summed in the order of the taps wherever its block begins.
 */
#ifndef WEFT_KERNELS_CPU_TILE_DEPTH_H_
#define WEFT_KERNELS_CPU_TILE_DEPTH_H_

#include "tensor/dtype.h"

/* y[p, c] = sum over rows r and taps k of x_r[p, k, c] * f_r[k, c] */
typedef struct weft_depth {
  const void *const *x,
      *const *f; /* of each row of taps: at the first pixel's first tap; the filter's first tap */
  int64_t rows, taps, channels;
  int64_t x_pixel, x_tap, f_tap, y_pixel; /* elements from one to the next; f_tap may be negative */
} weft_depth_t;

/* Computes n pixels into y. dtype: float or double. Thread-safe. */
void weft_depth_run(weft_dtype_t dtype, const weft_depth_t *t, int64_t n, void *y);

/* df[k, c] += sum over pixels p < n of x[p, k, c] * dy[p, c] */
typedef struct weft_depth_sum {
  const void *x, *dy;
  int64_t taps, channels;
  int64_t x_pixel, x_tap, dy_pixel, df_tap;
} weft_depth_sum_t;

void weft_depth_sum(weft_dtype_t dtype, const weft_depth_sum_t *t, int64_t n, void *df);

#endif /* WEFT_KERNELS_CPU_TILE_DEPTH_H_ */
