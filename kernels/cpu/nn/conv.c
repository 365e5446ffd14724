/* kernels/cpu/nn/conv.c - Conv2D, Conv3D and their gradients: shapes and layouts around convolve.h. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/nn/conv.h"
#include "kernels/cpu/nn/convolve.h"

/* A step of preparation that may or may not be needed: `*t` is replaced, `*owned` is what to release. */
static void swap_in(weft_tensor_t *made, const weft_tensor_t **t, weft_tensor_t **owned) {
  weft_tensor_release(*owned);
  *t = *owned = made;
}

static weft_status_t *channels_last(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a,
                                    const weft_tensor_t **t, weft_tensor_t **owned) {
  weft_tensor_t *made = NULL;
  if (!a->channels_first) return NULL;
  WEFT_RETURN_IF_ERROR(weft_to_channels_last(ctx, *t, &made));
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

/* `result` (an image with channels last, or a filter, perhaps wide) as output 0. Consumes it. */
static weft_status_t *deliver(weft_kernel_ctx_t *ctx, bool channels_first, weft_dtype_t dtype,
                              weft_tensor_t *result) {
  weft_tensor_t *made = NULL;
  weft_status_t *s = NULL;
  if (result->dtype != dtype) {
    s = weft_cpu_cast(ctx, result, dtype, &made);
    weft_tensor_release(result);
    if (s != NULL) return s;
    result = made;
  }
  if (channels_first) {
    s = weft_to_channels_first(ctx, result, &made);
    weft_tensor_release(result);
    if (s != NULL) return s;
    result = made;
  }
  weft_out_set(ctx, 0, result);
  return NULL;
}

/* ---- forward ---- */

static weft_status_t *check_groups(const weft_window_attrs_t *a, const weft_conv_t *v) {
  if (v->cg <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "filter depth must be stricly positive, got %" PRId64, v->cg);
  }
  if (a->num_space == 3 && v->c != v->cg) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input and filter must have the same depth: %" PRId64 " vs %" PRId64,
                      v->c, v->cg);
  }
  if (v->c % v->cg != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input depth must be evenly divisible by filter depth: %" PRId64 " vs %" PRId64, v->c,
                      v->cg);
  }
  if (v->groups == 0) return WEFT_ERROR(INVALID_ARGUMENT, "number of groups must be strictly positive");
  if (v->oc % v->groups != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "output depth must be evenly divisible by number of groups: %" PRId64 " vs %" PRId64,
                      v->oc, v->groups);
  }
  return NULL;
}

/* The filter's spatial sizes. */
static void filter_sizes(const weft_window_attrs_t *a, const weft_shape_t *f, int64_t out[WEFT_SPACE]) {
  for (int i = 0; i < WEFT_SPACE; i++) {
    int at = i - (WEFT_SPACE - a->num_space);
    out[i] = at < 0 ? 1 : f->dims[at];
  }
}

static weft_status_t *check_forward(const weft_window_attrs_t *a, const weft_shape_t *x,
                                    const weft_shape_t *f, weft_conv_t *v) {
  int rank = a->num_space + 2;
  if (x->rank != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "convolution input must be %d-dimensional: %s", rank,
                      WEFT_SHAPE_TEXT(x));
  }
  if (f->rank != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "convolution filter must be %d-dimensional: %s", rank,
                      WEFT_SHAPE_TEXT(f));
  }
  for (int d = 0; d < rank - 1; d++) {
    if (f->dims[d] > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "filter too large");
  }
  v->n = x->dims[0];
  v->c = weft_image_channels(a, x);
  v->cg = f->dims[rank - 2];
  v->oc = f->dims[rank - 1];
  v->groups = v->cg > 0 ? v->c / v->cg : 0;
  WEFT_RETURN_IF_ERROR(check_groups(a, v));
  bool is_empty = a->num_space == 3 && v->oc == 0; /* a Conv2D of no filters has a result */
  for (int d = 0; d < a->num_space; d++) is_empty |= f->dims[d] == 0;
  if (is_empty) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "filter must not have zero elements (i.e. all dimensions must be non-zero)");
  }
  int64_t k[WEFT_SPACE];
  filter_sizes(a, f, k);
  return weft_windows_plan(a, x, k, v->s);
}

static weft_shape_t out_shape(const weft_window_attrs_t *a, const weft_conv_t *v) {
  return weft_image_shape(a, false, v->n, (int64_t[]){v->s[0].out, v->s[1].out, v->s[2].out}, v->oc);
}

/* *out is what the convolution is written to, owned by the caller: input `addend` (-1: none) of the epilogue
 * where nothing else reads that, since a sum over itself is a third less to move through the caches. */
static weft_status_t *new_result(weft_kernel_ctx_t *ctx, const weft_conv_t *v, int addend,
                                 const weft_shape_t *shape, weft_tensor_t **out) {
  if (addend < 0 || !weft_conv_sums_in_place(v))
    return weft_tensor_new(v->dtype, shape, ctx->device->allocator, out);
  weft_tensor_t *lent = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, addend, 0, v->dtype, shape, &lent));
  weft_out_set(ctx, 0, NULL);
  *out = lent;
  return NULL;
}

/* `kept` and `binder` may be NULL. */
static weft_status_t *convolve(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, const weft_tensor_t *x,
                               weft_tensor_t *f, weft_kept_t *kept, weft_epilogue_binder_t *binder) {
  weft_conv_t v = {.dtype = x->dtype, .kept = kept, .filter = f};
  WEFT_RETURN_IF_ERROR(check_forward(a, &x->shape, &f->shape, &v));
  weft_shape_t shape = out_shape(a, &v);
  weft_tensor_t *y = NULL, *owned = NULL;
  weft_epilogue_t epilogue;
  if (binder != NULL) {
    WEFT_RETURN_IF_ERROR(binder->bind(binder, &shape, &epilogue));
    v.epilogue = &epilogue;
  }
  WEFT_RETURN_IF_ERROR(new_result(ctx, &v, binder != NULL ? binder->addend : -1, &shape, &y));
  weft_status_t *s = NULL;
  if (y->count > 0) s = channels_last(ctx, a, &x, &owned);
  if (s == NULL) s = weft_conv_forward(ctx->device->pool, &v, x->data, f->data, y->data);
  weft_tensor_release(owned);
  if (s != NULL) {
    weft_tensor_release(y);
    return s;
  }
  return deliver(ctx, a->channels_first, v.dtype, y);
}

weft_status_t *weft_convolve(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, const weft_tensor_t *x,
                             weft_tensor_t *f) {
  return convolve(ctx, a, x, f, NULL, NULL);
}

/* Of the forward ops. */
typedef struct conv_forward_state {
  weft_window_attrs_t attrs;
  weft_kept_t *panels; /* owned; NULL: the filter may be another one in each step */
} conv_forward_state_t;

static void forward_destroy(void *state) {
  conv_forward_state_t *s = state;
  if (s == NULL) return;
  weft_kept_destroy(s->panels);
  weft_free(s);
}

static weft_status_t *forward_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  void *attrs = NULL;
  WEFT_RETURN_IF_ERROR(weft_conv_prepare(setup, &attrs));
  conv_forward_state_t *s = weft_calloc(1, sizeof *s);
  weft_status_t *status = s == NULL ? WEFT_NO_MEMORY("preparing %s", setup->node.name.data) : NULL;
  if (status == NULL) {
    memcpy(&s->attrs, attrs, sizeof s->attrs);
    if (weft_kept_may_keep(setup, 1)) status = weft_kept_create(&s->panels);
  }
  weft_free(attrs);
  if (status != NULL) {
    weft_free(s);
    return status;
  }
  *out_state = s;
  return NULL;
}

weft_status_t *weft_conv2d_then(weft_kernel_ctx_t *ctx, weft_epilogue_binder_t *binder) {
  const conv_forward_state_t *s = ctx->state;
  return convolve(ctx, &s->attrs, weft_in(ctx, 0), weft_in(ctx, 1), s->panels, binder);
}

static weft_status_t *forward_compute(weft_kernel_ctx_t *ctx) { return weft_conv2d_then(ctx, NULL); }

/* ---- gradients ---- */

/* Checks that dy's spatial sizes are what the forward op makes. */
static weft_status_t *check_windows(const weft_window_attrs_t *a, const char *op, const weft_shape_t *x,
                                    const weft_shape_t *f, const weft_shape_t *dy, weft_conv_t *v) {
  int64_t k[WEFT_SPACE];
  filter_sizes(a, f, k);
  for (int d = WEFT_SPACE - a->num_space; d < WEFT_SPACE; d++) {
    if (k[d] <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s: filter must not have zero elements", op);
  }
  WEFT_RETURN_IF_ERROR(weft_windows_plan(a, x, k, v->s));
  for (int d = WEFT_SPACE - a->num_space; d < WEFT_SPACE; d++) {
    const weft_window_t *w = &v->s[d];
    int64_t actual = weft_image_dim(a, dy, d);
    if (w->out == actual) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: Size of out_backprop doesn't match computed: actual = %" PRId64
                      ", computed = %" PRId64 " spatial_dim: %d input: %" PRId64 " filter: %" PRId64
                      " output: %" PRId64 " stride: %" PRId64 " dilation: %" PRId64,
                      op, actual, w->out, weft_image_axis(a, d), w->in, w->k, actual, w->stride, w->dilation);
  }
  return NULL;
}

/* Checks that dy is what the forward op makes of an input of shape `x` and filters of shape `f`. */
static weft_status_t *check_backward(const weft_window_attrs_t *a, const char *op, const weft_shape_t *x,
                                     const weft_shape_t *f, const weft_shape_t *dy, weft_conv_t *v) {
  int rank = a->num_space + 2;
  if (x->rank != rank) return WEFT_ERROR(INVALID_ARGUMENT, "%s: input must be %d-dimensional", op, rank);
  if (f->rank != rank) return WEFT_ERROR(INVALID_ARGUMENT, "%s: filter must be %d-dimensional", op, rank);
  if (dy->rank != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: out_backprop must be %d-dimensional", op, rank);
  }
  v->n = x->dims[0];
  v->c = weft_image_channels(a, x);
  v->cg = f->dims[rank - 2];
  v->oc = f->dims[rank - 1];
  if (dy->dims[0] != v->n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: input and out_backprop must have the same batch size. Input batch: %" PRId64
                      ", outbackprop batch: %" PRId64 ", batch_dim: 0",
                      op, v->n, dy->dims[0]);
  }
  if (v->cg <= 0 || v->c % v->cg != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: input depth must be evenly divisible by filter depth", op);
  }
  if (weft_image_channels(a, dy) != v->oc) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: filter and out_backprop must have the same out_depth", op);
  }
  v->groups = v->c / v->cg;
  if (a->num_space == 3 && v->groups != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: input and filter_sizes must have the same number of channels",
                      op);
  }
  if (v->groups > 0 && v->oc % v->groups != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: output depth must be evenly divisible by number of groups", op);
  }
  return check_windows(a, op, x, f, dy, v);
}

/* The shape that input i holds, or, in the first versions of volume ops, has. */
static weft_status_t *given_shape(weft_kernel_ctx_t *ctx, int i, const char *op, weft_shape_t *out) {
  const weft_tensor_t *t = weft_in(ctx, i);
  if (t->dtype != WEFT_I32 && t->dtype != WEFT_I64) {
    *out = t->shape;
    return NULL;
  }
  if (t->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: sizes input must be 1-dim, not %d", op, t->shape.rank);
  }
  return weft_cpu_shape_from(t, op, out);
}

/* What TensorFlow's errors about shapes name: the kernel, not the op. */
static const char *kernel_name(const weft_window_attrs_t *a, bool of_input) {
  if (a->num_space == 2) return of_input ? "Conv2DCustomBackpropInput" : "Conv2DCustomBackpropFilter";
  return of_input ? "Conv3DBackpropInputOp" : "Conv3DBackpropFilterOp";
}

static weft_status_t *input_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  const weft_tensor_t *f = weft_in(ctx, 1), *dy = weft_in(ctx, 2);
  const char *op = ctx->node->op_name.data;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(given_shape(ctx, 0, op, &shape));
  if (shape.rank == 2 && dy->shape.rank == 4 && f->shape.rank == 4) {
    shape = weft_image_shape(a, a->channels_first, dy->shape.dims[0],
                             (int64_t[]){1, shape.dims[0], shape.dims[1]}, f->shape.dims[2]);
  } else if (a->num_space == 2 && shape.rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: %d",
                      shape.rank);
  }
  weft_conv_t v = {.dtype = f->dtype};
  WEFT_RETURN_IF_ERROR(check_backward(a, kernel_name(a, true), &shape, &f->shape, &dy->shape, &v));
  weft_dtype_t dtype = f->dtype;
  if (dtype == WEFT_F16 || dtype == WEFT_BF16) v.dtype = WEFT_F32;
  weft_shape_t last = weft_image_shape(a, false, v.n, (int64_t[]){v.s[0].in, v.s[1].in, v.s[2].in}, v.c);
  weft_tensor_t *dx = NULL, *owned_f = NULL, *owned_dy = NULL;
  weft_status_t *s = weft_tensor_new(v.dtype, &last, ctx->device->allocator, &dx);
  if (s == NULL && dx->count > 0) s = channels_last(ctx, a, &dy, &owned_dy);
  if (s == NULL && dx->count > 0) s = as_wide(ctx, &dy, &owned_dy);
  if (s == NULL && dx->count > 0) s = as_wide(ctx, &f, &owned_f);
  if (s == NULL) s = weft_conv_backprop_input(ctx->device->pool, &v, dy->data, f->data, dx->data);
  weft_tensor_release(owned_f);
  weft_tensor_release(owned_dy);
  if (s != NULL) {
    weft_tensor_release(dx);
    return s;
  }
  return deliver(ctx, a->channels_first, dtype, dx);
}

static weft_status_t *filter_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0), *dy = weft_in(ctx, 2);
  const char *op = ctx->node->op_name.data;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(given_shape(ctx, 1, op, &shape));
  weft_conv_t v = {.dtype = x->dtype};
  WEFT_RETURN_IF_ERROR(check_backward(a, kernel_name(a, false), &x->shape, &shape, &dy->shape, &v));
  weft_dtype_t dtype = x->dtype;
  if (dtype == WEFT_F16 || dtype == WEFT_BF16) v.dtype = WEFT_F32;
  weft_tensor_t *df = NULL, *owned_x = NULL, *owned_dy = NULL;
  weft_status_t *s = weft_tensor_new(v.dtype, &shape, ctx->device->allocator, &df);
  bool any = s == NULL && df->count > 0 && x->count > 0;
  if (s == NULL && !any) {
    weft_cpu_zero(df);
    return deliver(ctx, false, dtype, df);
  }
  if (s == NULL) s = channels_last(ctx, a, &x, &owned_x);
  if (s == NULL) s = as_wide(ctx, &x, &owned_x);
  if (s == NULL) s = channels_last(ctx, a, &dy, &owned_dy);
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

/* ---- volumes: the same, for what TensorFlow computes of them on the CPU ---- */

static weft_status_t *check_volume(const weft_window_attrs_t *a, const char *op) {
  if (a->channels_first) return WEFT_ERROR(INVALID_ARGUMENT, "%s only supports NDHWC on the CPU", op);
  for (int i = 0; i < WEFT_SPACE; i++) {
    if (a->dilation[i] == 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s only supports dilation rates of 1 on the CPU", op);
  }
  return NULL;
}

static weft_status_t *volume_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  void *state = NULL;
  WEFT_RETURN_IF_ERROR(forward_prepare(setup, &state));
  conv_forward_state_t *s = state;
  s->attrs.is_centred = true;
  *out_state = s;
  return NULL;
}

static weft_status_t *volume_grad_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  void *state = NULL;
  WEFT_RETURN_IF_ERROR(weft_conv_prepare(setup, &state));
  weft_status_t *s = check_volume(state, setup->node.op_name.data);
  if (s != NULL) {
    weft_free(state);
    return s;
  }
  *out_state = state;
  return NULL;
}

/* What is not supported matters only where there is something to compute. */
static weft_status_t *volume_compute(weft_kernel_ctx_t *ctx) {
  const conv_forward_state_t *state = ctx->state;
  const weft_window_attrs_t *a = &state->attrs;
  const weft_tensor_t *x = weft_in(ctx, 0), *f = weft_in(ctx, 1);
  weft_conv_t v = {.dtype = x->dtype};
  WEFT_RETURN_IF_ERROR(check_forward(a, &x->shape, &f->shape, &v));
  weft_shape_t shape = out_shape(a, &v);
  bool is_empty = false;
  for (int i = 0; i < shape.rank; i++) is_empty |= shape.dims[i] == 0;
  if (!is_empty) WEFT_RETURN_IF_ERROR(check_volume(a, ctx->node->op_name.data));
  return forward_compute(ctx);
}

#define CONV_TYPES (WEFT_SET_FLOATS | WEFT_DTYPE_BIT(WEFT_I32))
#define V1_TYPES (WEFT_SET_FLOATS & ~WEFT_DTYPE_BIT(WEFT_BF16))
const weft_kernel_t weft_cpu_conv_kernels[] = {
    WEFT_KERNEL("Conv2D", "T", CONV_TYPES, forward_prepare, forward_compute, forward_destroy),
    WEFT_KERNEL("Conv2DBackpropFilter", "T", WEFT_SET_FLOATS, weft_strict_conv_prepare, filter_compute,
                weft_free),
    WEFT_KERNEL("Conv2DBackpropInput", "T", CONV_TYPES, weft_conv_prepare, input_compute, weft_free),
    WEFT_KERNEL("Conv3D", "T", WEFT_SET_FLOATS, volume_prepare, volume_compute, forward_destroy),
    WEFT_KERNEL("Conv3DBackpropFilter", "T", V1_TYPES, volume_grad_prepare, filter_compute, weft_free),
    WEFT_KERNEL("Conv3DBackpropFilterV2", "T", WEFT_SET_FLOATS, volume_grad_prepare, filter_compute,
                weft_free),
    WEFT_KERNEL("Conv3DBackpropInput", "T", V1_TYPES, volume_grad_prepare, input_compute, weft_free),
    WEFT_KERNEL("Conv3DBackpropInputV2", "T", WEFT_SET_FLOATS, volume_grad_prepare, input_compute, weft_free),
    {0},
};
