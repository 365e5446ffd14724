/* kernels/cpu/image/resize.c - sizes and scales of the resizing ops, with their checks. */
#include "kernels/cpu/image/resize.h"

#include <inttypes.h>
#include <math.h>

weft_shape_t weft_resize_shape(int64_t batch, int64_t height, int64_t width, int64_t channels) {
  return (weft_shape_t){.rank = 4, .dims = {batch, height, width, channels}};
}

float weft_resize_scale(int64_t in, int64_t out, bool align_corners) {
  return align_corners && in > 1 && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
}

static weft_status_t *check_attrs(const weft_resize_attrs_t *attrs) {
  if (!attrs->half_pixel_centers || !attrs->align_corners) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "If half_pixel_centers is True, align_corners must be False.");
}

weft_status_t *weft_resize_size(const weft_tensor_t *t, const char *what, int64_t *height, int64_t *width) {
  if (t->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 1-dimensional, got shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  if (t->count != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must have two elements, got shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *height = ((const int32_t *)t->data)[0];
  *width = ((const int32_t *)t->data)[1];
  if (*height <= 0 || *width <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s's elements must be positive, got %" PRId64 " and %" PRId64, what,
                      *height, *width);
  }
  return NULL;
}

static void set_scales(weft_resize_t *r, const weft_resize_attrs_t *attrs) {
  r->scale_h = weft_resize_scale(r->in_h, r->out_h, attrs->align_corners);
  r->scale_w = weft_resize_scale(r->in_w, r->out_w, attrs->align_corners);
  r->half_pixels = attrs->half_pixel_centers;
}

weft_status_t *weft_resize_plan(const weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs,
                                weft_resize_t *out) {
  const weft_shape_t *x = &weft_in(ctx, 0)->shape;
  WEFT_RETURN_IF_ERROR(check_attrs(attrs));
  if (x->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional, got shape %s", WEFT_SHAPE_TEXT(x));
  *out = (weft_resize_t){.batch = x->dims[0], .in_h = x->dims[1], .in_w = x->dims[2], .channels = x->dims[3]};
  if (out->channels == 0) return WEFT_ERROR(INVALID_ARGUMENT, "image must have at least one channel");
  if (out->in_h == 0 || out->in_w == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "input image must be of non-zero size");
  if (out->in_h >= INT32_MAX || out->in_w >= INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "input sizes must be between 0 and max int32");
  WEFT_RETURN_IF_ERROR(weft_resize_size(weft_in(ctx, 1), "shape_t", &out->out_h, &out->out_w));
  set_scales(out, attrs);
  if (ceilf((float)(out->out_w - 1) * out->scale_w) > (float)INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "input image width scale would cause an overflow");
  return NULL;
}

weft_status_t *weft_resize_grad_plan(const weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs,
                                     weft_resize_t *out) {
  const weft_shape_t *dy = &weft_in(ctx, 0)->shape, *x = &weft_in(ctx, 1)->shape;
  WEFT_RETURN_IF_ERROR(check_attrs(attrs));
  if (dy->rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input_grad must be 4-dimensional, got shape %s",
                      WEFT_SHAPE_TEXT(dy));
  }
  if (dy->dims[1] == 0 || dy->dims[2] == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "resized dimensions must be positive");
  if (x->rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "original_image must be 4-dimensional, got shape %s",
                      WEFT_SHAPE_TEXT(x));
  }
  if (x->dims[1] == 0 || x->dims[2] == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "original dimensions must be positive");
  if (x->dims[1] >= INT32_MAX || x->dims[2] >= INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "original sizes must be between 0 and max int32");
  *out = (weft_resize_t){.batch = dy->dims[0],
                         .in_h = x->dims[1],
                         .in_w = x->dims[2],
                         .out_h = dy->dims[1],
                         .out_w = dy->dims[2],
                         .channels = dy->dims[3]};
  set_scales(out, attrs);
  return NULL;
}

weft_status_t *weft_image_floats(weft_kernel_ctx_t *ctx, int i, weft_tensor_t **out) {
  weft_tensor_t *t = weft_in(ctx, i);
  if (t->dtype != WEFT_F32) return weft_cpu_cast(ctx, t, WEFT_F32, out);
  *out = weft_tensor_retain(t);
  return NULL;
}

weft_status_t *weft_resize_columns(const weft_resize_t *r, weft_between_t **out) {
  *out = weft_malloc((size_t)r->out_w * sizeof **out);
  if (*out == NULL) return WEFT_NO_MEMORY("positions of %" PRId64 " columns", r->out_w);
  for (int64_t i = 0; i < r->out_w; i++) (*out)[i] = weft_resize_between(r, i, r->scale_w, r->in_w);
  return NULL;
}

static void run(weft_kernel_ctx_t *ctx, int64_t total, double cost, weft_range_fn *fn, void *arg) {
  int64_t grain = (int64_t)(WEFT_CPU_GRAIN / (cost + 1)) + 1;
  weft_parallel_for(total > grain ? ctx->device->pool : NULL, total, grain, fn, arg);
}

void weft_resize_rows(weft_kernel_ctx_t *ctx, const weft_resize_t *r, int64_t cost, weft_range_fn *fn,
                      void *arg) {
  run(ctx, r->batch * r->out_h, (double)cost * (double)r->out_w * (double)r->channels, fn, arg);
}

void weft_resize_images(weft_kernel_ctx_t *ctx, const weft_resize_t *r, int64_t cost, weft_range_fn *fn,
                        void *arg) {
  run(ctx, r->batch, (double)cost * (double)r->out_h * (double)r->out_w * (double)r->channels, fn, arg);
}
