/* kernels/cpu/nn/axis.h - one spatial dimension of a convolution, or of a part of its gradient.
 *
 * The gradient of the input with stride s is, in each dimension, s convolutions of stride 1: one for the
 * inputs at `phase`, `phase` + s, ..., with each tap of the filter that reaches them, the last first. So what
 * computes a convolution computes its gradient.
 */
#ifndef WEFT_KERNELS_CPU_NN_AXIS_H_
#define WEFT_KERNELS_CPU_NN_AXIS_H_

#include "kernels/cpu/nn/window.h"

/* Output i < count lies at first + i * step. Its tap t < taps reads the source at from + i * stride + t *
 * dist, which may be outside, and the filter at tap + t * tap_step. */
typedef struct weft_axis {
  int64_t in, out; /* sizes */
  int64_t count, first, step;
  int64_t from, stride, dist;
  int64_t taps, tap, tap_step;
} weft_axis_t;

/* Of the convolution itself. */
static inline weft_axis_t weft_axis_forward(const weft_window_t *w) {
  return (weft_axis_t){.in = w->in,
                       .out = w->out,
                       .count = w->out,
                       .step = 1,
                       .from = -w->before,
                       .stride = w->stride,
                       .dist = w->dilation,
                       .taps = w->k,
                       .tap_step = 1};
}
/* Of the gradient: the source is the output's gradient. `phase` < stride; count or taps may be 0. */
weft_axis_t weft_axis_backward(const weft_window_t *w, int64_t phase);
/* Are there inputs that no window reaches? */
bool weft_axis_has_gaps(const weft_window_t *w);

static inline int64_t weft_axis_divide(int64_t a, int64_t b) { return b == 1 ? a : a / b; } /* mostly it is */

/* The taps of output i that lie inside of the source: [*begin, *end). */
static inline void weft_axis_taps(const weft_axis_t *a, int64_t i, int64_t *begin, int64_t *end) {
  const int64_t from = a->from + i * a->stride;
  *begin = from < 0 ? weft_axis_divide(-from + a->dist - 1, a->dist) : 0;
  *end = from >= a->in ? 0 : weft_axis_divide(a->in - 1 - from, a->dist) + 1;
  if (*end > a->taps) *end = a->taps;
  if (*begin > *end) *begin = *end;
}
/* The outputs all of whose taps lie inside: [*begin, *end). */
static inline void weft_axis_inside(const weft_axis_t *a, int64_t *begin, int64_t *end) {
  const int64_t last = a->in - 1 - a->from - (a->taps - 1) * a->dist;
  *begin = a->from < 0 ? (-a->from + a->stride - 1) / a->stride : 0;
  *end = last < 0 ? 0 : last / a->stride + 1;
  if (*end > a->count) *end = a->count;
  if (*begin > *end) *begin = *end;
}

#endif /* WEFT_KERNELS_CPU_NN_AXIS_H_ */
