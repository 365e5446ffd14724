/* kernels/cpu/image/resize.h - what the resizing ops share: sizes, scales, and how work is divided.
 *
 * Images are [batch, height, width, channels]. Positions are computed in single precision, as in TensorFlow:
 * which pixels a result is made of depends on how they are rounded.
 */
#ifndef WEFT_KERNELS_CPU_IMAGE_RESIZE_H_
#define WEFT_KERNELS_CPU_IMAGE_RESIZE_H_

#include <math.h>

#include "kernels/cpu/loops/cast.h"

#define WEFT_FORMULA static inline
#include "kernels/formulas/pixel.h"

WEFT_ATTRS_STRUCT(weft_resize, (BOOL, align_corners), (BOOL, half_pixel_centers))

typedef struct weft_resize {
  int64_t batch, in_h, in_w, out_h, out_w, channels;
  float scale_h, scale_w; /* pixels of the input for each one of the output */
  bool half_pixels;
} weft_resize_t;

/* How many pixels of `in` there are for each of `out`. */
float weft_resize_scale(int64_t in, int64_t out, bool align_corners);
/* Of input 0 and the size in input 1. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_resize_plan(const weft_kernel_ctx_t *ctx,
                                                const weft_resize_attrs_t *attrs, weft_resize_t *out);
/* Of the gradient in input 0 and the image that was resized, input 1: `in` is the latter. */
WEFT_MUST_CHECK weft_status_t *weft_resize_grad_plan(const weft_kernel_ctx_t *ctx,
                                                     const weft_resize_attrs_t *attrs, weft_resize_t *out);
/* The size in a vector of two; *height and *width are positive. `what`: of the error. */
WEFT_MUST_CHECK weft_status_t *weft_resize_size(const weft_tensor_t *t, const char *what, int64_t *height,
                                                int64_t *width);
weft_shape_t weft_resize_shape(int64_t batch, int64_t height, int64_t width, int64_t channels);

/* Input i as floats: the tensor itself if it is of that type. The caller owns a reference. */
WEFT_MUST_CHECK weft_status_t *weft_image_floats(weft_kernel_ctx_t *ctx, int i, weft_tensor_t **out);

/* Where pixel i of the output lies in the input. */
static inline float weft_resize_at(const weft_resize_t *r, int64_t i, float scale) {
  return r->half_pixels ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
}
static inline int64_t weft_resize_bound(int64_t i, int64_t size) {
  return i < 0 ? 0 : i < size ? i : size - 1;
}

/* A position between two rows or columns: `part` of the way from the lower one to the upper one. */
typedef struct weft_between {
  int64_t lower, upper;
  float part;
} weft_between_t;
static inline weft_between_t weft_resize_between(const weft_resize_t *r, int64_t i, float scale,
                                                 int64_t size) {
  const float at = weft_resize_at(r, i, scale), below = floorf(at);
  return (weft_between_t){weft_resize_bound((int64_t)below, size),
                          weft_resize_bound((int64_t)ceilf(at), size), at - below};
}
/* That of each column of the result; the caller frees it. */
WEFT_MUST_CHECK weft_status_t *weft_resize_columns(const weft_resize_t *r, weft_between_t **out);

/* Calls fn(arg, begin, end) on ranges of the rows of all images of the result; `cost`: of an element, 1 for
 * one addition. */
void weft_resize_rows(weft_kernel_ctx_t *ctx, const weft_resize_t *r, int64_t cost, weft_range_fn *fn,
                      void *arg);
/* The same for the images of a gradient: those of the original image. */
void weft_resize_images(weft_kernel_ctx_t *ctx, const weft_resize_t *r, int64_t cost, weft_range_fn *fn,
                        void *arg);

#endif /* WEFT_KERNELS_CPU_IMAGE_RESIZE_H_ */
