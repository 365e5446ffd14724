/* ops/fft.c - shapes of Fourier transforms of the last one, two or three dimensions. */
#include "ops/infer.h"

static weft_status_t *unchanged(weft_shape_ctx_t *c, int rank) {
  return weft_infer_rank_at_least(&c->inputs[0], rank, &c->outputs[0]);
}
weft_status_t *weft_infer_fft(weft_shape_ctx_t *c) { return unchanged(c, 1); }
weft_status_t *weft_infer_fft2d(weft_shape_ctx_t *c) { return unchanged(c, 2); }
weft_status_t *weft_infer_fft3d(weft_shape_ctx_t *c) { return unchanged(c, 3); }

/* Input 1: the lengths of the transform, of real values. */
static weft_status_t *real(weft_shape_ctx_t *c, int rank, bool forward) {
  weft_shape_t out;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[0], rank, &out));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(weft_infer_dim(&c->inputs[1], 0), rank));
  for (int i = 0; i < rank && out.rank >= 0; i++) {
    int64_t dim = WEFT_UNKNOWN_DIM;
    if (weft_infer_is_known(c, 1)) {
      dim = weft_infer_value(c, 1, i);
      if (forward && i == rank - 1 && dim != 0) dim = dim / 2 + 1;
      if (dim < 0) dim = WEFT_UNKNOWN_DIM;
    }
    out.dims[out.rank - rank + i] = dim;
  }
  c->outputs[0] = out;
  return NULL;
}
weft_status_t *weft_infer_rfft(weft_shape_ctx_t *c) { return real(c, 1, true); }
weft_status_t *weft_infer_rfft2d(weft_shape_ctx_t *c) { return real(c, 2, true); }
weft_status_t *weft_infer_rfft3d(weft_shape_ctx_t *c) { return real(c, 3, true); }
weft_status_t *weft_infer_irfft(weft_shape_ctx_t *c) { return real(c, 1, false); }
weft_status_t *weft_infer_irfft2d(weft_shape_ctx_t *c) { return real(c, 2, false); }
weft_status_t *weft_infer_irfft3d(weft_shape_ctx_t *c) { return real(c, 3, false); }
