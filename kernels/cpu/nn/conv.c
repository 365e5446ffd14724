/* kernels/cpu/nn/conv.c - Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter: shapes and layouts around
 * convolve.h. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/nn/convolve.h"

static int64_t dim_h(const weft_window_attrs_t *a, const weft_shape_t *s) { return s->dims[a->nchw ? 2 : 1]; }
static int64_t dim_w(const weft_window_attrs_t *a, const weft_shape_t *s) { return s->dims[a->nchw ? 3 : 2]; }
static int64_t dim_c(const weft_window_attrs_t *a, const weft_shape_t *s) { return s->dims[a->nchw ? 1 : 3]; }

static weft_shape_t image_shape(const weft_window_attrs_t *a, int64_t n, int64_t h, int64_t w, int64_t c) {
  weft_shape_t s = {.rank = 4, .dims = {n, h, w, c}};
  if (a->nchw) {
    s.dims[1] = c;
    s.dims[2] = h;
    s.dims[3] = w;
  }
  return s;
}

/* A step of preparation that may or may not be needed: `*t` is replaced, `*owned` is what to release. */
static void swap_in(weft_tensor_t *made, const weft_tensor_t **t, weft_tensor_t **owned) {
  weft_tensor_release(*owned);
  *t = *owned = made;
}

static weft_status_t *as_nhwc(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, const weft_tensor_t **t,
                              weft_tensor_t **owned) {
  weft_tensor_t *made = NULL;
  if (!a->nchw) return NULL;
  WEFT_RETURN_IF_ERROR(weft_to_nhwc(ctx, *t, &made));
  swap_in(made, t, owned);
  return NULL;
}

/* Gradients of half and bfloat16 are summed in float. */
static weft_status_t *as_wide(weft_kernel_ctx_t *ctx, const weft_tensor_t **t, weft_tensor_t **owned) {
  weft_tensor_t *made = NULL;
  if ((*t)->dtype != WEFT_F16 && (*t)->dtype != WEFT_BF16) return NULL;
  WEFT_RETURN_IF_ERROR(weft_cpu_cast(ctx, *t, WEFT_F32, &made));
  swap_in(made, t, owned);
  return NULL;
}

/* `result` ([N,H,W,C] or a filter, perhaps wide) as output 0. Consumes it. */
static weft_status_t *deliver(weft_kernel_ctx_t *ctx, bool to_nchw, weft_dtype_t dtype,
                              weft_tensor_t *result) {
  weft_tensor_t *made = NULL;
  weft_status_t *s = NULL;
  if (result->dtype != dtype) {
    s = weft_cpu_cast(ctx, result, dtype, &made);
    weft_tensor_release(result);
    if (s != NULL) return s;
    result = made;
  }
  if (to_nchw) {
    s = weft_from_nhwc(ctx, result, &made);
    weft_tensor_release(result);
    if (s != NULL) return s;
    result = made;
  }
  weft_out_set(ctx, 0, result);
  return NULL;
}

/* ---- forward ---- */

static weft_status_t *check_forward(const weft_window_attrs_t *a, const weft_shape_t *x,
                                    const weft_shape_t *f, weft_conv_t *v) {
  if (x->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "convolution input must be 4-dimensional: %s", WEFT_SHAPE_TEXT(x));
  if (f->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "convolution filter must be 4-dimensional: %s", WEFT_SHAPE_TEXT(f));
  for (int d = 0; d < 3; d++) {
    if (f->dims[d] > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "filter too large");
  }
  v->n = x->dims[0];
  v->c = dim_c(a, x);
  v->cg = f->dims[2];
  v->oc = f->dims[3];
  if (v->cg <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "filter depth must be stricly positive, got %" PRId64, v->cg);
  }
  if (v->c % v->cg != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input depth must be evenly divisible by filter depth: %" PRId64 " vs %" PRId64, v->c,
                      v->cg);
  }
  v->groups = v->c / v->cg;
  if (f->dims[0] * f->dims[1] == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "filter must not have zero elements (i.e. all dimensions must be non-zero)");
  }
  if (v->groups == 0) return WEFT_ERROR(INVALID_ARGUMENT, "number of groups must be strictly positive");
  if (v->oc % v->groups != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "output depth must be evenly divisible by number of groups: %" PRId64 " vs %" PRId64,
                      v->oc, v->groups);
  }
  WEFT_RETURN_IF_ERROR(weft_window_plan(a, 0, dim_h(a, x), f->dims[0], &v->h));
  return weft_window_plan(a, 1, dim_w(a, x), f->dims[1], &v->w);
}

static weft_status_t *forward_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0), *f = weft_in(ctx, 1);
  weft_conv_t v = {.dtype = x->dtype};
  WEFT_RETURN_IF_ERROR(check_forward(a, &x->shape, &f->shape, &v));
  weft_shape_t shape = {.rank = 4, .dims = {v.n, v.h.out, v.w.out, v.oc}};
  weft_tensor_t *y = NULL, *owned = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(v.dtype, &shape, ctx->device->allocator, &y));
  weft_status_t *s = NULL;
  if (y->count > 0) s = as_nhwc(ctx, a, &x, &owned);
  if (s == NULL) s = weft_conv_forward(ctx->device->pool, &v, x->data, f->data, y->data);
  weft_tensor_release(owned);
  if (s != NULL) {
    weft_tensor_release(y);
    return s;
  }
  return deliver(ctx, a->nchw, v.dtype, y);
}

/* ---- gradients ---- */

/* Checks that dy is what the forward op makes of an input of shape `x` and filters of shape `f`. */
static weft_status_t *check_backward(const weft_window_attrs_t *a, const char *op, const weft_shape_t *x,
                                     const weft_shape_t *f, const weft_shape_t *dy, weft_conv_t *v) {
  if (x->rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "%s: input must be 4-dimensional", op);
  if (f->rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "%s: filter must be 4-dimensional", op);
  if (dy->rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "%s: out_backprop must be 4-dimensional", op);
  v->n = x->dims[0];
  v->c = dim_c(a, x);
  v->cg = f->dims[2];
  v->oc = f->dims[3];
  if (dy->dims[0] != v->n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: input and out_backprop must have the same batch size. Input batch: %" PRId64
                      ", outbackprop batch: %" PRId64 ", batch_dim: 0",
                      op, v->n, dy->dims[0]);
  }
  if (v->cg <= 0 || v->c % v->cg != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: input depth must be evenly divisible by filter depth", op);
  }
  if (dim_c(a, dy) != v->oc) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: filter and out_backprop must have the same out_depth", op);
  }
  v->groups = v->c / v->cg;
  if (v->groups > 0 && v->oc % v->groups != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: output depth must be evenly divisible by number of groups", op);
  }
  for (int d = 0; d < 2; d++) {
    weft_window_t *w = d == 0 ? &v->h : &v->w;
    int64_t in = d == 0 ? dim_h(a, x) : dim_w(a, x), actual = d == 0 ? dim_h(a, dy) : dim_w(a, dy);
    if (f->dims[d] <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s: filter must not have zero elements", op);
    WEFT_RETURN_IF_ERROR(weft_window_plan(a, d, in, f->dims[d], w));
    if (w->out == actual) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: Size of out_backprop doesn't match computed: actual = %" PRId64
                      ", computed = %" PRId64 " spatial_dim: %d input: %" PRId64 " filter: %" PRId64
                      " output: %" PRId64 " stride: %" PRId64 " dilation: %" PRId64,
                      op, actual, w->out, d + (a->nchw ? 2 : 1), in, f->dims[d], actual, w->stride,
                      w->dilation);
  }
  return NULL;
}

static weft_status_t *input_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  const weft_tensor_t *sizes = weft_in(ctx, 0), *f = weft_in(ctx, 1), *dy = weft_in(ctx, 2);
  weft_shape_t shape;
  if (sizes->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Conv2DBackpropInput: input_sizes input must be 1-dim, not %d",
                      sizes->shape.rank);
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "input_sizes", &shape));
  if (shape.rank == 2 && dy->shape.rank == 4 && f->shape.rank == 4) {
    shape = image_shape(a, dy->shape.dims[0], shape.dims[0], shape.dims[1], f->shape.dims[2]);
  } else if (shape.rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: %d",
                      shape.rank);
  }
  weft_conv_t v = {.dtype = f->dtype};
  WEFT_RETURN_IF_ERROR(check_backward(a, "Conv2DCustomBackpropInput", &shape, &f->shape, &dy->shape, &v));
  weft_dtype_t dtype = f->dtype;
  if (dtype == WEFT_F16 || dtype == WEFT_BF16) v.dtype = WEFT_F32;
  weft_shape_t nhwc = {.rank = 4, .dims = {v.n, v.h.in, v.w.in, v.c}};
  weft_tensor_t *dx = NULL, *owned_f = NULL, *owned_dy = NULL;
  weft_status_t *s = weft_tensor_new(v.dtype, &nhwc, ctx->device->allocator, &dx);
  if (s == NULL && dx->count > 0) s = as_nhwc(ctx, a, &dy, &owned_dy);
  if (s == NULL && dx->count > 0) s = as_wide(ctx, &dy, &owned_dy);
  if (s == NULL && dx->count > 0) s = as_wide(ctx, &f, &owned_f);
  if (s == NULL) s = weft_conv_backprop_input(ctx->device->pool, &v, dy->data, f->data, dx->data);
  weft_tensor_release(owned_f);
  weft_tensor_release(owned_dy);
  if (s != NULL) {
    weft_tensor_release(dx);
    return s;
  }
  return deliver(ctx, a->nchw, dtype, dx);
}

static weft_status_t *filter_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0), *sizes = weft_in(ctx, 1), *dy = weft_in(ctx, 2);
  weft_shape_t shape;
  if (sizes->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Conv2DCustomBackpropFilter: filter_sizes input must be 1-dim, not %d",
                      sizes->shape.rank);
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "filter_sizes", &shape));
  weft_conv_t v = {.dtype = x->dtype};
  WEFT_RETURN_IF_ERROR(check_backward(a, "Conv2DCustomBackpropFilter", &x->shape, &shape, &dy->shape, &v));
  weft_dtype_t dtype = x->dtype;
  if (dtype == WEFT_F16 || dtype == WEFT_BF16) v.dtype = WEFT_F32;
  weft_tensor_t *df = NULL, *owned_x = NULL, *owned_dy = NULL;
  weft_status_t *s = weft_tensor_new(v.dtype, &shape, ctx->device->allocator, &df);
  bool any = s == NULL && df->count > 0 && x->count > 0;
  if (s == NULL && !any) {
    weft_cpu_zero(df);
    return deliver(ctx, false, dtype, df);
  }
  if (s == NULL) s = as_nhwc(ctx, a, &x, &owned_x);
  if (s == NULL) s = as_wide(ctx, &x, &owned_x);
  if (s == NULL) s = as_nhwc(ctx, a, &dy, &owned_dy);
  if (s == NULL) s = as_wide(ctx, &dy, &owned_dy);
  if (s == NULL) s = weft_conv_backprop_filter(ctx->device->pool, &v, x->data, dy->data, df->data);
  weft_tensor_release(owned_x);
  weft_tensor_release(owned_dy);
  if (s != NULL) {
    weft_tensor_release(df);
    return s;
  }
  return deliver(ctx, false, dtype, df);
}

#define CONV_TYPES (WEFT_SET_FLOATS | WEFT_DTYPE_BIT(WEFT_I32))
const weft_kernel_t weft_cpu_conv_kernels[] = {
    WEFT_KERNEL("Conv2D", "T", CONV_TYPES, weft_conv_prepare, forward_compute, weft_free),
    WEFT_KERNEL("Conv2DBackpropFilter", "T", WEFT_SET_FLOATS, weft_conv_prepare, filter_compute, weft_free),
    WEFT_KERNEL("Conv2DBackpropInput", "T", CONV_TYPES, weft_conv_prepare, input_compute, weft_free),
    {0},
};
