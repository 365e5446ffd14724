/* kernels/cpu/nn/pool.c - MaxPool, AvgPool and all their gradients. Everything is computed over [N,H,W,C]. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/move.h"
#include "kernels/cpu/nn/channels.h"
#include "kernels/cpu/nn/window.h"

#define MOST_CELLS ((double)UINT32_MAX) /* of a window whose maximum is to be found: they are numbered */

typedef struct pool_job {
  weft_window_t s[WEFT_SPACE];
  int64_t n, c, depth;
  const void *x, *dy;
  void *y;
  void *places; /* of maxima, where they are wanted: int64 or int32 */
  size_t place_size;
  int64_t in_image, out_image; /* elements, where maxima are given */
  bool counts_batch;           /* places count from the first image on, or from their own */
  void (*fn)(const struct pool_job *j, int64_t begin, int64_t end);
} pool_job_t;

/* A part of a line of outputs (pool_lines_one.tmpl.h): the first, how many, the phases that their windows
 * need and the pixels of each. */
typedef struct pool_tile {
  int64_t first, outputs, phases, length;
} pool_tile_t;

enum {
  TILE_ELEMENTS = 1024, /* of outputs at a time: they and the phases stay in the first-level cache */
  WIDEST_WINDOW = 16,   /* columns of a window that lines are worth: a pixel is read for each phase once */
  LEAST_OUTPUTS = 4,    /* and outputs of a line */
};

/* Whole tiles of a line. */
static pool_tile_t pool_tile_of(const pool_job_t *j) {
  const weft_window_t *w = &j->s[2];
  const int64_t fits = TILE_ELEMENTS / j->c, outputs = fits < LEAST_OUTPUTS ? LEAST_OUTPUTS : fits;
  pool_tile_t t = {.outputs = w->out < outputs ? w->out : outputs,
                   .phases = w->k < w->stride ? w->k : w->stride};
  t.length = t.outputs + (w->k - 1) / w->stride;
  return t;
}

/* Whether a pool goes line by line: one of fewer than `channels`, which are not worth a block of them. */
static bool goes_by_lines(const pool_job_t *j, int64_t channels) {
  const weft_window_t *w = &j->s[2];
  return j->c < channels && j->c > 0 && w->k <= WIDEST_WINDOW && w->stride <= WIDEST_WINDOW &&
         w->out >= LEAST_OUTPUTS;
}

/* Where given maximum i lies among all elements; `first`: of what it counts from. */
static inline __attribute__((always_inline)) int64_t given_place(const pool_job_t *j, int64_t i,
                                                                 int64_t first, const bool is_wide) {
  const int64_t place = is_wide ? ((const int64_t *)j->places)[i] : ((const int32_t *)j->places)[i];
  return (int64_t)((uint64_t)place + (uint64_t)first); /* what overflows is out of range, too */
}

/* Of an image: the first element that its places count from. */
static int64_t places_from(const pool_job_t *j, int64_t image) {
  return j->counts_batch ? 0 : image * j->in_image;
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/nn/pool_lines_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#define EACH_FILE "kernels/cpu/nn/pool_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
typedef void pool_fn(const pool_job_t *j, int64_t begin, int64_t end);
static pool_fn *const max_pool_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM max_pool
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
    [WEFT_QINT8] = max_pool_i8,
};
static pool_fn *const max_places_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM max_places
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static pool_fn *const max_second_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM max_second
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static pool_fn *const max_grad_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM max_grad
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static pool_fn *const add_places_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM add_places
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static pool_fn *const max_depth_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM max_depth
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
    [WEFT_QINT8] = max_depth_i8,
};
#include "tensor/undef_each.tmpl.h"
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/nn/avg_pool_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static pool_fn *const avg_pool_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM avg_pool
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static pool_fn *const avg_grad_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM avg_grad
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

/* ---- common steps ---- */

static void lines_range(void *arg, int64_t begin, int64_t end) {
  const pool_job_t *j = arg;
  j->fn(j, begin, end);
}

/* fn over `lines` rows of the output, cut after multiples of `unit` rows. */
static void run_lines(weft_kernel_ctx_t *ctx, pool_job_t *j, pool_fn *fn, int64_t lines, int64_t unit) {
  j->fn = fn;
  const double work =
      (double)j->n * (double)(j->s[1].out * j->s[2].out * j->c) * (double)j->s[1].k * (double)j->s[2].k;
  const double units = WEFT_CPU_GRAIN / (work / (double)lines * (double)unit + 1) + 1;
  const int64_t grain = units * (double)unit < (double)lines ? (int64_t)units * unit : lines;
  weft_parallel_for(lines > grain ? ctx->device->pool : NULL, lines, grain, lines_range, j);
}

/* Rows of y. */
static void run_outputs(weft_kernel_ctx_t *ctx, pool_job_t *j, pool_fn *fn) {
  run_lines(ctx, j, fn, j->n * j->s[1].out, 1);
}

/* Windows over an image of shape `x` (in the attributes' layout). */
static weft_status_t *plan(const weft_window_attrs_t *a, const weft_shape_t *x, pool_job_t *j) {
  if (x->rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "tensor_in_shape must have 2 spatial dimensions. %d %d", x->rank, 0);
  }
  j->n = x->dims[0];
  j->c = weft_image_channels(a, x);
  return weft_windows_plan(a, x, a->ksize, j->s);
}

/* Shapes of the op's input and output. */
static weft_shape_t in_shape(const weft_window_attrs_t *a, bool channels_first, const pool_job_t *j) {
  return weft_image_shape(a, channels_first, j->n, (int64_t[]){j->s[0].in, j->s[1].in, j->s[2].in}, j->c);
}
static weft_shape_t out_shape(const weft_window_attrs_t *a, bool channels_first, const pool_job_t *j) {
  return weft_image_shape(a, channels_first, j->n, (int64_t[]){j->s[0].out, j->s[1].out, j->s[2].out}, j->c);
}

static weft_status_t *channels_last(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, weft_tensor_t *t,
                                    weft_tensor_t **out) {
  if (a->channels_first && t->count > 0) return weft_to_channels_last(ctx, t, out);
  *out = weft_tensor_retain(t);
  return NULL;
}

/* Output o from an [N,H,W,C] tensor; consumes it, in every case. */
static weft_status_t *deliver(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, int o, weft_tensor_t *t) {
  weft_tensor_t *made = NULL;
  if (!a->channels_first) {
    weft_out_set(ctx, o, t);
    return NULL;
  }
  weft_status_t *s = weft_to_channels_first(ctx, t, &made);
  weft_tensor_release(t);
  if (s == NULL) weft_out_set(ctx, o, made);
  return s;
}

/* MaxPoolV2 and MaxPoolGradV2 have the window as inputs `at` and `at + 1`. */
static weft_status_t *window_inputs(weft_kernel_ctx_t *ctx, int at, weft_window_attrs_t *a) {
  const char *const names[2] = {"ksize", "strides"};
  for (int i = 0; i < 2; i++) {
    const weft_tensor_t *t = weft_in(ctx, at + i);
    int64_t four[4] = {1, 1, 1, 1};
    if (t->shape.rank != 1 || t->count != 4) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Sliding window %s field must specify 4 dimensions", names[i]);
    }
    for (int d = 0; d < 4; d++) {
      four[d] = weft_cpu_int_at(t, d);
      if (four[d] <= 0) {
        return WEFT_ERROR(INVALID_ARGUMENT, "Sliding window %s must be positive. Got: %" PRId64, names[i],
                          four[d]);
      }
    }
    if (four[0] != 1)
      return WEFT_ERROR(UNIMPLEMENTED, "Pooling is not yet supported on the batch dimension.");
    WEFT_RETURN_IF_ERROR(weft_window_values(a, four, 4, names[i], i == 0 ? a->ksize : a->stride,
                                            i == 0 ? &a->ksize_channel : &a->stride_channel));
  }
  return NULL;
}

/* ---- forward ---- */

static weft_status_t *check_depth(const weft_window_attrs_t *a, int64_t channels) {
  if (a->ksize_channel == 1) return NULL;
  if (a->ksize[1] != 1 || a->ksize[2] != 1) {
    return WEFT_ERROR(
        UNIMPLEMENTED,
        "MaxPooling supports exactly one of pooling across depth or pooling across width/height.");
  }
  if (a->ksize_channel != a->stride_channel) {
    return WEFT_ERROR(UNIMPLEMENTED,
                      "Depthwise max pooling requires the depth window to equal the depth stride");
  }
  if (channels % a->ksize_channel != 0) {
    return WEFT_ERROR(UNIMPLEMENTED,
                      "Depthwise max pooling requires the depth window to evenly divide the input depth");
  }
  return NULL;
}

static weft_status_t *max_depth(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, pool_job_t *j,
                                weft_tensor_t *x) {
  weft_shape_t shape = in_shape(a, false, j);
  shape.dims[3] /= a->ksize_channel;
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(x->dtype, &shape, ctx->device->allocator, &y));
  j->depth = a->ksize_channel;
  j->x = x->data;
  j->y = y->data;
  max_depth_fns[x->dtype](j, 0, y->count);
  return deliver(ctx, a, 0, y);
}

static weft_status_t *max_pool(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a) {
  weft_tensor_t *x = weft_in(ctx, 0), *image = NULL, *y = NULL;
  pool_job_t j = {.n = 0};
  WEFT_RETURN_IF_ERROR(plan(a, &x->shape, &j));
  WEFT_RETURN_IF_ERROR(check_depth(a, j.c));
  WEFT_RETURN_IF_ERROR(channels_last(ctx, a, x, &image));
  weft_status_t *s = NULL;
  if (a->ksize_channel != 1) {
    s = max_depth(ctx, a, &j, image);
  } else {
    weft_shape_t shape = out_shape(a, false, &j);
    s = weft_tensor_new(x->dtype, &shape, ctx->device->allocator, &y);
    if (s == NULL) {
      j.x = image->data;
      j.y = y->data;
      if (y->count > 0) run_outputs(ctx, &j, max_pool_fns[x->dtype]);
      s = deliver(ctx, a, 0, y);
    }
  }
  weft_tensor_release(image);
  return s;
}

static weft_status_t *max_pool_compute(weft_kernel_ctx_t *ctx) { return max_pool(ctx, ctx->state); }

static weft_status_t *max_pool_v2_compute(weft_kernel_ctx_t *ctx) {
  weft_window_attrs_t a = *(const weft_window_attrs_t *)ctx->state;
  WEFT_RETURN_IF_ERROR(window_inputs(ctx, 1, &a));
  return max_pool(ctx, &a);
}

static weft_status_t *avg_pool_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  weft_tensor_t *x = weft_in(ctx, 0), *image = NULL, *y = NULL;
  pool_job_t j = {.n = 0};
  WEFT_RETURN_IF_ERROR(plan(a, &x->shape, &j));
  WEFT_RETURN_IF_ERROR(check_depth(a, j.c));
  if (a->ksize_channel != 1) {
    return WEFT_ERROR(UNIMPLEMENTED, "Non-spatial pooling is not yet supported. Volunteers? :)");
  }
  weft_shape_t shape = out_shape(a, false, &j);
  WEFT_RETURN_IF_ERROR(channels_last(ctx, a, x, &image));
  weft_status_t *s = weft_tensor_new(x->dtype, &shape, ctx->device->allocator, &y);
  if (s == NULL) {
    j.x = image->data;
    j.y = y->data;
    if (y->count > 0) run_outputs(ctx, &j, avg_pool_fns[x->dtype]);
    s = deliver(ctx, a, 0, y);
  }
  weft_tensor_release(image);
  return s;
}

/* ---- gradients ---- */

static weft_status_t *avg_pool_grad_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  weft_tensor_t *sizes = weft_in(ctx, 0), *dy = weft_in(ctx, 1), *grad = NULL, *dx = NULL;
  weft_shape_t shape;
  if (sizes->shape.rank != 1 || sizes->count != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop must be 1-dimensional and 4 elements");
  }
  if (dy->shape.rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop must be 4-dimensional");
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "orig_input_shape", &shape));
  pool_job_t j = {.n = 0};
  if (weft_shape_count(&shape) == 0 && dy->count == 0) { /* windows need not fit */
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dy->dtype, &shape, &dx));
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(plan(a, &shape, &j));
  if (a->ksize_channel != 1)
    return WEFT_ERROR(UNIMPLEMENTED, "Non-spatial pooling is not yet supported. Volunteers? :)");
  weft_shape_t want = out_shape(a, a->channels_first, &j);
  if (!weft_shape_eq(&dy->shape, &want)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected grad shape to be %s, but got %s", WEFT_SHAPE_TEXT(&want),
                      WEFT_SHAPE_TEXT(&dy->shape));
  }
  weft_shape_t last = in_shape(a, false, &j);
  WEFT_RETURN_IF_ERROR(channels_last(ctx, a, dy, &grad));
  weft_status_t *s = weft_tensor_new(dy->dtype, &last, ctx->device->allocator, &dx);
  if (s == NULL) {
    j.dy = grad->data;
    j.y = dx->data;
    if (dx->count > 0) run_lines(ctx, &j, avg_grad_fns[dy->dtype], j.n * j.s[1].in, 1);
    s = deliver(ctx, a, 0, dx);
  }
  weft_tensor_release(grad);
  return s;
}

static weft_status_t *check_grad_shapes(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a,
                                        const pool_job_t *j, bool grad_is_input) {
  weft_shape_t out = out_shape(a, a->channels_first, j), in = in_shape(a, a->channels_first, j);
  const weft_shape_t *y = &weft_in(ctx, 1)->shape, *grad = &weft_in(ctx, 2)->shape,
                     *want = grad_is_input ? &in : &out;
  if (!weft_shape_eq(y, &out)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected orig_output shape to be %s, but got %s",
                      WEFT_SHAPE_TEXT(&out), WEFT_SHAPE_TEXT(y));
  }
  if (!weft_shape_eq(grad, want)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected grad shape to be %s, but got %s", WEFT_SHAPE_TEXT(want),
                      WEFT_SHAPE_TEXT(grad));
  }
  return NULL;
}

/* Rows of dx that one thread computes without a cut: images, where there are enough of them, else so many
 * that few windows are cut. */
static int64_t uncut_rows(const weft_kernel_ctx_t *ctx, const pool_job_t *j) {
  const weft_window_t *h = &j->s[1];
  const int64_t threads = ctx->device->pool == NULL ? 1 : weft_thread_pool_size(ctx->device->pool);
  return j->n >= 4 * threads || h->k >= h->in / 8 ? h->in : 8 * h->k;
}

static bool fits(const weft_window_t s[WEFT_SPACE]) {
  const int64_t rows = s[1].k < s[1].in ? s[1].k : s[1].in;
  return (double)rows * (double)s[2].in <= MOST_CELLS;
}

/* MaxPoolGrad adds dy to the maxima; MaxPoolGradGrad (`second`) takes from them. */
static weft_status_t *max_grad(weft_kernel_ctx_t *ctx, const weft_window_attrs_t *a, bool second) {
  weft_tensor_t *x = weft_in(ctx, 0), *grad = weft_in(ctx, 2), *image = NULL, *g = NULL, *out = NULL;
  pool_job_t j = {.n = 0};
  WEFT_RETURN_IF_ERROR(plan(a, &x->shape, &j));
  WEFT_RETURN_IF_ERROR(check_grad_shapes(ctx, a, &j, second));
  if (a->ksize_channel != 1) {
    return WEFT_ERROR(UNIMPLEMENTED, "MaxPoolingGrad is not yet supported on the depth dimension.");
  }
  if (!fits(j.s)) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a window of a pool is too large");
  const weft_shape_t shape = second ? out_shape(a, false, &j) : in_shape(a, false, &j);
  weft_status_t *s = channels_last(ctx, a, x, &image);
  if (s == NULL) s = channels_last(ctx, a, grad, &g);
  if (s == NULL) s = weft_tensor_new(x->dtype, &shape, ctx->device->allocator, &out);
  if (s == NULL) {
    j.x = image->data;
    j.dy = g->data;
    j.y = out->data;
    if (out->count > 0 && second) run_outputs(ctx, &j, max_second_fns[x->dtype]);
    if (out->count > 0 && !second)
      run_lines(ctx, &j, max_grad_fns[x->dtype], j.n * j.s[1].in, uncut_rows(ctx, &j));
    s = deliver(ctx, a, 0, out);
  }
  weft_tensor_release(g);
  weft_tensor_release(image);
  return s;
}

static weft_status_t *max_grad_compute(weft_kernel_ctx_t *ctx) { return max_grad(ctx, ctx->state, false); }
static weft_status_t *max_grad_grad_compute(weft_kernel_ctx_t *ctx) {
  return max_grad(ctx, ctx->state, true);
}
static weft_status_t *max_grad_v2(weft_kernel_ctx_t *ctx, bool second) {
  weft_window_attrs_t a = *(const weft_window_attrs_t *)ctx->state;
  if (weft_in(ctx, 0)->shape.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "tensor_in must be 4-dimensional");
  WEFT_RETURN_IF_ERROR(window_inputs(ctx, 3, &a));
  return max_grad(ctx, &a, second);
}
static weft_status_t *max_grad_v2_compute(weft_kernel_ctx_t *ctx) { return max_grad_v2(ctx, false); }
static weft_status_t *max_grad_grad_v2_compute(weft_kernel_ctx_t *ctx) { return max_grad_v2(ctx, true); }

/* ---- with the maxima as an output ---- */

static weft_status_t *with_argmax_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL, *index = NULL;
  pool_job_t j = {.x = x->data, .counts_batch = a->has_batch_in_index};
  WEFT_RETURN_IF_ERROR(plan(a, &x->shape, &j));
  if (a->ksize_channel != 1) return WEFT_ERROR(UNIMPLEMENTED, "pooling across depth has no argmax");
  if (x->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "tensor_in must not be empty");
  if (!fits(j.s)) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a window of a pool is too large");
  const weft_shape_t shape = out_shape(a, false, &j);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, weft_dtype_base(ctx->node->output_types[1]), &shape, &index));
  j.y = y->data;
  j.places = index->data;
  j.place_size = weft_dtype_size(index->dtype);
  if (y->count > 0) run_outputs(ctx, &j, max_places_fns[x->dtype]);
  return NULL;
}

/* All given maxima lie among `count` elements; does one lie on another image than its window? */
static weft_status_t *check_argmax(const pool_job_t *j, int64_t count, bool *crosses) {
  for (int64_t image = 0; image < j->n; image++) {
    const int64_t begin = image * j->out_image, first = image * j->in_image;
    for (int64_t i = begin; i < begin + j->out_image; i++) {
      const int64_t at = given_place(j, i, places_from(j, image), j->place_size == sizeof(int64_t));
      if (at < 0 || at >= count) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "invalid index value at argmax[%" PRId64 "] = %" PRId64
                          "; index values must be in "
                          "[0, %" PRId64 ")",
                          i, at, count);
      }
      *crosses |= (uint64_t)(at - first) >= (uint64_t)j->in_image;
    }
  }
  return NULL;
}

static weft_status_t *grad_with_argmax_compute(weft_kernel_ctx_t *ctx) {
  const weft_window_attrs_t *a = ctx->state;
  weft_tensor_t *x = weft_in(ctx, 0), *dy = weft_in(ctx, 1), *index = weft_in(ctx, 2), *dx = NULL;
  if (x->shape.rank != 4 || dy->shape.rank != 4 || !weft_shape_eq(&dy->shape, &index->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected argmax shape to be %s, but got %s",
                      WEFT_SHAPE_TEXT(&dy->shape), WEFT_SHAPE_TEXT(&index->shape));
  }
  pool_job_t j = {.places = index->data,
                  .place_size = weft_dtype_size(index->dtype),
                  .counts_batch = a->has_batch_in_index,
                  .dy = dy->data};
  WEFT_RETURN_IF_ERROR(plan(a, &x->shape, &j));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &dx));
  if (dy->shape.dims[0] != x->shape.dims[0])
    return WEFT_ERROR(INVALID_ARGUMENT, "input and grad must have the same batch size");
  j.y = dx->data;
  j.in_image = j.n > 0 ? x->count / j.n : 0;
  j.out_image = j.n > 0 ? dy->count / j.n : 0;
  bool crosses = false;
  WEFT_RETURN_IF_ERROR(check_argmax(&j, x->count, &crosses));
  weft_cpu_zero(dx);
  j.fn = add_places_fns[x->dtype];
  const int64_t grain = WEFT_CPU_GRAIN / 4 / (j.out_image + 1) + 1;
  if (dy->count > 0) weft_parallel_for(crosses ? NULL : ctx->device->pool, j.n, grain, lines_range, &j);
  return NULL;
}

#define MAX_TYPES                                                                           \
  (WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16) | \
   WEFT_DTYPE_BIT(WEFT_QINT8))
const weft_kernel_t weft_cpu_pool_kernels[] = {
    WEFT_KERNEL("AvgPool", "T", WEFT_SET_FLOATS, weft_pool_prepare, avg_pool_compute, weft_free),
    WEFT_KERNEL("AvgPoolGrad", "T", WEFT_SET_FLOATS, weft_pool_prepare, avg_pool_grad_compute, weft_free),
    WEFT_KERNEL("MaxPool", "T", MAX_TYPES, weft_pool_prepare, max_pool_compute, weft_free),
    WEFT_KERNEL("MaxPoolGrad", "T", WEFT_SET_REAL, weft_pool_prepare, max_grad_compute, weft_free),
    WEFT_KERNEL("MaxPoolGradGrad", "T", WEFT_SET_REAL, weft_pool_prepare, max_grad_grad_compute, weft_free),
    WEFT_KERNEL("MaxPoolGradGradV2", "T", WEFT_SET_REAL, weft_pool_prepare, max_grad_grad_v2_compute,
                weft_free),
    WEFT_KERNEL("MaxPoolGradV2", "T", WEFT_SET_REAL, weft_pool_prepare, max_grad_v2_compute, weft_free),
    WEFT_KERNEL("MaxPoolGradWithArgmax", "T", WEFT_SET_REAL, weft_pool_prepare, grad_with_argmax_compute,
                weft_free),
    WEFT_KERNEL("MaxPoolV2", "T", MAX_TYPES, weft_pool_prepare, max_pool_v2_compute, weft_free),
    WEFT_KERNEL("MaxPoolWithArgmax", "T", WEFT_SET_REAL, weft_pool_prepare, with_argmax_compute, weft_free),
    {0},
};
