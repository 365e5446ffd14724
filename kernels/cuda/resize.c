/* kernels/cuda/resize.c - rows of ResizeBilinear, ResizeNearestNeighbor, ResizeBicubic, their gradients, and
 * ResizeArea. */
#include <math.h>

#include "kernels/cuda/cast.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/resize_args.h"

WEFT_CUDA_INSTANCES(bilinear_instances, bilinear, PIXELS)
WEFT_CUDA_INSTANCES(bilinear_grad_instances, bilinear_grad, FLOAT)
WEFT_CUDA_INSTANCES(bicubic_grad_instances, bicubic_grad, F32_F64)
WEFT_CUDA_SIZES(nearest_functions, nearest)
WEFT_CUDA_INSTANCES(nearest_grad_instances, nearest_grad, PIXEL_GRADS)

/* The attributes; both at once are refused when the node runs, as on the CPU. */
typedef struct cuda_resize_attrs {
  int align_corners, half_pixels;
} resize_attrs_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  resize_attrs_t *a = calloc(1, sizeof *a);
  if (a == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a resize");
  weft_cuda_host->attr_bool(s, "align_corners", &a->align_corners);
  weft_cuda_host->attr_bool(s, "half_pixel_centers", &a->half_pixels);
  *out = a;
  return NULL;
}

static WEFT_Failure *check_attrs(const resize_attrs_t *a) {
  if (a->half_pixels == 0 || a->align_corners == 0) return NULL;
  return WEFT_CUDA_INVALID("If half_pixel_centers is True, align_corners must be False.");
}

/* Input i: a size. */
static WEFT_Failure *read_size(WEFT_KernelContext *c, int i, int64_t *out) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, i, &v);
  return weft_cuda_size_read(&v, "shape_t", out);
}

static void set_scales(const resize_attrs_t *a, weft_cuda_resize_t *r) {
  r->half_pixels = a->half_pixels;
  r->align_corners = a->align_corners;
  for (int d = 0; d < 2; d++) {
    const int64_t in = r->in[d], out = r->out[d];
    r->scale[d] = a->align_corners != 0 && in > 1 && out > 1 ? (float)(in - 1) / (float)(out - 1)
                                                             : (float)in / (float)out;
  }
}

static WEFT_Failure *plan(WEFT_KernelContext *c, weft_cuda_resize_t *r) {
  const resize_attrs_t *a = weft_cuda_host->state(c);
  WEFT_TensorView x;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(check_attrs(a));
  if (x.rank != 4) return WEFT_CUDA_INVALID("input must be 4-dimensional, got shape %s", WEFT_CUDA_SHAPE(&x));
  *r = (weft_cuda_resize_t){.batch = x.dims[0], .in = {x.dims[1], x.dims[2]}, .channels = x.dims[3]};
  if (r->channels == 0) return WEFT_CUDA_INVALID("image must have at least one channel");
  if (r->in[0] == 0 || r->in[1] == 0) return WEFT_CUDA_INVALID("input image must be of non-zero size");
  if (r->in[0] >= INT32_MAX || r->in[1] >= INT32_MAX)
    return WEFT_CUDA_INVALID("input sizes must be between 0 and max int32");
  WEFT_CUDA_TRY(read_size(c, 1, r->out));
  set_scales(a, r);
  if (ceilf((float)(r->out[1] - 1) * r->scale[1]) > (float)INT32_MAX)
    return WEFT_CUDA_INVALID("input image width scale would cause an overflow");
  return NULL;
}

static WEFT_Failure *output(WEFT_KernelContext *c, const weft_cuda_resize_t *r, const int64_t *size,
                            WEFT_TensorView *out) {
  const int64_t dims[4] = {r->batch, size[0], size[1], r->channels};
  return weft_cuda_host->output(c, 0, 4, dims, out);
}

static WEFT_Failure *bilinear(WEFT_KernelContext *c) {
  weft_cuda_resize_t r;
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(plan(c, &r));
  WEFT_CUDA_TRY(output(c, &r, r.out, &y));
  if (r.in[0] == r.out[0] && r.in[1] == r.out[1]) {
    if (x.dtype == WEFT_CUDA_f32) return weft_cuda_copy(c, y.data, x.data, x.bytes);
    return weft_cuda_convert(c, x.dtype, x.data, WEFT_CUDA_f32, y.data, x.count);
  }
  void *args[] = {&x.data, &y.data, &r, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&bilinear_instances, x.dtype), y.count, 1, args);
}

/* ResizeBicubic and ResizeArea, which are computed from floats. */
static WEFT_Failure *of_floats(WEFT_KernelContext *c) {
  weft_cuda_resize_t r;
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(plan(c, &r));
  WEFT_CUDA_TRY(output(c, &r, r.out, &y));
  if (y.count == 0) return NULL;
  void *from = x.data;
  if (x.dtype != WEFT_CUDA_f32) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)x.count * sizeof(float), &from));
    WEFT_CUDA_TRY(weft_cuda_convert(c, x.dtype, x.data, WEFT_CUDA_f32, from, x.count));
  }
  weft_cuda_function_t *const *f = weft_cuda_host->param(c);
  void *args[] = {&from, &y.data, &r, &y.count};
  return weft_cuda_launch_over(c, *f, y.count, 1, args);
}

/* The gradient in input 0, and the image that was resized in input 1. */
static WEFT_Failure *plan_grad(WEFT_KernelContext *c, weft_cuda_resize_t *r) {
  const resize_attrs_t *a = weft_cuda_host->state(c);
  WEFT_TensorView dy, x;
  weft_cuda_host->input(c, 0, &dy);
  weft_cuda_host->input(c, 1, &x);
  WEFT_CUDA_TRY(check_attrs(a));
  if (dy.rank != 4)
    return WEFT_CUDA_INVALID("input_grad must be 4-dimensional, got shape %s", WEFT_CUDA_SHAPE(&dy));
  if (dy.dims[1] == 0 || dy.dims[2] == 0) return WEFT_CUDA_INVALID("resized dimensions must be positive");
  if (x.rank != 4)
    return WEFT_CUDA_INVALID("original_image must be 4-dimensional, got shape %s", WEFT_CUDA_SHAPE(&x));
  if (x.dims[1] == 0 || x.dims[2] == 0) return WEFT_CUDA_INVALID("original dimensions must be positive");
  if (x.dims[1] >= INT32_MAX || x.dims[2] >= INT32_MAX)
    return WEFT_CUDA_INVALID("original sizes must be between 0 and max int32");
  *r = (weft_cuda_resize_t){.batch = dy.dims[0],
                            .channels = dy.dims[3],
                            .in = {x.dims[1], x.dims[2]},
                            .out = {dy.dims[1], dy.dims[2]}};
  set_scales(a, r);
  return NULL;
}

static WEFT_Failure *bilinear_grad(WEFT_KernelContext *c) {
  weft_cuda_resize_t r;
  WEFT_TensorView dy, dx;
  weft_cuda_host->input(c, 0, &dy);
  WEFT_CUDA_TRY(plan_grad(c, &r));
  WEFT_CUDA_TRY(output(c, &r, r.in, &dx));
  void *args[] = {&dy.data, &dx.data, &r, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&bilinear_grad_instances, dx.dtype), dx.count, 1, args);
}

static WEFT_Failure *bicubic_grad(WEFT_KernelContext *c) {
  weft_cuda_resize_t r;
  WEFT_TensorView dy, dx;
  weft_cuda_host->input(c, 0, &dy);
  WEFT_CUDA_TRY(plan_grad(c, &r));
  WEFT_CUDA_TRY(output(c, &r, r.in, &dx));
  if (dx.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_fill(c, dx.data, 0, dx.bytes));
  void *args[] = {&dy.data, &dx.data, &r, &dy.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&bicubic_grad_instances, dx.dtype), dy.count, 1, args);
}

static WEFT_Failure *nearest(WEFT_KernelContext *c) {
  enum { MOST = 1 << 24 }; /* beyond, single precision skips pixels */
  weft_cuda_resize_t r;
  WEFT_TensorView x, y;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(plan(c, &r));
  if (r.in[0] >= MOST || r.in[1] >= MOST)
    return WEFT_CUDA_INVALID("nearest neighbor requires max height & width of 2^24");
  WEFT_CUDA_TRY(output(c, &r, r.out, &y));
  void *args[] = {&x.data, &y.data, &r, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(nearest_functions, x.dtype), y.count, 1, args);
}

static WEFT_Failure *nearest_grad(WEFT_KernelContext *c) {
  WEFT_TensorView dy, dx;
  int64_t size[2];
  weft_cuda_host->input(c, 0, &dy);
  if (dy.rank != 4)
    return WEFT_CUDA_INVALID("input must be 4-dimensional, got shape %s", WEFT_CUDA_SHAPE(&dy));
  WEFT_CUDA_TRY(read_size(c, 1, size));
  weft_cuda_resize_t r = {
      .batch = dy.dims[0], .channels = dy.dims[3], .in = {size[0], size[1]}, .out = {dy.dims[1], dy.dims[2]}};
  set_scales(weft_cuda_host->state(c), &r);
  WEFT_CUDA_TRY(output(c, &r, r.in, &dx));
  if (dx.count == 0) return NULL;
  if (dy.count == 0) return weft_cuda_fill(c, dx.data, 0, dx.bytes);
  void *args[] = {&dy.data, &dx.data, &r, &dx.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&nearest_grad_instances, dx.dtype), dx.count, 1, args);
}

enum { SECOND = 2 };
#define ROW(op_, set, fn, host)                                                                  \
  {                                                                                              \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(set), .prepare = prepare, .compute = fn, \
    .destroy = free, .host_inputs = host                                                         \
  }
#define OF_FLOATS(op_, function)                                                                           \
  {                                                                                                        \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(PIXELS), .prepare = prepare, .compute = of_floats, \
    .destroy = free, .host_inputs = SECOND, .param = &(weft_cuda_function_t *const) {                      \
      &function                                                                                            \
    }                                                                                                      \
  }
static weft_cuda_function_t area_function = WEFT_CUDA_FUNCTION("weft_resize_area"),
                            bicubic_function = WEFT_CUDA_FUNCTION("weft_resize_bicubic");
const WEFT_DeviceKernel weft_cuda_resize_kernels[] = {
    OF_FLOATS("ResizeArea", area_function),
    OF_FLOATS("ResizeBicubic", bicubic_function),
    ROW("ResizeBicubicGrad", F32_F64, bicubic_grad, 0),
    ROW("ResizeBilinear", PIXELS, bilinear, SECOND),
    ROW("ResizeBilinearGrad", FLOAT, bilinear_grad, 0),
    ROW("ResizeNearestNeighbor", PIXELS, nearest, SECOND),
    ROW("ResizeNearestNeighborGrad", PIXEL_GRADS, nearest_grad, SECOND),
    {0},
};
