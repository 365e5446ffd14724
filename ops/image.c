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

/* Contrast factor, lowest and highest value. */
weft_status_t *weft_infer_contrast_v1(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 3));
  return weft_shape_with_rank_at_least(c, 0, 3, &c->outputs[0]);
}

weft_status_t *weft_infer_quantized_resize(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_resize(c));
  c->outputs[1] = c->outputs[2] = WEFT_SCALAR;
  return weft_infer_scalars(c, 2, 3);
}

/* ---- pieces of images ---- */

weft_status_t *weft_infer_crop_and_resize(weft_shape_ctx_t *c) {
  weft_shape_t x, boxes, owners;
  int64_t num_boxes = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 2, &boxes));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &owners));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(boxes.dims[0], owners.dims[0], &num_boxes));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(boxes.dims[1], 4));
  return sized(c, num_boxes, 3, x.dims[3]);
}

weft_status_t *weft_infer_crop_grad_image(weft_shape_ctx_t *c) {
  weft_shape_t image;
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 3, &image));
  return weft_infer_rank(&image, 4, &c->outputs[0]);
}

/* Of the boxes, input 2. */
weft_status_t *weft_infer_crop_grad_boxes(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[2];
  return NULL;
}

weft_status_t *weft_infer_random_crop(weft_shape_ctx_t *c) {
  weft_shape_t x, unused;
  const weft_shape_t two = weft_shape_vector(2);
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 3, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[1], &two, &unused));
  c->outputs[0] = (weft_shape_t){.rank = 3, .dims = {size_value(c, 1, 0), size_value(c, 1, 1), x.dims[2]}};
  return NULL;
}

weft_status_t *weft_infer_glimpse(weft_shape_ctx_t *c) {
  weft_shape_t x, offsets;
  int64_t batch = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 2, &offsets));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(x.dims[0], offsets.dims[0], &batch));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(offsets.dims[1], 2));
  const weft_str_t noise = weft_infer_str(c, "noise");
  if (weft_infer_bool(c, "uniform_noise") && noise.length > 0 && !weft_str_is(noise, "uniform")) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The uniform_noise and noise should not be specified at the same time");
  }
  return sized(c, batch, 1, x.dims[3]);
}

weft_status_t *weft_infer_projective(weft_shape_ctx_t *c) {
  weft_shape_t x;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &x));
  return sized(c, x.dims[0], 2, x.dims[3]);
}

/* ---- boxes ---- */

weft_status_t *weft_infer_draw_boxes(weft_shape_ctx_t *c) {
  weft_shape_t x, boxes;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &x));
  const int64_t depth = x.dims[3];
  if (depth >= 0 && depth != 1 && depth != 3 && depth != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
  }
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 3, &boxes));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(boxes.dims[2], 4));
  c->outputs[0] = c->inputs[0];
  return NULL;
}

/* Begin and size of a crop, and its box. */
weft_status_t *weft_infer_sample_box(weft_shape_ctx_t *c) {
  weft_shape_t size, boxes, seed;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &size));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 3, &boxes));
  if (c->num_inputs > 2) WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 2));
  if (c->num_inputs > 3) WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 3, 1, &seed));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(size.dims[0], 3));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(boxes.dims[2], 4));
  if (c->num_inputs > 3) WEFT_RETURN_IF_ERROR(weft_infer_dim_is(seed.dims[0], 2));
  c->outputs[0] = c->outputs[1] = weft_shape_vector(3);
  c->outputs[2] = (weft_shape_t){.rank = 3, .dims = {1, 1, 4}};
  return NULL;
}

/* Boxes or overlaps, and scores; what is behind them is scalar. */
static weft_status_t *check_suppress(weft_shape_ctx_t *c, weft_shape_t *out_boxes) {
  weft_shape_t scores;
  int64_t unused = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, out_boxes));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &scores));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, c->num_inputs - 1));
  return weft_shape_merge_dim(out_boxes->dims[0], scores.dims[0], &unused);
}

weft_status_t *weft_infer_suppress(weft_shape_ctx_t *c) {
  weft_shape_t boxes;
  int64_t length = WEFT_UNKNOWN_DIM;
  WEFT_RETURN_IF_ERROR(check_suppress(c, &boxes));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(boxes.dims[1], 4));
  if (c->num_outputs > 1 && weft_infer_bool(c, "pad_to_max_output_size"))
    WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 2, &length));
  for (int i = 0; i < c->num_outputs; i++)
    c->outputs[i] = i > 0 && i == c->num_outputs - 1 ? WEFT_SCALAR : weft_shape_vector(length);
  return NULL;
}

weft_status_t *weft_infer_suppress_overlaps(weft_shape_ctx_t *c) {
  weft_shape_t overlaps;
  int64_t unused = 0;
  WEFT_RETURN_IF_ERROR(check_suppress(c, &overlaps));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(overlaps.dims[0], overlaps.dims[1], &unused));
  return weft_infer_vector(c);
}

/* How many detections of an image there are room for. */
static weft_status_t *num_detections(weft_shape_ctx_t *c, int64_t num_classes, int64_t *out) {
  int64_t total = 0, per_class = 0, product = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 3, &total));
  if (total == 0) return WEFT_ERROR(INVALID_ARGUMENT, "max_total_size should be > 0 ");
  WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 2, &per_class));
  *out = total;
  if (!weft_infer_bool(c, "pad_per_class")) return NULL;
  if (per_class == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "max_output_size_per_class must be > 0 if pad_per_class is set to true ");
  }
  WEFT_RETURN_IF_ERROR(weft_infer_multiply(per_class, num_classes, &product));
  *out = product < 0 || total < 0 ? WEFT_UNKNOWN_DIM : product < total ? product : total;
  return NULL;
}

weft_status_t *weft_infer_combined_suppress(weft_shape_ctx_t *c) {
  weft_shape_t boxes, scores;
  int64_t unused = 0, n = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &boxes));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 3, &scores));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 5));
  for (int k = 0; k < 2; k++)
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(boxes.dims[k], scores.dims[k], &unused));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(boxes.dims[3], 4));
  const int64_t q = boxes.dims[2], num_classes = scores.dims[2], batch = boxes.dims[0];
  if (q >= 0 && num_classes >= 0 && q != 1 && q != num_classes) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "third dimension of boxes must be either 1 or equal to the third dimension of scores");
  }
  WEFT_RETURN_IF_ERROR(num_detections(c, num_classes, &n));
  c->outputs[0] = (weft_shape_t){.rank = 3, .dims = {batch, n, 4}};
  c->outputs[1] = c->outputs[2] = weft_shape_matrix(batch, n);
  c->outputs[3] = weft_shape_vector(batch);
  return NULL;
}
