/* kernels/cpu/nn/convolve.h - convolution over [N,D,H,W,C], and what its gradients need.
 *
 * An image is a volume of depth 1. float and double are mostly computed without columns (direct.h). Else a
 * row of the column matrix holds the KD*KH*KW*CG inputs that one output pixel sees; so a convolution is a
 * matrix product of columns and filter. Columns are made for a block of pixels at a time, which stays in the
 * cache. The 1x1x1 convolution of stride 1 needs no columns: the image is the column matrix.
 */
#ifndef WEFT_KERNELS_CPU_NN_CONVOLVE_H_
#define WEFT_KERNELS_CPU_NN_CONVOLVE_H_

#include "kernels/cpu/loops/epilogue.h"
#include "kernels/cpu/math/kept.h"
#include "kernels/cpu/nn/window.h"

/* N images of C channels; filters of CG channels (C is a multiple: groups) and OC outputs. */
typedef struct weft_conv {
  weft_dtype_t dtype; /* float, double, half, bfloat16 or int32 */
  int64_t n, c, cg, oc, groups;
  weft_window_t s[WEFT_SPACE];
  /* Of the forward one; may be NULL. */
  const weft_epilogue_t *epilogue; /* of y, which is float */
  weft_kept_t *kept;               /* where the panels of the filter may be kept */
  weft_tensor_t *filter;           /* the owner of the bytes f, where there is a `kept` */
} weft_conv_t;

/* y [N,OD,OH,OW,OC] = x [N,D,H,W,C] * f [KD,KH,KW,CG,OC], then the epilogue. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_conv_forward(weft_thread_pool_t *pool, const weft_conv_t *v,
                                                 const void *x, const void *f, void *y);
/* May y be the epilogue's addend, which is overwritten? */
bool weft_conv_sums_in_place(const weft_conv_t *v);
/* dx from dy and f; half and bfloat16 are not accepted: the sums would be rounded at each step. */
WEFT_MUST_CHECK weft_status_t *weft_conv_backprop_input(weft_thread_pool_t *pool, const weft_conv_t *v,
                                                        const void *dy, const void *f, void *dx);
/* df from x and dy; likewise. The result does not depend on the number of threads. */
WEFT_MUST_CHECK weft_status_t *weft_conv_backprop_filter(weft_thread_pool_t *pool, const weft_conv_t *v,
                                                         const void *x, const void *dy, void *df);
/* The naive twin of the forward one: seven loops, float and double. For tests, and to read. */
void weft_conv_naive(const weft_conv_t *v, const void *x, const void *f, void *y);

#endif /* WEFT_KERNELS_CPU_NN_CONVOLVE_H_ */
