/* kernels/cpu/image/crop.c - CropAndResize and its gradients: boxes of images, each brought to one size.
 *
 * A box is y1, x1, y2, x2, where 0 is the first row or column of its image and 1 the last. What lies outside
 * of the image has a fixed value and no gradient. Positions are in single precision, as in TensorFlow. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/image/resize.h"

enum { CORNERS = 4 };

typedef struct crop_job {
  const float *x, *boxes, *dy;                /* of the gradients dy is that of the crops */
  const int32_t *owners;                      /* of each box: its image */
  void *y;                                    /* crops; of the gradients dx, or the boxes' */
  int64_t images, height, width, channels;    /* of the images */
  int64_t num_boxes, crop_height, crop_width; /* of the crops */
  bool is_nearest;
  float outside;
} crop_job_t;

/* Where a row or column of a crop lies in its image. */
typedef struct spot {
  int64_t lower, upper, nearest;
  float part; /* of the way from the lower to the upper one */
  bool is_inside;
} spot_t;

/* Pixel i of n between `low` and `high`; `step`: pixels of the image from one to the next. */
static spot_t spot_of(int64_t i, int64_t n, float low, float high, int64_t size, float step) {
  const float last = (float)(size - 1);
  const float at = n > 1 ? low * last + (float)i * step : (float)(0.5 * (double)(low + high) * (double)last);
  if (!(at >= 0 && at <= last)) return (spot_t){.is_inside = false};
  const float below = floorf(at);
  return (spot_t){.lower = weft_resize_bound((int64_t)below, size),
                  .upper = weft_resize_bound((int64_t)ceilf(at), size),
                  .nearest = weft_resize_bound((int64_t)roundf(at), size),
                  .part = at - below,
                  .is_inside = true};
}

static float step_of(int64_t n, float low, float high, int64_t size) {
  return n > 1 ? (high - low) * (float)(size - 1) / (float)(n - 1) : 0;
}

static spot_t row_of(const crop_job_t *j, const float *box, int64_t i) {
  return spot_of(i, j->crop_height, box[0], box[2], j->height,
                 step_of(j->crop_height, box[0], box[2], j->height));
}

static spot_t column_of(const crop_job_t *j, const float *box, int64_t i) {
  return spot_of(i, j->crop_width, box[1], box[3], j->width,
                 step_of(j->crop_width, box[1], box[3], j->width));
}

/* The four pixels around a place, each with all its channels. */
typedef struct corners {
  const float *top_left, *top_right, *bottom_left, *bottom_right;
} corners_t;

static corners_t corners_of(const crop_job_t *j, const float *image, const spot_t *row,
                            const spot_t *column) {
  const float *top = image + row->lower * j->width * j->channels,
              *bottom = image + row->upper * j->width * j->channels;
  const int64_t left = column->lower * j->channels, right = column->upper * j->channels;
  return (corners_t){top + left, top + right, bottom + left, bottom + right};
}

/* ---- forward ---- */

static void crop_pixel(const crop_job_t *j, const float *image, const spot_t *row, const spot_t *column,
                       float *y) {
  if (!row->is_inside || !column->is_inside) {
    for (int64_t c = 0; c < j->channels; c++) y[c] = j->outside;
  } else if (j->is_nearest) {
    memcpy(y, image + (row->nearest * j->width + column->nearest) * j->channels,
           (size_t)j->channels * sizeof *y);
  } else {
    const corners_t at = corners_of(j, image, row, column);
    for (int64_t c = 0; c < j->channels; c++) {
      const float top = at.top_left[c] + (at.top_right[c] - at.top_left[c]) * column->part;
      const float bottom = at.bottom_left[c] + (at.bottom_right[c] - at.bottom_left[c]) * column->part;
      y[c] = top + (bottom - top) * row->part;
    }
  }
}

static void crop_rows(void *arg, int64_t begin, int64_t end) {
  const crop_job_t *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const int64_t b = i / j->crop_height;
    const float *box = j->boxes + b * CORNERS,
                *image = j->x + j->owners[b] * j->height * j->width * j->channels;
    const spot_t row = row_of(j, box, i % j->crop_height);
    float *y = (float *)j->y + i * j->crop_width * j->channels;
    for (int64_t w = 0; w < j->crop_width; w++) {
      const spot_t column = column_of(j, box, w);
      crop_pixel(j, image, &row, &column, y + w * j->channels);
    }
  }
}

static weft_status_t *check_image(const weft_shape_t *x, crop_job_t *j) {
  if (x->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input image must be 4-D, got shape %s", WEFT_SHAPE_TEXT(x));
  j->images = x->dims[0];
  j->height = x->dims[1];
  j->width = x->dims[2];
  j->channels = x->dims[3];
  if (j->height > 0 && j->width > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "image dimensions must be positive");
}

static weft_status_t *check_boxes(const weft_tensor_t *boxes, const weft_tensor_t *owners, crop_job_t *j) {
  j->boxes = boxes->data;
  j->owners = owners->data;
  if (boxes->count == 0 && owners->count == 0) return NULL;
  if (boxes->shape.rank != 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "boxes must be 2-D, got: %s", WEFT_SHAPE_TEXT(&boxes->shape));
  if (boxes->shape.dims[1] != CORNERS) return WEFT_ERROR(INVALID_ARGUMENT, "boxes must have 4 columns");
  if (owners->shape.rank != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "box_index must be 1-D, got: %s", WEFT_SHAPE_TEXT(&owners->shape));
  if (owners->count != boxes->shape.dims[0])
    return WEFT_ERROR(INVALID_ARGUMENT, "box_index has incompatible shape");
  j->num_boxes = owners->count;
  return NULL;
}

static weft_status_t *check_owners(const crop_job_t *j) {
  for (int64_t b = 0; b < j->num_boxes; b++) {
    if (j->owners[b] < 0 || j->owners[b] >= j->images)
      return WEFT_ERROR(OUT_OF_RANGE, "box_index has values outside [0, batch_size)");
  }
  return NULL;
}

static void run_rows(weft_kernel_ctx_t *ctx, crop_job_t *j, weft_range_fn *fn) {
  const double cost = 8.0 * (double)j->crop_width * (double)j->channels;
  weft_parallel_for(ctx->device->pool, j->num_boxes * j->crop_height,
                    (int64_t)(WEFT_CPU_GRAIN / (cost + 1)) + 1, fn, j);
}

WEFT_ATTRS(crop, (STRING, method), (FLOAT, extrapolation_value))
static weft_status_t *crop(weft_kernel_ctx_t *ctx, const crop_attrs_t *attrs) {
  const weft_tensor_t *boxes = weft_in(ctx, 1), *owners = weft_in(ctx, 2), *size = weft_in(ctx, 3);
  crop_job_t j = {.is_nearest = weft_str_is(attrs->method, "nearest"), .outside = attrs->extrapolation_value};
  weft_tensor_t *x = NULL, *y = NULL;
  WEFT_RETURN_IF_ERROR(check_image(&weft_in(ctx, 0)->shape, &j));
  if (boxes->shape.rank != 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "boxes must be 2-D, got: %s", WEFT_SHAPE_TEXT(&boxes->shape));
  if (owners->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "box_indices must be rank 1 but is shape %s",
                      WEFT_SHAPE_TEXT(&owners->shape));
  }
  WEFT_RETURN_IF_ERROR(check_boxes(boxes, owners, &j));
  WEFT_RETURN_IF_ERROR(weft_resize_size(size, "crop_size", &j.crop_height, &j.crop_width));
  weft_shape_t shape = weft_resize_shape(j.num_boxes, j.crop_height, j.crop_width, j.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &y));
  WEFT_RETURN_IF_ERROR(check_owners(&j));
  for (int64_t k = 0; k < boxes->count; k++) {
    if (!isfinite(j.boxes[k]))
      return WEFT_ERROR(INVALID_ARGUMENT, "Boxes contains at least one element that is not finite");
  }
  if (y->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_image_floats(ctx, 0, &x));
  j.x = x->data;
  j.y = y->data;
  run_rows(ctx, &j, crop_rows);
  weft_tensor_release(x);
  return NULL;
}

/* ---- gradients ---- */

static weft_status_t *check_crops(const weft_tensor_t *dy, crop_job_t *j) {
  if (dy->shape.rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "grads image must be 4-D, got shape %s", WEFT_SHAPE_TEXT(&dy->shape));
  }
  j->dy = dy->data;
  j->crop_height = dy->shape.dims[1];
  j->crop_width = dy->shape.dims[2];
  if (j->crop_height > 0 && j->crop_width > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "grads dimensions must be positive");
}

static weft_status_t *check_num_crops(const weft_tensor_t *dy, const crop_job_t *j) {
  if (dy->shape.dims[0] == j->num_boxes) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "boxes and grads have incompatible shape");
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/image/crop_grad_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
typedef void crop_grad_fn(const crop_job_t *j);
static crop_grad_fn *const crop_grad_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM crop_grad
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

WEFT_ATTRS(crop_grad_image, (STRING, method))
static weft_status_t *crop_grad_image(weft_kernel_ctx_t *ctx, const crop_grad_image_attrs_t *attrs) {
  const weft_tensor_t *dy = weft_in(ctx, 0), *size = weft_in(ctx, 3);
  crop_job_t j = {.is_nearest = weft_str_is(attrs->method, "nearest")};
  weft_tensor_t *dx = NULL;
  WEFT_RETURN_IF_ERROR(check_crops(dy, &j));
  WEFT_RETURN_IF_ERROR(check_boxes(weft_in(ctx, 1), weft_in(ctx, 2), &j));
  WEFT_RETURN_IF_ERROR(check_num_crops(dy, &j));
  if (size->shape.rank != 1 || size->count != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "image_size must be 1-D with 4 elements, got shape %s",
                      WEFT_SHAPE_TEXT(&size->shape));
  }
  const int32_t *dims = size->data;
  const int64_t wanted[4] = {dims[0], dims[1], dims[2], dims[3]};
  if (wanted[1] <= 0 || wanted[2] <= 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "image dimensions must be positive");
  if (wanted[3] != dy->shape.dims[3])
    return WEFT_ERROR(INVALID_ARGUMENT, "image_size and grads are incompatible");
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_shape_make(wanted, 4, &shape));
  WEFT_RETURN_IF_ERROR(check_image(&shape, &j));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &dx));
  WEFT_RETURN_IF_ERROR(check_owners(&j));
  weft_cpu_zero(dx);
  j.y = dx->data;
  if (dx->count > 0) crop_grad_fns[dx->dtype](&j);
  return NULL;
}

/* One pixel of a crop to the gradient of its box: how the image changes there, down and to the right, times
 * how much each edge of the box moves the place. */
static void grad_boxes_pixel(const crop_job_t *j, const corners_t *at, const spot_t *row,
                             const spot_t *column, const float *dy, const double by[CORNERS], float *out) {
  for (int64_t c = 0; c < j->channels; c++) {
    float down = (1 - column->part) * (at->bottom_left[c] - at->top_left[c]) +
                 column->part * (at->bottom_right[c] - at->top_right[c]);
    float across = (1 - row->part) * (at->top_right[c] - at->top_left[c]) +
                   row->part * (at->bottom_right[c] - at->bottom_left[c]);
    down *= dy[c];
    across *= dy[c];
    for (int k = 0; k < CORNERS; k++) {
      const float d = k % 2 == 0 ? down : across;
      const int64_t n = k % 2 == 0 ? j->crop_height : j->crop_width;
      out[k] = n > 1 ? out[k] + d * (float)by[k] : (float)(out[k] + (double)d * by[k]);
    }
  }
}

/* How far the place of row or column i of n moves with the lower and with the higher edge of a box. */
static void moves(int64_t i, int64_t n, int64_t size, double *low, double *high) {
  if (n > 1) {
    const float along = (float)i * ((float)(size - 1) / (float)(n - 1));
    *low = (float)(size - 1) - along;
    *high = along;
  } else {
    *low = *high = 0.5 * (double)(size - 1);
  }
}

static void grad_boxes_range(void *arg, int64_t begin, int64_t end) {
  const crop_job_t *j = arg;
  const float ratio_h = j->crop_height > 1 ? (float)(j->height - 1) / (float)(j->crop_height - 1) : 0,
              ratio_w = j->crop_width > 1 ? (float)(j->width - 1) / (float)(j->crop_width - 1) : 0;
  for (int64_t b = begin; b < end; b++) {
    const float *box = j->boxes + b * CORNERS,
                *image = j->x + j->owners[b] * j->height * j->width * j->channels;
    float *out = (float *)j->y + b * CORNERS;
    double by[CORNERS];
    for (int64_t h = 0; h < j->crop_height; h++) {
      const spot_t row = spot_of(h, j->crop_height, box[0], box[2], j->height, (box[2] - box[0]) * ratio_h);
      moves(h, j->crop_height, j->height, &by[0], &by[2]);
      for (int64_t w = 0; w < j->crop_width && row.is_inside; w++) {
        const spot_t column =
            spot_of(w, j->crop_width, box[1], box[3], j->width, (box[3] - box[1]) * ratio_w);
        if (!column.is_inside) continue;
        moves(w, j->crop_width, j->width, &by[1], &by[3]);
        const corners_t at = corners_of(j, image, &row, &column);
        const float *dy = j->dy + ((b * j->crop_height + h) * j->crop_width + w) * j->channels;
        grad_boxes_pixel(j, &at, &row, &column, dy, by, out);
      }
    }
  }
}

static weft_status_t *crop_grad_boxes(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *dy = weft_in(ctx, 0);
  crop_job_t j = {.num_boxes = 0};
  weft_tensor_t *x = NULL, *d = NULL;
  WEFT_RETURN_IF_ERROR(check_crops(dy, &j));
  WEFT_RETURN_IF_ERROR(check_image(&weft_in(ctx, 1)->shape, &j));
  if (j.channels != dy->shape.dims[3]) return WEFT_ERROR(INVALID_ARGUMENT, "image, grads depth differ");
  WEFT_RETURN_IF_ERROR(check_boxes(weft_in(ctx, 2), weft_in(ctx, 3), &j));
  WEFT_RETURN_IF_ERROR(check_num_crops(dy, &j));
  weft_shape_t shape = weft_shape_matrix(j.num_boxes, CORNERS);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &d));
  WEFT_RETURN_IF_ERROR(check_owners(&j));
  weft_cpu_zero(d);
  if (d->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_image_floats(ctx, 1, &x));
  j.x = x->data;
  j.y = d->data;
  weft_parallel_for(ctx->device->pool, j.num_boxes, WEFT_CPU_GRAIN / (8 * (dy->count / j.num_boxes) + 1) + 1,
                    grad_boxes_range, &j);
  weft_tensor_release(x);
  return NULL;
}

#define CROP_TYPES (WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16))
const weft_kernel_t weft_cpu_crop_kernels[] = {
    WEFT_KERNEL_ATTRS("CropAndResize", "T", CROP_TYPES & ~WEFT_DTYPE_BIT(WEFT_BF16), crop),
    WEFT_KERNEL("CropAndResizeGradBoxes", "T", CROP_TYPES & ~WEFT_DTYPE_BIT(WEFT_BF16), NULL, crop_grad_boxes,
                NULL),
    WEFT_KERNEL_ATTRS("CropAndResizeGradImage", "T", WEFT_SET_FLOATS & ~WEFT_DTYPE_BIT(WEFT_BF16),
                      crop_grad_image),
    {0},
};
