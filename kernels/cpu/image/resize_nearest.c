/* kernels/cpu/image/resize_nearest.c - ResizeNearestNeighbor and its gradient. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/image/resize.h"

enum { NEAREST_MAX_SIZE = 1 << 24 }; /* beyond, single precision skips pixels */

typedef struct nearest_job {
  weft_resize_t r; /* of a gradient, too: `in` is the image */
  bool align_corners;
  const int64_t *columns; /* of the image, for each of the result */
  const void *x;          /* the image; of a gradient dy */
  void *y;                /* ... dx */
  size_t pixel;           /* its bytes */
} nearest_job_t;

/* The row or column of the image that i of the result is taken from. */
static int64_t nearest(const nearest_job_t *j, int64_t i, float scale, int64_t size) {
  const float at = j->r.half_pixels ? ((float)i + 0.5f) * scale : (float)i * scale;
  return weft_resize_bound((int64_t)(j->align_corners ? roundf(at) : floorf(at)), size);
}

static weft_status_t *find_columns(nearest_job_t *j, int64_t **out) {
  *out = weft_malloc((size_t)j->r.out_w * sizeof **out);
  if (*out == NULL) return WEFT_NO_MEMORY("positions of %" PRId64 " columns", j->r.out_w);
  for (int64_t i = 0; i < j->r.out_w; i++) (*out)[i] = nearest(j, i, j->r.scale_w, j->r.in_w);
  j->columns = *out;
  return NULL;
}

static void nearest_rows(void *arg, int64_t begin, int64_t end) {
  const nearest_job_t *j = arg;
  const weft_resize_t *r = &j->r;
  for (int64_t i = begin; i < end; i++) {
    const int64_t row = i / r->out_h * r->in_h + nearest(j, i % r->out_h, r->scale_h, r->in_h);
    const char *x = (const char *)j->x + (size_t)(row * r->in_w) * j->pixel;
    char *y = (char *)j->y + (size_t)(i * r->out_w) * j->pixel;
    for (int64_t w = 0; w < r->out_w; w++, y += j->pixel)
      memcpy(y, x + (size_t)j->columns[w] * j->pixel, j->pixel);
  }
}

WEFT_ATTRS_OF(nearest_neighbor, weft_resize)
static weft_status_t *nearest_neighbor(weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  nearest_job_t j = {.align_corners = attrs->align_corners, .x = x->data};
  weft_tensor_t *y = NULL;
  int64_t *columns = NULL;
  WEFT_RETURN_IF_ERROR(weft_resize_plan(ctx, attrs, &j.r));
  weft_shape_t shape = weft_resize_shape(j.r.batch, j.r.out_h, j.r.out_w, j.r.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  if (j.r.in_h >= NEAREST_MAX_SIZE || j.r.in_w >= NEAREST_MAX_SIZE)
    return WEFT_ERROR(INVALID_ARGUMENT, "nearest neighbor requires max height & width of 2^24");
  if (y->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(find_columns(&j, &columns));
  j.pixel = (size_t)j.r.channels * weft_dtype_size(x->dtype);
  j.y = y->data;
  weft_resize_rows(ctx, &j.r, 1, nearest_rows, &j);
  weft_free(columns);
  return NULL;
}

/* ---- gradient ---- */

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/image/resize_nearest_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static weft_range_fn *const nearest_grad_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM nearest_grad
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

WEFT_ATTRS_OF(nearest_neighbor_grad, weft_resize)
static weft_status_t *nearest_neighbor_grad(weft_kernel_ctx_t *ctx, const weft_resize_attrs_t *attrs) {
  const weft_tensor_t *dy = weft_in(ctx, 0);
  const weft_shape_t *s = &dy->shape;
  nearest_job_t j = {.align_corners = attrs->align_corners, .x = dy->data};
  weft_tensor_t *dx = NULL;
  int64_t *columns = NULL, height = 0, width = 0;
  if (s->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional, got shape %s", WEFT_SHAPE_TEXT(s));
  WEFT_RETURN_IF_ERROR(weft_resize_size(weft_in(ctx, 1), "shape_t", &height, &width));
  j.r = (weft_resize_t){.batch = s->dims[0],
                        .in_h = height,
                        .in_w = width,
                        .out_h = s->dims[1],
                        .out_w = s->dims[2],
                        .channels = s->dims[3],
                        .scale_h = weft_resize_scale(height, s->dims[1], attrs->align_corners),
                        .scale_w = weft_resize_scale(width, s->dims[2], attrs->align_corners),
                        .half_pixels = attrs->half_pixel_centers};
  weft_shape_t shape = weft_resize_shape(j.r.batch, height, width, j.r.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dy->dtype, &shape, &dx));
  weft_cpu_zero(dx);
  if (dx->count == 0 || dy->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(find_columns(&j, &columns));
  j.y = dx->data;
  weft_resize_images(ctx, &j.r, 1, nearest_grad_fns[dy->dtype], &j);
  weft_free(columns);
  return NULL;
}

const weft_kernel_t weft_cpu_resize_nearest_kernels[] = {
    WEFT_KERNEL_ATTRS("ResizeNearestNeighbor", "T",
                      WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16),
                      nearest_neighbor),
    WEFT_KERNEL_ATTRS(
        "ResizeNearestNeighborGrad", "T",
        WEFT_SET_FLOATS | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_I8) | WEFT_DTYPE_BIT(WEFT_I32),
        nearest_neighbor_grad),
    {0},
};
