/* kernels/cpu/nn/dilation.c - Dilation2D, the grey-scale dilation of images by a filter, and its gradients:
 * a pool with a number added to each cell of the window before the maximum is taken. */
#include <inttypes.h>

#include "kernels/cpu/nn/channels.h"
#include "kernels/cpu/nn/window.h"

typedef struct dilation_job {
  weft_window_t rows, columns;
  int64_t channels;
  const void *x, *filter, *dy; /* dy: of the gradients */
  void *y;                     /* of the gradients dx or the filter's */
} dilation_job_t;

/* A list of four ints of which only those of rows and columns may differ from 1. */
static weft_status_t *read_spatial(const weft_kernel_setup_t *setup, const char *name,
                                   int64_t out[WEFT_SPACE]) {
  const weft_attr_t *a = weft_knode_attr(setup, name);
  if (a == NULL || a->n != 4) return WEFT_ERROR(INVALID_ARGUMENT, "%s must specify 4 dimensions", name);
  const int64_t *v = a->list.ints;
  if (v[0] != 1 || v[3] != 1)
    return WEFT_ERROR(UNIMPLEMENTED, "%s other than 1 are only supported across spatial dimensions.", name);
  out[1] = v[1];
  out[2] = v[2];
  return NULL;
}

static weft_status_t *dilation_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_window_attrs_t a = {.num_space = 2};
  WEFT_RETURN_IF_ERROR(read_spatial(setup, "strides", a.stride));
  WEFT_RETURN_IF_ERROR(read_spatial(setup, "rates", a.dilation));
  a.padding =
      weft_str_is(weft_knode_string(setup, "padding"), "SAME") ? WEFT_PADDING_SAME : WEFT_PADDING_VALID;
  weft_window_attrs_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = a;
  *out_state = state;
  return NULL;
}

#define NOWHERE UINT32_MAX /* a place that no cell has: check_places() sees to that */

/* The cells of a window that lie on the image. */
typedef struct dilation_span {
  int64_t rows, columns; /* how many; 0 if there are none */
  int64_t row, column;   /* of the filter: the first */
  int64_t cell;          /* its number */
  int64_t pixel;         /* of all images: what it lies on. Both are 0 if there are none */
  int64_t corner;        /* the image's first pixel in the window's square, -1: none. Where no cell wins the
                          * gradient goes there */
} dilation_span_t;

/* Cells [*begin, *end) of a window that begins at `from` lie on the image. */
static void cells_inside(const weft_window_t *w, int64_t from, int64_t *begin, int64_t *end) {
  *begin = from < 0 ? (-from - 1) / w->dilation + 1 : 0;
  *end = from < w->in ? (w->in - 1 - from) / w->dilation + 1 : 0;
  if (*end > w->k) *end = w->k;
}

/* Of output pixel `o` of all images. */
static dilation_span_t span_of(const dilation_job_t *j, int64_t o) {
  const weft_window_t *rows = &j->rows, *columns = &j->columns;
  const int64_t image = o / (rows->out * columns->out) * rows->in, h = o / columns->out % rows->out,
                w = o % columns->out;
  const int64_t top = h * rows->stride - rows->before, left = w * columns->stride - columns->before,
                corner_row = top < 0 ? 0 : top, corner_column = left < 0 ? 0 : left;
  int64_t row = 0, row_end = 0, column = 0, column_end = 0;
  cells_inside(rows, top, &row, &row_end);
  cells_inside(columns, left, &column, &column_end);
  dilation_span_t s = {.corner = corner_row < rows->in && corner_column < columns->in
                                     ? (image + corner_row) * columns->in + corner_column
                                     : -1};
  if (row >= row_end || column >= column_end) return s;
  s.rows = row_end - row;
  s.columns = column_end - column;
  s.row = row;
  s.column = column;
  s.cell = row * columns->k + column;
  s.pixel = (image + top + row * rows->dilation) * columns->in + left + column * columns->dilation;
  return s;
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/nn/dilation_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static weft_range_fn *const dilation_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM dilation
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static weft_range_fn *const dilation_grad_input_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM dilation_grad_input
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static weft_range_fn *const dilation_grad_filter_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM dilation_grad_filter
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

static weft_status_t *plan(weft_kernel_ctx_t *ctx, dilation_job_t *j, weft_shape_t *out_shape) {
  const weft_window_attrs_t *a = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0), *f = weft_in(ctx, 1);
  if (x->shape.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional, got %s", WEFT_SHAPE_TEXT(&x->shape));
  if (f->shape.rank != 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "filter must be 3-dimensional: %s", WEFT_SHAPE_TEXT(&f->shape));
  const int64_t *dims = x->shape.dims;
  if (dims[3] != f->shape.dims[2]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input and filter must have the same depth: %" PRId64 " vs %" PRId64,
                      dims[3], f->shape.dims[2]);
  }
  *j = (dilation_job_t){.channels = dims[3], .x = x->data, .filter = f->data};
  WEFT_RETURN_IF_ERROR(weft_window_plan(a, 1, dims[1], f->shape.dims[0], &j->rows));
  WEFT_RETURN_IF_ERROR(weft_window_plan(a, 2, dims[2], f->shape.dims[1], &j->columns));
  *out_shape = (weft_shape_t){.rank = 4, .dims = {dims[0], j->rows.out, j->columns.out, dims[3]}};
  return NULL;
}

/* Places are numbers of 32 bits. */
static weft_status_t *check_places(const dilation_job_t *j) {
  const double cells = (double)j->rows.k * (double)j->columns.k,
               pixels = (double)j->rows.in * (double)j->columns.in;
  if (cells < (double)NOWHERE && pixels < (double)NOWHERE) return NULL;
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "an image or a filter of a dilation has more than 2^32 places");
}

static weft_status_t *dilation(weft_kernel_ctx_t *ctx) {
  dilation_job_t j;
  weft_shape_t shape;
  weft_tensor_t *y = NULL;
  const weft_dtype_t dtype = weft_in(ctx, 0)->dtype;
  WEFT_RETURN_IF_ERROR(plan(ctx, &j, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &y));
  if (y->count == 0) return NULL;
  j.y = y->data;
  const double cost = 4.0 * (double)(j.columns.out * j.channels) * (double)(j.rows.k * j.columns.k + 1);
  weft_parallel_for(ctx->device->pool, shape.dims[0] * j.rows.out, (int64_t)(WEFT_CPU_GRAIN / cost) + 1,
                    dilation_fns[dtype], &j);
  return NULL;
}

/* `of`: the input whose gradient it is, 0 or 1. */
static weft_status_t *dilation_grad(weft_kernel_ctx_t *ctx, int of) {
  dilation_job_t j;
  weft_shape_t shape, mine = weft_in(ctx, of)->shape;
  weft_tensor_t *dy = weft_in(ctx, 2), *d = NULL;
  WEFT_RETURN_IF_ERROR(plan(ctx, &j, &shape));
  if (dy->shape.rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop must be 4-dimensional, got %s",
                      WEFT_SHAPE_TEXT(&dy->shape));
  }
  if (!weft_shape_eq(&dy->shape, &shape))
    return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop has incompatible size.");
  WEFT_RETURN_IF_ERROR(check_places(&j));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dy->dtype, &mine, &d));
  weft_cpu_zero(d);
  if (d->count == 0 || dy->count == 0) return NULL;
  j.dy = dy->data;
  j.y = d->data;
  if (of == 0) {
    weft_parallel_for(ctx->device->pool, shape.dims[0], 1, dilation_grad_input_fns[dy->dtype], &j);
  } else {
    dilation_grad_filter_fns[dy->dtype](&j, 0, shape.dims[0]);
  }
  return NULL;
}
static weft_status_t *dilation_grad_input(weft_kernel_ctx_t *ctx) { return dilation_grad(ctx, 0); }
static weft_status_t *dilation_grad_filter(weft_kernel_ctx_t *ctx) { return dilation_grad(ctx, 1); }

const weft_kernel_t weft_cpu_dilation_kernels[] = {
    WEFT_KERNEL("Dilation2D", "T", WEFT_SET_REAL, dilation_prepare, dilation, weft_free),
    WEFT_KERNEL("Dilation2DBackpropFilter", "T", WEFT_SET_REAL, dilation_prepare, dilation_grad_filter,
                weft_free),
    WEFT_KERNEL("Dilation2DBackpropInput", "T", WEFT_SET_REAL, dilation_prepare, dilation_grad_input,
                weft_free),
    {0},
};
