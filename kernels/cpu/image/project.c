/* kernels/cpu/image/project.c - ImageProjectiveTransform: pixel (x, y) of the result is taken from place
 * ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), k = c0 x + c1 y + 1, of the image. Places between pixels
 * are computed in single precision. */
#include <math.h>

#include "kernels/cpu/image/resize.h"

enum { COEFFICIENTS = 8 };

typedef struct project_state {
  bool is_bilinear;
  int mode; /* WEFT_FILL_... */
} project_state_t;

typedef struct project_job {
  const void *x;
  void *y;
  const float *transforms;
  int64_t transform_stride; /* 0: one for all images */
  int64_t in_h, in_w, out_h, out_w, channels;
  project_state_t how;
  float fill;
} project_job_t;

static weft_status_t *project_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  static const char *const modes[] = {"REFLECT", "WRAP", "CONSTANT", "NEAREST"};
  const weft_str_t interpolation = weft_knode_string(setup, "interpolation"),
                   mode = weft_knode_string(setup, "fill_mode");
  int m = 0;
  if (!weft_str_is(interpolation, "BILINEAR") && !weft_str_is(interpolation, "NEAREST")) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid interpolation %.*s. Supported types: NEAREST, BILINEAR",
                      WEFT_STR_ARGS(interpolation));
  }
  while (m <= WEFT_FILL_NEAREST && !weft_str_is(mode, modes[m])) m++;
  if (m > WEFT_FILL_NEAREST) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Invalid mode %.*s. Supported types: REFLECT, WRAP, CONSTANT, NEAREST",
                      WEFT_STR_ARGS(mode));
  }
  project_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = (project_state_t){.is_bilinear = weft_str_is(interpolation, "BILINEAR"), .mode = m};
  *out_state = state;
  return NULL;
}

/* The place that pixel (x, y) of image i is taken from; false: it is infinitely far away. */
static bool find_place(const project_job_t *j, int64_t i, int64_t x, int64_t y, float *out_x, float *out_y) {
  const float *t = j->transforms + i * j->transform_stride, fx = (float)x, fy = (float)y;
  const float k = t[6] * fx + t[7] * fy + 1.0F;
  if (k == 0) return false;
  *out_x = weft_filled_place(j->how.mode, (t[0] * fx + t[1] * fy + t[2]) / k, j->in_w);
  *out_y = weft_filled_place(j->how.mode, (t[3] * fx + t[4] * fy + t[5]) / k, j->in_h);
  return true;
}

/* Where the channels of a pixel begin; -1: outside of the image. */
static int64_t pixel_at(const project_job_t *j, int64_t i, float x, float y) {
  const int64_t column = weft_pixel_index(x), row = weft_pixel_index(y);
  if (row < 0 || row >= j->in_h || column < 0 || column >= j->in_w) return -1;
  return ((i * j->in_h + row) * j->in_w + column) * j->channels;
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/image/project_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static weft_range_fn *const project_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM project
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

static weft_status_t *check_inputs(weft_kernel_ctx_t *ctx, project_job_t *j) {
  const weft_shape_t *x = &weft_in(ctx, 0)->shape, *t = &weft_in(ctx, 1)->shape;
  if (x->rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "Input images must have rank 4");
  if (t->rank != 2 || (t->dims[0] != x->dims[0] && t->dims[0] != 1) || t->dims[1] != COEFFICIENTS)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input transform should be num_images x 8 or 1 x 8");
  WEFT_RETURN_IF_ERROR(weft_resize_size(weft_in(ctx, 2), "output shape", &j->out_h, &j->out_w));
  j->in_h = x->dims[1];
  j->in_w = x->dims[2];
  j->channels = x->dims[3];
  j->transform_stride = t->dims[0] == 1 ? 0 : COEFFICIENTS;
  if (ctx->node->num_inputs < 4) return NULL;
  const weft_tensor_t *fill = weft_in(ctx, 3);
  if (fill->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "fill_value must be a scalar, got shape %s",
                      WEFT_SHAPE_TEXT(&fill->shape));
  }
  j->fill = *(const float *)fill->data;
  return NULL;
}

static weft_status_t *project(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  project_job_t j = {
      .x = x->data, .transforms = weft_in(ctx, 1)->data, .how = *(project_state_t *)ctx->state};
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(check_inputs(ctx, &j));
  const weft_shape_t shape = weft_resize_shape(x->shape.dims[0], j.out_h, j.out_w, j.channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  if (y->count == 0) return NULL;
  j.y = y->data;
  const double cost = (double)j.out_w * (double)(16 + 8 * j.channels);
  weft_parallel_for(ctx->device->pool, shape.dims[0] * j.out_h, (int64_t)(WEFT_CPU_GRAIN / cost) + 1,
                    project_fns[x->dtype], &j);
  return NULL;
}

#define PROJECT_TYPES (WEFT_SET_FLOATS | WEFT_SET_INDEX | WEFT_DTYPE_BIT(WEFT_U8))
const weft_kernel_t weft_cpu_project_kernels[] = {
    WEFT_KERNEL("ImageProjectiveTransformV2", "dtype", PROJECT_TYPES, project_prepare, project, weft_free),
    WEFT_KERNEL("ImageProjectiveTransformV3", "dtype", PROJECT_TYPES, project_prepare, project, weft_free),
    {0},
};
