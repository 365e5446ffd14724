/* kernels/cpu/nn/depth_lines.h - depthwise convolution with one filter to a channel, a row of pixels at a
 * time.
 *
 * The pixels whose windows lie inside of the image are computed together, those at the ends of a row one by
 * one with the taps that they have. The gradient of the input is the same computation (axis.h).
 */
#ifndef WEFT_KERNELS_CPU_NN_DEPTH_LINES_H_
#define WEFT_KERNELS_CPU_NN_DEPTH_LINES_H_

#include "kernels/cpu/loops/epilogue.h"
#include "kernels/cpu/nn/window.h"

/* x [n,H,W,c], f [KH,KW,c], dy [n,OH,OW,c] of float or double; `out` is what is computed of the other two. */
typedef struct weft_depth_lines {
  weft_dtype_t dtype;
  int64_t n, c;
  weft_window_t h, w;
  const void *x, *f, *dy;
  void *out;
  const weft_epilogue_t *epilogue; /* of the forward one, of floats; NULL: none */
} weft_depth_lines_t;

/* Is it computed here? Not so: windows of very many rows, very long strides. */
bool weft_depth_lines_fit(const weft_depth_lines_t *d);
/* dy's place is `out`. Results do not depend on the number of threads. Errors: RESOURCE_EXHAUSTED (the
 * filter's gradient). */
WEFT_MUST_CHECK weft_status_t *weft_depth_lines_forward(weft_thread_pool_t *pool,
                                                        const weft_depth_lines_t *d);
WEFT_MUST_CHECK weft_status_t *weft_depth_lines_input(weft_thread_pool_t *pool, const weft_depth_lines_t *d);
WEFT_MUST_CHECK weft_status_t *weft_depth_lines_filter(weft_thread_pool_t *pool, const weft_depth_lines_t *d);

#endif /* WEFT_KERNELS_CPU_NN_DEPTH_LINES_H_ */
