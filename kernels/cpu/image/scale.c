/* kernels/cpu/image/scale.c - ScaleAndTranslate and its gradient: resampling by a kernel, first of rows, then
 * of columns (kernels/formulas/sampling.h). */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <strings.h>

#include "kernels/cpu/image/resize.h"

#define WEFT_PRODUCT(a, b) ((a) * (b))
#include "kernels/formulas/sampling.h"

/* Which pixels of a line each pixel of the result is made of, and with what weights. */
typedef struct spans {
  int64_t size; /* weights of each pixel; those that are not needed are 0 */
  int64_t *starts;
  float *weights;
} spans_t;

typedef struct scale_state {
  int kind; /* weft_sampling_kind_t */
  bool antialias;
} scale_state_t;

/* Of one dimension. */
typedef struct line {
  int64_t in, out;
  float scale, translation;
} line_t;

static void spans_free(spans_t *s) {
  weft_free(s->starts);
  weft_free(s->weights);
  *s = (spans_t){0};
}

/* All zero. Errors: RESOURCE_EXHAUSTED. */
static weft_status_t *spans_new(int64_t n, int64_t size, spans_t *out) {
  int64_t num_weights = 0;
  *out = (spans_t){.size = size};
  if (weft_cpu_mul(n, size, &num_weights)) {
    out->starts = weft_calloc((size_t)n + 1, sizeof *out->starts);
    out->weights = weft_calloc((size_t)num_weights + 1, sizeof *out->weights);
  }
  if (out->starts != NULL && out->weights != NULL) return NULL;
  spans_free(out);
  return WEFT_NO_MEMORY("weights of %" PRId64 " pixels", n);
}

static weft_status_t *spans_of(const scale_state_t *how, const line_t *line, spans_t *out) {
  const weft_sampling_t k =
      weft_sampling_of(how->kind, how->antialias, line->in, line->out, line->scale, line->translation);
  WEFT_RETURN_IF_ERROR(spans_new(line->out, k.size, out));
  for (int64_t i = 0; i < line->out; i++) {
    const weft_sampling_span_t span = weft_sampling_span(&k, i);
    if (span.end - span.start > k.size) {
      spans_free(out);
      return WEFT_ERROR(INTERNAL, "Span is too large: %" PRId64 " vs %" PRId64 ".", span.end - span.start,
                        k.size);
    }
    out->starts[i] = span.start;
    weft_sampling_weigh(&k, &span, out->weights + i * k.size);
  }
  return NULL;
}

/* The spans of the gradient: of each pixel of the image those of the result that it is part of. */
static weft_status_t *spans_turn(const spans_t *s, const line_t *line, spans_t *out) {
  int64_t *ends = weft_calloc((size_t)line->in + 1, sizeof *ends), *starts = NULL, size = 0;
  if (ends != NULL) starts = weft_calloc((size_t)line->in + 1, sizeof *starts);
  if (starts == NULL) {
    weft_free(ends);
    return WEFT_NO_MEMORY("weights of %" PRId64 " pixels", line->in);
  }
  for (int64_t i = 0; i < line->out; i++) {
    for (int64_t j = 0; j < s->size && s->starts[i] + j < line->in; j++) {
      const int64_t at = s->starts[i] + j;
      if (s->weights[i * s->size + j] == 0) continue;
      if (ends[at] == 0) starts[at] = i;
      ends[at] = i + 1;
      if (ends[at] - starts[at] > size) size = ends[at] - starts[at];
    }
  }
  weft_status_t *status = spans_new(line->in, size, out);
  if (status == NULL) memcpy(out->starts, starts, (size_t)line->in * sizeof *starts);
  for (int64_t i = 0; status == NULL && i < line->out; i++) {
    for (int64_t j = 0; j < s->size && s->starts[i] + j < line->in; j++) {
      const float w = s->weights[i * s->size + j];
      const int64_t at = s->starts[i] + j;
      if (w != 0) out->weights[at * size + i - starts[at]] += w;
    }
  }
  weft_free(starts);
  weft_free(ends);
  return status;
}

static weft_status_t *grad_spans_of(const scale_state_t *how, const line_t *line, spans_t *out) {
  spans_t forward;
  WEFT_RETURN_IF_ERROR(spans_of(how, line, &forward));
  weft_status_t *s = spans_turn(&forward, line, out);
  spans_free(&forward);
  return s;
}

/* ---- images ---- */

typedef struct scale_job {
  const float *x;
  float *between, *y; /* [batch, out_h, in_w, channels], [batch, out_h, out_w, channels] */
  int64_t in_h, in_w, out_h, out_w, channels;
  spans_t rows, columns;
} scale_job_t;

/* Rows [begin, end) of all images of the result. */
static void scale_rows(void *arg, int64_t begin, int64_t end) {
  const scale_job_t *j = arg;
  const int64_t channels = j->channels, line = j->in_w * channels;
  for (int64_t r = begin; r < end; r++) {
    const int64_t h = r % j->out_h, first = j->rows.starts[h];
    const float *x = j->x + (r / j->out_h * j->in_h + first) * line;
    float *mid = j->between + r * line, *y = j->y + r * j->out_w * channels;
    memset(mid, 0, (size_t)line * sizeof *mid);
    for (int64_t k = 0; k < j->rows.size && first + k < j->in_h; k++, x += line) {
      const float w = j->rows.weights[h * j->rows.size + k];
      for (int64_t i = 0; i < line; i++) mid[i] += w * x[i];
    }
    for (int64_t c = 0; c < j->out_w; c++, y += channels) {
      const int64_t from = j->columns.starts[c];
      memset(y, 0, (size_t)channels * sizeof *y);
      for (int64_t k = 0; k < j->columns.size && from + k < j->in_w; k++) {
        const float w = j->columns.weights[c * j->columns.size + k];
        for (int64_t i = 0; i < channels; i++) y[i] += w * mid[(from + k) * channels + i];
      }
    }
  }
}

/* In small or capital letters. */
static bool is_named(int kind, weft_str_t name) {
  const char *text = weft_sampling_name(kind);
  return strlen(text) == name.length && strncasecmp(text, name.data, name.length) == 0;
}

static weft_status_t *scale_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_str_t name = weft_knode_string(setup, "kernel_type");
  int kind = 0;
  while (kind < WEFT_NUM_SAMPLINGS && !is_named(kind, name)) kind++;
  if (kind == WEFT_NUM_SAMPLINGS)
    return WEFT_ERROR(INVALID_ARGUMENT, "Unrecognized kernel type: %.*s", WEFT_STR_ARGS(name));
  scale_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = (scale_state_t){.kind = kind, .antialias = weft_knode_bool(setup, "antialias")};
  *out_state = state;
  return NULL;
}

/* Two numbers: of rows and of columns. */
static weft_status_t *read_pair(const weft_tensor_t *t, const char *what, float *rows, float *columns) {
  if (t->shape.rank != 1 || t->count != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a vector of two elements, got shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *rows = ((const float *)t->data)[0];
  *columns = ((const float *)t->data)[1];
  return NULL;
}

static weft_status_t *read_lines(weft_kernel_ctx_t *ctx, line_t *rows, line_t *columns) {
  WEFT_RETURN_IF_ERROR(
      read_pair(weft_in(ctx, ctx->node->num_inputs - 2), "scale", &rows->scale, &columns->scale));
  if (!(rows->scale > 0 && columns->scale > 0))
    return WEFT_ERROR(INVALID_ARGUMENT, "Scale must be greater than zero.");
  return read_pair(weft_in(ctx, ctx->node->num_inputs - 1), "translation", &rows->translation,
                   &columns->translation);
}

/* Resamples the images in `j->x`, with the spans of `j`, which it frees. */
static weft_status_t *resample(weft_kernel_ctx_t *ctx, scale_job_t *j, int64_t batch) {
  weft_shape_t shape = weft_resize_shape(batch, j->out_h, j->in_w, j->channels);
  weft_tensor_t *between = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_F32, &shape, ctx->device->allocator, &between);
  if (s == NULL) {
    j->between = between->data;
    const double cost = (double)j->channels *
                        ((double)j->in_w * (double)j->rows.size + (double)j->out_w * (double)j->columns.size);
    weft_parallel_for(ctx->device->pool, batch * j->out_h, (int64_t)(WEFT_CPU_GRAIN / (cost + 1)) + 1,
                      scale_rows, j);
  }
  weft_tensor_release(between);
  spans_free(&j->rows);
  spans_free(&j->columns);
  return s;
}

static weft_status_t *check_scaled(weft_kernel_ctx_t *ctx, line_t *rows, line_t *columns) {
  const weft_shape_t *x = &weft_in(ctx, 0)->shape;
  if (x->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional, got shape %s", WEFT_SHAPE_TEXT(x));
  WEFT_RETURN_IF_ERROR(weft_resize_size(weft_in(ctx, 1), "output_shape_t", &rows->out, &columns->out));
  if (x->dims[1] >= INT32_MAX || x->dims[2] >= INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "input sizes must be between 0 and max int32");
  if (x->dims[3] == 0) return WEFT_ERROR(INVALID_ARGUMENT, "image must have at least one channel");
  if (x->dims[1] == 0 || x->dims[2] == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "input image must be of non-zero size");
  rows->in = x->dims[1];
  columns->in = x->dims[2];
  return read_lines(ctx, rows, columns);
}

static weft_status_t *scale(weft_kernel_ctx_t *ctx) {
  const scale_state_t *how = ctx->state;
  line_t rows, columns;
  weft_tensor_t *x = NULL, *y = NULL;
  WEFT_RETURN_IF_ERROR(check_scaled(ctx, &rows, &columns));
  const int64_t *dims = weft_in(ctx, 0)->shape.dims;
  weft_shape_t shape = weft_resize_shape(dims[0], rows.out, columns.out, dims[3]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &y));
  if (y->count == 0) return NULL;
  scale_job_t j = {.y = y->data,
                   .in_h = rows.in,
                   .in_w = columns.in,
                   .out_h = rows.out,
                   .out_w = columns.out,
                   .channels = dims[3]};
  WEFT_RETURN_IF_ERROR(spans_of(how, &columns, &j.columns));
  weft_status_t *s = spans_of(how, &rows, &j.rows);
  if (s == NULL) s = weft_image_floats(ctx, 0, &x);
  if (s != NULL) {
    spans_free(&j.rows);
    spans_free(&j.columns);
    return s;
  }
  j.x = x->data;
  s = resample(ctx, &j, shape.dims[0]);
  weft_tensor_release(x);
  return s;
}

static weft_status_t *scale_grad(weft_kernel_ctx_t *ctx) {
  const scale_state_t *how = ctx->state;
  const weft_tensor_t *dy = weft_in(ctx, 0);
  const weft_shape_t *of = &weft_in(ctx, 1)->shape;
  weft_tensor_t *dx = NULL;
  if (dy->shape.rank != 4 || of->rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 4-dimensional, got shape %s",
                      dy->shape.rank != 4 ? "input_grad" : "original_image",
                      WEFT_SHAPE_TEXT(dy->shape.rank != 4 ? &dy->shape : of));
  }
  if (of->dims[1] >= INT32_MAX || of->dims[2] >= INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "original sizes must be between 0 and max int32");
  line_t rows = {.in = of->dims[1], .out = dy->shape.dims[1]},
         columns = {.in = of->dims[2], .out = dy->shape.dims[2]};
  weft_shape_t shape = weft_resize_shape(dy->shape.dims[0], rows.in, columns.in, dy->shape.dims[3]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &dx));
  WEFT_RETURN_IF_ERROR(read_lines(ctx, &rows, &columns));
  /* From here on `in` and `out` are those of the gradient: it goes from the result to the image. */
  scale_job_t j = {.x = dy->data,
                   .y = dx->data,
                   .in_h = rows.out,
                   .in_w = columns.out,
                   .out_h = rows.in,
                   .out_w = columns.in,
                   .channels = shape.dims[3]};
  WEFT_RETURN_IF_ERROR(grad_spans_of(how, &columns, &j.columns));
  weft_status_t *s = grad_spans_of(how, &rows, &j.rows);
  if (s != NULL) {
    spans_free(&j.columns);
    return s;
  }
  return resample(ctx, &j, shape.dims[0]);
}

const weft_kernel_t weft_cpu_scale_kernels[] = {
    WEFT_KERNEL("ScaleAndTranslate", "T",
                WEFT_SET_FLOATS | WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16),
                scale_prepare, scale, weft_free),
    WEFT_KERNEL("ScaleAndTranslateGrad", "T", WEFT_DTYPE_BIT(WEFT_F32), scale_prepare, scale_grad, weft_free),
    {0},
};
