/* kernels/cpu/image/draw.c - DrawBoundingBoxes: the outlines of boxes, one pixel wide, over images. */
#include <inttypes.h>

#include "kernels/cpu/image/resize.h"

enum { CORNERS = 4, MAX_DEPTH = 4, NUM_COLOURS = 10 };

/* What boxes are drawn in, one after the other, where there is no input for it. */
static const float default_colours[NUM_COLOURS][MAX_DEPTH] = {
    {1, 1, 0, 1},       {0, 0, 1, 1},    {1, 0, 0, 1},    {0, 1, 0, 1}, {0.5F, 0, 0.5F, 1},
    {0.5F, 0.5F, 0, 1}, {0.5F, 0, 0, 1}, {0, 0, 0.5F, 1}, {0, 1, 1, 1}, {1, 0, 1, 1},
};

typedef struct draw_job {
  const float *boxes, *colours;
  int64_t num_boxes, num_colours, colour_stride;
  int64_t height, width, depth;
  bool is_half;
  char *y;
} draw_job_t;

/* The pixels [from, to) of a line, `step` pixels apart. */
static void draw_line(const draw_job_t *j, int64_t first, int64_t count, int64_t step, const float *colour) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t at = (first + i * step) * j->depth;
    for (int64_t c = 0; c < j->depth; c++) {
      const float v = j->depth == 1 && j->colour_stride == 0 ? 1 : colour[c];
      if (j->is_half) {
        ((uint16_t *)j->y)[at + c] = weft_f32_to_f16(v);
      } else {
        ((float *)j->y)[at + c] = v;
      }
    }
  }
}

static weft_status_t *draw_box(const draw_job_t *j, int64_t image, const float *box, const float *colour) {
  const float last_row = (float)(j->height - 1), last_column = (float)(j->width - 1);
  const int64_t top = weft_pixel_index(box[0] * last_row), left = weft_pixel_index(box[1] * last_column),
                bottom = weft_pixel_index(box[2] * last_row), right = weft_pixel_index(box[3] * last_column);
  if (top > bottom || left > right) return NULL;
  if (top >= j->height || bottom < 0 || left >= j->width || right < 0) return NULL;
  if (j->height == 0 || j->width == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "a box cannot be drawn on an image without pixels");
  const int64_t from_row = top < 0 ? 0 : top, to_row = bottom < j->height ? bottom : j->height - 1,
                from_column = left < 0 ? 0 : left, to_column = right < j->width ? right : j->width - 1;
  const int64_t base = image * j->height * j->width, across = to_column - from_column + 1,
                down = to_row - from_row + 1;
  if (top >= 0) draw_line(j, base + top * j->width + from_column, across, 1, colour);
  if (bottom < j->height) draw_line(j, base + bottom * j->width + from_column, across, 1, colour);
  if (left >= 0) draw_line(j, base + from_row * j->width + left, down, j->width, colour);
  if (right < j->width) draw_line(j, base + from_row * j->width + right, down, j->width, colour);
  return NULL;
}

static weft_status_t *check_boxes(const weft_shape_t *x, const weft_shape_t *boxes) {
  if (x->rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "The rank of the images should be 4");
  if (boxes->rank != 3) return WEFT_ERROR(INVALID_ARGUMENT, "The rank of the boxes tensor should be 3");
  if (x->dims[0] != boxes->dims[0]) return WEFT_ERROR(INVALID_ARGUMENT, "The batch sizes should be the same");
  const int64_t depth = x->dims[3];
  if (depth != 4 && depth != 1 && depth != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
  }
  if (boxes->dims[2] != CORNERS) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The size of the third dimension of the box must be 4. Received: %" PRId64,
                      boxes->dims[2]);
  }
  return NULL;
}

/* The colours of input 2, or the usual ones. */
static weft_status_t *read_colours(weft_kernel_ctx_t *ctx, draw_job_t *j) {
  j->colours = default_colours[0];
  j->num_colours = NUM_COLOURS;
  j->colour_stride = 0;
  if (ctx->node->num_inputs < 3) return NULL;
  const weft_tensor_t *colours = weft_in(ctx, 2);
  const weft_shape_t *s = &colours->shape;
  if (s->rank != 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "colors must be a 2-D matrix, got shape %s", WEFT_SHAPE_TEXT(s));
  if (s->dims[1] < j->depth) {
    return WEFT_ERROR(INVALID_ARGUMENT, "colors must have equal or more channels than the image provided: %s",
                      WEFT_SHAPE_TEXT(s));
  }
  if (colours->count == 0) return NULL;
  j->colours = colours->data;
  j->num_colours = s->dims[0];
  j->colour_stride = s->dims[1];
  return NULL;
}

static weft_status_t *draw(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *boxes = weft_in(ctx, 1), *y = NULL;
  WEFT_RETURN_IF_ERROR(check_boxes(&x->shape, &boxes->shape));
  const int64_t *dims = x->shape.dims;
  draw_job_t j = {.boxes = boxes->data,
                  .num_boxes = boxes->shape.dims[1],
                  .height = dims[1],
                  .width = dims[2],
                  .depth = dims[3],
                  .is_half = x->dtype == WEFT_F16};
  WEFT_RETURN_IF_ERROR(read_colours(ctx, &j));
  const weft_shape_t shape = x->shape;
  const void *from = x->data;
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, x->dtype, &shape, &y));
  if (y->data != from && y->bytes > 0) memcpy(y->data, from, y->bytes);
  j.y = y->data;
  const int64_t stride = j.colour_stride == 0 ? MAX_DEPTH : j.colour_stride;
  for (int64_t i = 0; i < dims[0]; i++) {
    for (int64_t b = 0; b < j.num_boxes; b++) {
      WEFT_RETURN_IF_ERROR(
          draw_box(&j, i, j.boxes + (i * j.num_boxes + b) * CORNERS, j.colours + b % j.num_colours * stride));
    }
  }
  return NULL;
}

#define DRAW_TYPES (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32))
const weft_kernel_t weft_cpu_draw_kernels[] = {
    WEFT_KERNEL("DrawBoundingBoxes", "T", DRAW_TYPES, NULL, draw, NULL),
    WEFT_KERNEL("DrawBoundingBoxesV2", "T", DRAW_TYPES, NULL, draw, NULL),
    {0},
};
