/* ops/image.c - shapes of images: resizing, colour, boxes, file formats. */
#include "ops/infer.h"

static weft_shape_t shape4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (weft_shape_t){.rank = 4, .dims = {a, b, c, d}};
}

/* ---- resizing ---- */

/* Element k of input i as a dim: unknown below 0, where the kernel refuses it. */
static int64_t size_value(const weft_shape_ctx_t *c, int i, int64_t k) {
  if (!weft_infer_is_known(c, i) || weft_infer_value(c, i, k) < 0) return WEFT_UNKNOWN_DIM;
  return weft_infer_value(c, i, k);
}

/* Height and width that input `i` holds. */
static weft_status_t *size_input(weft_shape_ctx_t *c, int i, int64_t *height, int64_t *width) {
  weft_shape_t size;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &size));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(size.dims[0], 2));
  *height = size_value(c, i, 0);
  *width = size_value(c, i, 1);
  return NULL;
}

static weft_status_t *sized(weft_shape_ctx_t *c, int64_t batch, int i, int64_t channels) {
  int64_t height = 0, width = 0;
  WEFT_RETURN_IF_ERROR(size_input(c, i, &height, &width));
  c->outputs[0] = shape4(batch, height, width, channels);
  return NULL;
}

weft_status_t *weft_infer_resize(weft_shape_ctx_t *c) {
  weft_shape_t x;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &x));
  return sized(c, x.dims[0], 1, x.dims[3]);
}

/* The gradient has the shape of the image, input 1. */
weft_status_t *weft_infer_resize_grad(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[1];
  return NULL;
}

/* ---- colour ---- */

weft_status_t *weft_infer_colour_space(weft_shape_ctx_t *c) {
  weft_shape_t x;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &x));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(weft_infer_dim(&x, -1), 3));
  if (x.rank > 0) x.dims[x.rank - 1] = 3;
  c->outputs[0] = x;
  return NULL;
}

weft_status_t *weft_infer_contrast(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  return weft_shape_with_rank_at_least(c, 0, 3, &c->outputs[0]);
}

weft_status_t *weft_infer_images(weft_shape_ctx_t *c) {
  return weft_shape_with_rank_at_least(c, 0, 3, &c->outputs[0]);
}
