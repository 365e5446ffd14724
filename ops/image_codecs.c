/* ops/image_codecs.c - shapes of image files: decoders and encoders. */
#include "ops/infer.h"

static weft_shape_t shape3(int64_t a, int64_t b, int64_t c) {
  return (weft_shape_t){.rank = 3, .dims = {a, b, c}};
}

/* The channels that a decoder is asked for: unknown if the file decides. */
static weft_status_t *wanted_channels(weft_shape_ctx_t *c, int64_t *out) {
  int64_t channels = weft_infer_int(c, "channels");
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  if (channels < 0 || channels > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "channels must be non-negative, got %lld", (long long)channels);
  }
  *out = channels == 0 ? WEFT_UNKNOWN_DIM : channels;
  return NULL;
}

weft_status_t *weft_infer_decode_image(weft_shape_ctx_t *c) {
  int64_t channels = 0;
  WEFT_RETURN_IF_ERROR(wanted_channels(c, &channels));
  c->outputs[0] = shape3(WEFT_UNKNOWN_DIM, WEFT_UNKNOWN_DIM, channels);
  return NULL;
}

/* One image, or the frames of an animation: then not even the rank is known. */
weft_status_t *weft_infer_decode_any_image(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_decode_image(c));
  if (weft_infer_bool(c, "expand_animations")) c->outputs[0] = (weft_shape_t){.rank = WEFT_UNKNOWN_DIM};
  return NULL;
}

weft_status_t *weft_infer_decode_gif(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  c->outputs[0] =
      (weft_shape_t){.rank = 4, .dims = {WEFT_UNKNOWN_DIM, WEFT_UNKNOWN_DIM, WEFT_UNKNOWN_DIM, 3}};
  return NULL;
}

/* Input 1 is the window: y, x, height, width. */
weft_status_t *weft_infer_crop_jpeg(weft_shape_ctx_t *c) {
  int64_t channels = 0, size[2] = {WEFT_UNKNOWN_DIM, WEFT_UNKNOWN_DIM};
  weft_shape_t window;
  WEFT_RETURN_IF_ERROR(wanted_channels(c, &channels));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &window));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(window.dims[0], 4));
  for (int k = 0; weft_infer_is_known(c, 1) && k < 2; k++) {
    size[k] = weft_infer_value(c, 1, 2 + k);
    if (size[k] < WEFT_UNKNOWN_DIM) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %lld must be >= 0", (long long)size[k]);
    }
  }
  c->outputs[0] = shape3(size[0], size[1], channels);
  return NULL;
}

weft_status_t *weft_infer_encode_image(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 3, NULL));
  c->outputs[0] = WEFT_SCALAR;
  return NULL;
}

/* A file for each image of a batch. */
weft_status_t *weft_infer_encode_images(weft_shape_ctx_t *c) {
  weft_shape_t images;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 3, &images));
  if (images.rank != WEFT_UNKNOWN_DIM) images.rank -= 3;
  c->outputs[0] = images;
  return NULL;
}

weft_status_t *weft_infer_jpeg_shape(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  c->outputs[0] = weft_shape_vector(3);
  return NULL;
}
