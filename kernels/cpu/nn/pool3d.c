/* kernels/cpu/nn/pool3d.c - MaxPool3D, AvgPool3D and their gradients, over [N,D,H,W,C].
 *
 * They are not the pools of images with one dimension more: a mean leaves out cells that hold the lowest
 * number, a window over padding has at least that number as its maximum, a gradient goes to every cell that
 * is as large as the maximum, and what a gradient reaches is cut off at the end of the input only.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/nn/channels.h"
#include "kernels/cpu/nn/window.h"

typedef struct volume_job {
  weft_window_t s[WEFT_SPACE];
  int64_t n, c;
  int64_t grad[WEFT_SPACE]; /* spatial sizes of dy */
  const void *x, *y, *dy;
  void *out;
  void (*fn)(const struct volume_job *j, int64_t begin, int64_t end);
} volume_job_t;
typedef void volume_fn(const volume_job_t *j, int64_t begin, int64_t end);

/* The cells under a window, in each spatial dimension. */
typedef struct volume_box {
  weft_window_span_t s[WEFT_SPACE];
  bool is_cut; /* padding is under it, too */
} volume_box_t;

static int64_t size_of(weft_window_span_t s) { return s.end > s.begin ? s.end - s.begin : 0; }

static volume_box_t box_under(const volume_job_t *j, int64_t pixel) {
  volume_box_t b = {.is_cut = false};
  for (int i = WEFT_SPACE - 1; i >= 0; i--) {
    b.s[i] = weft_window_cells(&j->s[i], pixel % j->s[i].out);
    b.is_cut |= b.s[i].end - b.s[i].begin < j->s[i].k;
    pixel /= j->s[i].out;
  }
  return b;
}

/* The cells that a gradient at `o` goes to in one dimension. One that begins in front of the input and ends
 * behind it is taken to cover as much as one that begins with it. */
static weft_window_span_t reached(const weft_window_t *w, int64_t o) {
  const weft_window_span_t cells = weft_window_cells(w, o);
  const bool is_wide = o * w->stride < w->before && w->k > w->in;
  return is_wide ? (weft_window_span_t){0, w->in} : cells;
}

/* The gradients that may go to the cells [begin, end) of one dimension with `grads` of them. */
static weft_window_span_t reaching(const weft_window_t *w, int64_t grads, int64_t begin, int64_t end) {
  weft_window_t all = *w;
  all.out = grads;
  weft_window_span_t o = weft_window_outputs(&all, begin, end);
  if (w->k > w->in) o.begin = 0;
  return o;
}

static bool has(weft_window_span_t s, int64_t i) { return i >= s.begin && i < s.end; }

static int64_t out_pixels_of(const volume_job_t *j) { return j->s[0].out * j->s[1].out * j->s[2].out; }
static int64_t in_pixels_of(const volume_job_t *j) { return j->s[0].in * j->s[1].in * j->s[2].in; }

/* A gradient that goes to a line of dx. */
typedef struct volume_source {
  int64_t from; /* the first of its pixels along W, in dy */
  int64_t area; /* cells of its windows in the dimensions before W */
} volume_source_t;

/* Called for each, in the order of dy: `line` of dx begins at its pixel `to`. */
typedef void volume_line_fn(const volume_job_t *j, volume_source_t source, int64_t to);

static void each_source(const volume_job_t *j, int64_t line, volume_line_fn *fn) {
  const weft_window_t *d = &j->s[0], *h = &j->s[1];
  const int64_t ih = line % h->in, id = line / h->in % d->in, n = line / h->in / d->in;
  const weft_window_span_t planes = reaching(d, j->grad[0], id, id + 1),
                           rows = reaching(h, j->grad[1], ih, ih + 1);
  for (int64_t od = planes.begin; od < planes.end; od++) {
    const weft_window_span_t depth = reached(d, od);
    if (!has(depth, id)) continue;
    for (int64_t oh = rows.begin; oh < rows.end; oh++) {
      const weft_window_span_t height = reached(h, oh);
      if (!has(height, ih)) continue;
      const volume_source_t source = {((n * j->grad[0] + od) * j->grad[1] + oh) * j->grad[2],
                                      size_of(depth) * size_of(height)};
      fn(j, source, line * j->s[2].in);
    }
  }
}

static double lowest(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_F16: return -65504;
    case WEFT_BF16: return -0x1.fep127;
    case WEFT_F32: return -(double)FLT_MAX;
    default: return -DBL_MAX;
  }
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/nn/pool3d_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#define VOLUME_TABLE(stem) \
  { [WEFT_F16] = stem##_f16, [WEFT_BF16] = stem##_bf16, [WEFT_F32] = stem##_f32, [WEFT_F64] = stem##_f64 }
static volume_fn *const max_fns[WEFT_DTYPE_COUNT] = VOLUME_TABLE(volume_max);
static volume_fn *const avg_fns[WEFT_DTYPE_COUNT] = VOLUME_TABLE(volume_avg);
static volume_fn *const max_grad_fns[WEFT_DTYPE_COUNT] = VOLUME_TABLE(volume_max_grad);
static volume_fn *const avg_grad_fns[WEFT_DTYPE_COUNT] = VOLUME_TABLE(volume_avg_grad);
static volume_fn *const second_fns[WEFT_DTYPE_COUNT] = VOLUME_TABLE(volume_second);

/* ---- common steps ---- */

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  void *state = NULL;
  WEFT_RETURN_IF_ERROR(weft_pool_prepare(setup, &state));
  const weft_window_attrs_t *a = state;
  weft_status_t *s = NULL;
  if (a->channels_first) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s only supports NDHWC on the CPU", setup->node.op_name.data);
  } else if (a->ksize_channel != 1 || a->stride_channel != 1) {
    s = WEFT_ERROR(UNIMPLEMENTED, "Pooling is not yet supported on the depth dimension.");
  }
  if (s == NULL) {
    *out_state = state;
  } else {
    weft_free(state);
  }
  return s;
}

static weft_status_t *plan(const weft_window_attrs_t *a, const char *what, const weft_shape_t *x,
                           volume_job_t *j) {
  if (x->rank != 5) return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 5-dimensional", what);
  j->n = x->dims[0];
  j->c = x->dims[4];
  return weft_windows_plan(a, x, a->ksize, j->s);
}

static void range(void *arg, int64_t begin, int64_t end) {
  const volume_job_t *j = arg;
  j->fn(j, begin, end);
}

/* Runs `fn` over `lines` > 0 lines along W. */
static void run_lines(weft_kernel_ctx_t *ctx, volume_job_t *j, volume_fn *fn, int64_t lines) {
  j->fn = fn;
  const double pixels = (double)j->n * (double)out_pixels_of(j);
  const double work = pixels * (double)j->c * (double)(j->s[0].k * j->s[1].k * j->s[2].k);
  const int64_t grain = (int64_t)(WEFT_CPU_GRAIN / (work / (double)lines + 1)) + 1;
  weft_parallel_for(lines > grain ? ctx->device->pool : NULL, lines, grain, range, j);
}

/* Lines of y, and of dx. */
static void run_outputs(weft_kernel_ctx_t *ctx, volume_job_t *j, volume_fn *fn) {
  run_lines(ctx, j, fn, j->n * j->s[0].out * j->s[1].out);
}
static void run_inputs(weft_kernel_ctx_t *ctx, volume_job_t *j, volume_fn *fn) {
  run_lines(ctx, j, fn, j->n * j->s[0].in * j->s[1].in);
}

static weft_shape_t out_shape(const volume_job_t *j) {
  return (weft_shape_t){.rank = 5, .dims = {j->n, j->s[0].out, j->s[1].out, j->s[2].out, j->c}};
}

static weft_status_t *check_shape(const char *what, const weft_tensor_t *t, const weft_shape_t *want) {
  if (weft_shape_eq(&t->shape, want)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected %s shape to be %s, but got %s", what, WEFT_SHAPE_TEXT(want),
                    WEFT_SHAPE_TEXT(&t->shape));
}

/* ---- the ops ---- */

static weft_status_t *forward(weft_kernel_ctx_t *ctx, volume_fn *const fns[]) {
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_window_attrs_t a = *(const weft_window_attrs_t *)ctx->state;
  a.is_centred = true;
  weft_tensor_t *y = NULL;
  volume_job_t j = {.x = x->data};
  WEFT_RETURN_IF_ERROR(plan(&a, "tensor_in", &x->shape, &j));
  weft_shape_t shape = out_shape(&j);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  j.out = y->data;
  if (y->count > 0) run_outputs(ctx, &j, fns[x->dtype]);
  return NULL;
}

static weft_status_t *max_compute(weft_kernel_ctx_t *ctx) { return forward(ctx, max_fns); }
static weft_status_t *avg_compute(weft_kernel_ctx_t *ctx) { return forward(ctx, avg_fns); }

/* The gradient of a maximum, and its gradient (`second`). */
static weft_status_t *max_grad(weft_kernel_ctx_t *ctx, bool second) {
  const weft_tensor_t *x = weft_in(ctx, 0), *y = weft_in(ctx, 1), *dy = weft_in(ctx, 2);
  weft_tensor_t *out = NULL;
  volume_job_t j = {.x = x->data, .y = y->data, .dy = dy->data};
  WEFT_RETURN_IF_ERROR(plan(ctx->state, "tensor_in", &x->shape, &j));
  weft_shape_t shape = out_shape(&j);
  WEFT_RETURN_IF_ERROR(check_shape("orig_output", y, &shape));
  WEFT_RETURN_IF_ERROR(check_shape("grad", dy, second ? &x->shape : &shape));
  if (second && (x->count == 0 || y->count == 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "received empty tensor %s",
                      x->count == 0 ? "tensor_in" : "tensor_out");
  }
  for (int i = 0; i < WEFT_SPACE; i++) j.grad[i] = j.s[i].out;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, second ? &shape : &x->shape, &out));
  j.out = out->data;
  if (out->count > 0 && second) run_outputs(ctx, &j, second_fns[x->dtype]);
  if (out->count > 0 && !second) run_inputs(ctx, &j, max_grad_fns[x->dtype]);
  return NULL;
}

static weft_status_t *max_grad_compute(weft_kernel_ctx_t *ctx) { return max_grad(ctx, false); }
static weft_status_t *second_compute(weft_kernel_ctx_t *ctx) { return max_grad(ctx, true); }

/* dy may have any spatial size, as long as no window begins behind the input. */
static weft_status_t *avg_grad_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *sizes = weft_in(ctx, 0), *dy = weft_in(ctx, 1);
  weft_tensor_t *dx = NULL;
  weft_shape_t x;
  volume_job_t j = {.dy = dy->data};
  if (sizes->shape.rank != 1 || sizes->count != 5) {
    return WEFT_ERROR(INVALID_ARGUMENT, "tensor_in must be 1-dimensional and 5 elements");
  }
  if (dy->shape.rank != 5) return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop must be 5-dimensional");
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "orig_input_shape", &x));
  WEFT_RETURN_IF_ERROR(plan(ctx->state, "tensor_in", &x, &j));
  if (dy->shape.dims[0] != j.n || dy->shape.dims[4] != j.c) {
    bool is_first = dy->shape.dims[0] != j.n;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected %s dimension of tensor_in_shape and out_backprop to match, got %" PRId64
                      " and %" PRId64,
                      is_first ? "first" : "last", is_first ? j.n : j.c, dy->shape.dims[is_first ? 0 : 4]);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dy->dtype, &x, &dx));
  bool is_empty = dy->shape.dims[3] == 0;
  for (int i = WEFT_SPACE - 1; i >= 0 && !is_empty; i--) { /* in the order of TensorFlow's loops */
    int64_t size = dy->shape.dims[i + 1];
    if (size == 0) is_empty = true;
    if (size > 0 && (size - 1) > j.s[i].in / j.s[i].stride) {
      return WEFT_ERROR(INVALID_ARGUMENT, "index * stride must be less than or equal to input size");
    }
  }
  for (int i = 0; i < WEFT_SPACE; i++) j.grad[i] = dy->shape.dims[i + 1];
  j.out = dx->data;
  if (dx->count > 0) run_inputs(ctx, &j, avg_grad_fns[dy->dtype]);
  return NULL;
}

#define ROW(op_, type_, compute_) WEFT_KERNEL(op_, "T", WEFT_DTYPE_BIT(type_), prepare, compute_, weft_free)
#define ROW_GRAD(type_)                                                                               \
  WEFT_KERNEL2("MaxPool3DGrad", "T", WEFT_DTYPE_BIT(type_), "TInput", WEFT_DTYPE_BIT(type_), prepare, \
               max_grad_compute, weft_free)
const weft_kernel_t weft_cpu_pool3d_kernels[] = {
    ROW("AvgPool3D", WEFT_BF16, avg_compute),
    ROW("AvgPool3D", WEFT_F32, avg_compute),
    ROW("AvgPool3DGrad", WEFT_BF16, avg_grad_compute),
    ROW("AvgPool3DGrad", WEFT_F32, avg_grad_compute),
    ROW("MaxPool3D", WEFT_BF16, max_compute),
    ROW("MaxPool3D", WEFT_F32, max_compute),
    ROW_GRAD(WEFT_BF16),
    ROW_GRAD(WEFT_F32),
    ROW("MaxPool3DGradGrad", WEFT_BF16, second_compute),
    ROW("MaxPool3DGradGrad", WEFT_F32, second_compute),
    {0},
};
