/* kernels/cpu/nn/depthwise.c - DepthwiseConv2dNative and its gradients. half and bfloat16 are computed in
 * float.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/nn/conv.h"
#include "kernels/cpu/nn/depth_lines.h"

typedef struct depth_job {
  weft_window_t h, w;
  int64_t n, c, m, count; /* count: elements of what is computed */
  const void *x, *f, *dy;
  void *y;                         /* what is computed */
  const weft_epilogue_t *epilogue; /* of that; NULL: none */
  void (*fn)(const struct depth_job *j, int64_t begin, int64_t end);
} depth_job_t;

/* What a node computes: the loops of float and double, over `units`, and the faster way for one filter to a
 * channel. */
typedef struct depth_way {
  void (*fns[2])(const depth_job_t *, int64_t, int64_t);
  weft_status_t *(*lines)(weft_thread_pool_t *pool, const weft_depth_lines_t *d);
} depth_way_t;

#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/nn/depthwise_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#include "tensor/undef_each.tmpl.h"

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  void *state = NULL;
  WEFT_RETURN_IF_ERROR(weft_strict_conv_prepare(setup, &state));
  const weft_window_attrs_t *a = state;
  if (a->stride[1] == a->stride[2]) {
    *out_state = state;
    return NULL;
  }
  weft_free(state);
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Current implementation only supports equal length strides in the row and column dimensions.");
}

static void range(void *arg, int64_t begin, int64_t end) {
  const depth_job_t *j = arg;
  j->fn(j, begin, end);
}

/* Reads the geometry; x and f are shapes, dy too (NULL: forward). */
static weft_status_t *plan(const weft_window_attrs_t *a, const weft_shape_t *x, const weft_shape_t *f,
                           const weft_shape_t *dy, depth_job_t *j) {
  if (x->rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional%s", WEFT_SHAPE_TEXT(x));
  if (f->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "filter must be 4-dimensional: %s", WEFT_SHAPE_TEXT(f));
  int hd = weft_image_axis(a, 1), cd = a->channels_first ? 1 : 3;
  j->n = x->dims[0];
  j->c = x->dims[cd];
  j->m = f->dims[3];
  if (j->c != f->dims[2]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input and filter must have the same depth: %" PRId64 " vs %" PRId64,
                      j->c, f->dims[2]);
  }
  if (f->dims[0] <= 0 || f->dims[1] <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "filter must not have zero elements: %s", WEFT_SHAPE_TEXT(f));
  }
  WEFT_RETURN_IF_ERROR(weft_window_plan(a, 1, x->dims[hd], f->dims[0], &j->h));
  WEFT_RETURN_IF_ERROR(weft_window_plan(a, 2, x->dims[hd + 1], f->dims[1], &j->w));
  if (dy == NULL) return NULL;
  int64_t depth = 0;
  bool fits = dy->rank == 4 && dy->dims[0] == j->n && dy->dims[hd] == j->h.out &&
              dy->dims[hd + 1] == j->w.out && weft_cpu_mul(j->c, j->m, &depth) && dy->dims[cd] == depth;
  if (fits) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Conv2DSlowBackprop: out_backprop of shape %s does not fit an input of shape %s",
                    WEFT_SHAPE_TEXT(dy), WEFT_SHAPE_TEXT(x));
}

/* A tensor as [N,H,W,C] (if `image`) and in float or double; the caller owns it. */
static weft_status_t *operand(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, weft_tensor_t *t,
                              bool image, weft_tensor_t **out) {
  weft_tensor_t *turned = NULL;
  weft_status_t *s = NULL;
  if (image && a->channels_first && t->count > 0) {
    s = weft_to_channels_last(ctx, t, &turned);
  } else {
    turned = weft_tensor_retain(t);
  }
  if (s == NULL && (t->dtype == WEFT_F16 || t->dtype == WEFT_BF16)) {
    s = weft_cpu_cast(ctx, turned, WEFT_F32, out);
    weft_tensor_release(turned);
    return s;
  }
  *out = turned;
  return s;
}

static weft_status_t *compute(weft_thread_pool_t *pool, depth_job_t *j, weft_dtype_t dtype,
                              const depth_way_t *way, int64_t units) {
  const weft_depth_lines_t d = {.dtype = dtype,
                                .n = j->n,
                                .c = j->c,
                                .h = j->h,
                                .w = j->w,
                                .x = j->x,
                                .f = j->f,
                                .dy = j->dy,
                                .out = j->y,
                                .epilogue = j->epilogue};
  if (j->m == 1 && weft_depth_lines_fit(&d)) return way->lines(pool, &d);
  memset(j->y, 0, weft_dtype_size(dtype) * (size_t)j->count);
  j->fn = way->fns[dtype == WEFT_F64];
  weft_parallel_for(pool, units, 1, range, j);
  if (j->epilogue != NULL) weft_epilogue_run(pool, j->epilogue, j->y, j->count / j->epilogue->channels);
  return NULL;
}

/* Computes `units` units of `way` into a tensor of `shape`, which becomes output 0. */
static weft_status_t *run(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, depth_job_t *j,
                          weft_tensor_t *x, weft_tensor_t *f, weft_tensor_t *dy, const weft_shape_t *shape,
                          bool is_image, int64_t units, const depth_way_t *way) {
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[0]);
  weft_tensor_t *operands[3] = {NULL}, *out = NULL, *made = NULL;
  weft_status_t *s = x == NULL ? NULL : operand(ctx, a, x, true, &operands[0]);
  if (s == NULL && f != NULL) s = operand(ctx, a, f, false, &operands[1]);
  if (s == NULL && dy != NULL) s = operand(ctx, a, dy, true, &operands[2]);
  if (s == NULL)
    s = weft_tensor_new(dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32, shape, ctx->device->allocator, &out);
  if (s == NULL && out->count > 0) {
    j->count = out->count;
    j->x = x == NULL ? NULL : operands[0]->data;
    j->f = f == NULL ? NULL : operands[1]->data;
    j->dy = dy == NULL ? NULL : operands[2]->data;
    j->y = out->data;
    s = compute(ctx->device->pool, j, out->dtype, way, units);
  }
  for (int i = 0; i < 3; i++) weft_tensor_release(operands[i]);
  if (s == NULL && out->dtype != dtype) {
    s = weft_cpu_cast(ctx, out, dtype, &made);
    weft_tensor_release(out);
    out = made;
    made = NULL;
  }
  if (s == NULL && is_image && a->channels_first) {
    s = weft_to_channels_first(ctx, out, &made);
    weft_tensor_release(out);
    out = made;
  }
  if (s == NULL) {
    weft_out_set(ctx, 0, out);
  } else {
    weft_tensor_release(out);
  }
  return s;
}

weft_status_t *weft_depthwise_then(weft_kernel_ctx_t *ctx, weft_epilogue_binder_t *binder) {
  const weft_window_attrs_t *a = ctx->state;
  weft_tensor_t *x = weft_in(ctx, 0), *f = weft_in(ctx, 1);
  depth_job_t j = {.n = 0};
  WEFT_RETURN_IF_ERROR(plan(a, &x->shape, &f->shape, NULL, &j));
  weft_shape_t shape = {.rank = 4, .dims = {j.n, j.h.out, j.w.out, 0}};
  if (!weft_cpu_mul(j.c, j.m, &shape.dims[3]))
    return WEFT_ERROR(INVALID_ARGUMENT, "output depth is too large");
  weft_epilogue_t epilogue;
  if (binder != NULL) {
    WEFT_RETURN_IF_ERROR(binder->bind(binder, &shape, &epilogue));
    j.epilogue = &epilogue;
  }
  static const depth_way_t way = {{depth_forward_f32, depth_forward_f64}, weft_depth_lines_forward};
  return run(ctx, a, &j, x, f, NULL, &shape, true, j.n * j.h.out, &way);
}

static weft_status_t *forward_compute(weft_kernel_ctx_t *ctx) { return weft_depthwise_then(ctx, NULL); }

static weft_status_t *input_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  weft_tensor_t *sizes = weft_in(ctx, 0), *f = weft_in(ctx, 1), *dy = weft_in(ctx, 2);
  weft_shape_t x;
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "input_sizes", &x));
  if (x.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "Conv2DBackpropInput: input_sizes must have 4 values, not %d",
                      x.rank);
  depth_job_t j = {.n = 0};
  WEFT_RETURN_IF_ERROR(plan(a, &x, &f->shape, &dy->shape, &j));
  weft_shape_t shape = {.rank = 4, .dims = {j.n, j.h.in, j.w.in, j.c}};
  static const depth_way_t way = {{depth_input_f32, depth_input_f64}, weft_depth_lines_input};
  return run(ctx, a, &j, NULL, f, dy, &shape, true, j.n, &way);
}

static weft_status_t *filter_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  weft_tensor_t *x = weft_in(ctx, 0), *sizes = weft_in(ctx, 1), *dy = weft_in(ctx, 2);
  weft_shape_t f;
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "filter_sizes", &f));
  if (f.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "Conv2DBackpropFilter: filter_sizes must have 4 values, not %d",
                      f.rank);
  depth_job_t j = {.n = 0};
  WEFT_RETURN_IF_ERROR(plan(a, &x->shape, &f, &dy->shape, &j));
  static const depth_way_t way = {{depth_filter_f32, depth_filter_f64}, weft_depth_lines_filter};
  return run(ctx, a, &j, x, NULL, dy, &f, false, j.h.k * j.w.k, &way);
}

const weft_kernel_t weft_cpu_depthwise_kernels[] = {
    WEFT_KERNEL("DepthwiseConv2dNative", "T", WEFT_SET_FLOATS, prepare, forward_compute, weft_free),
    WEFT_KERNEL("DepthwiseConv2dNativeBackpropFilter", "T", WEFT_SET_FLOATS, prepare, filter_compute,
                weft_free),
    WEFT_KERNEL("DepthwiseConv2dNativeBackpropInput", "T", WEFT_SET_FLOATS, prepare, input_compute,
                weft_free),
    {0},
};
