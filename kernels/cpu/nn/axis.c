/* kernels/cpu/nn/axis.c - see the header. */
#include "kernels/cpu/nn/axis.h"

weft_axis_t weft_axis_backward(const weft_window_t *w, int64_t phase) {
  weft_axis_t a = {.in = w->out,
                   .out = w->in,
                   .count = phase < w->in ? (w->in - phase + w->stride - 1) / w->stride : 0,
                   .first = phase,
                   .step = w->stride,
                   .stride = 1,
                   .dist = 1};
  int64_t first = -1, second = -1; /* taps that reach the phase: each period-th */
  for (int64_t k = 0; k < w->k && second < 0; k++) {
    if ((phase + w->before - k * w->dilation) % w->stride != 0) continue;
    if (first < 0) {
      first = k;
    } else {
      second = k;
    }
  }
  if (first < 0) return a;
  const int64_t period = second < 0 ? w->k : second - first;
  a.taps = (w->k - 1 - first) / period + 1;
  a.tap = first + (a.taps - 1) * period;
  a.tap_step = -period;
  a.from = (phase + w->before - a.tap * w->dilation) / w->stride;
  if (second >= 0) a.dist = period * w->dilation / w->stride;
  return a;
}

bool weft_axis_has_gaps(const weft_window_t *w) {
  for (int64_t phase = 0; phase < w->stride && phase < w->in; phase++) {
    if (weft_axis_backward(w, phase).taps == 0) return true;
  }
  return false;
}
