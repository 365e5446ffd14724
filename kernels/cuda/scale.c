/* kernels/cuda/scale.c - rows of ScaleAndTranslate and its gradient: weights of rows and of columns, then
 * rows, then columns. Sizes, scales and translations lie in the host's memory. */
#include <strings.h>

#include "base/alloc.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/scale_args.h"

static weft_cuda_function_t spans_function = WEFT_CUDA_FUNCTION("weft_scale_spans"),
                            turned_function = WEFT_CUDA_FUNCTION("weft_scale_turned"),
                            scale_function = WEFT_CUDA_FUNCTION("weft_scale"),
                            grad_function = WEFT_CUDA_FUNCTION("weft_scale_grad");

/* The state. */
typedef struct cuda_scale {
  int kind, antialias;
} cuda_scale_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  const char *name = "";
  size_t length = 0;
  int kind = 0, antialias = 1;
  (void)param;
  (void)weft_cuda_host->attr_string(s, "kernel_type", &name, &length);
  (void)weft_cuda_host->attr_bool(s, "antialias", &antialias);
  while (kind < WEFT_NUM_SAMPLINGS && (strlen(weft_sampling_name(kind)) != length ||
                                       strncasecmp(weft_sampling_name(kind), name, length) != 0)) {
    kind++;
  }
  if (kind == WEFT_NUM_SAMPLINGS)
    return WEFT_CUDA_INVALID("Unrecognized kernel type: %.*s", (int)length, name);
  cuda_scale_t *state = weft_calloc(1, sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a resampling");
  *state = (cuda_scale_t){kind, antialias};
  *out = state;
  return NULL;
}

/* ---- arguments ---- */

/* Input i: two floats, of rows and of columns. */
static WEFT_Failure *read_pair(WEFT_KernelContext *c, int i, const char *what, float out[2]) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, i, &v);
  if (v.rank != 1 || v.count != 2) {
    return WEFT_CUDA_INVALID("%s must be a vector of two elements, got shape %s", what, WEFT_CUDA_SHAPE(&v));
  }
  memcpy(out, v.data, 2 * sizeof *out);
  return NULL;
}

/* Is the span of a pixel larger than weights are kept for? Floats hold the places within lines below LONG, so
 * that it is not. */
static WEFT_Failure *check_spans(const weft_sampling_t *s) {
  const int64_t LONG = INT64_C(1) << 22;
  if (s->in < LONG && s->reach < (float)LONG) return NULL;
  for (int64_t i = 0; i < s->out; i++) {
    const weft_sampling_span_t span = weft_sampling_span(s, i);
    if (span.end - span.start <= s->size) continue;
    return weft_cuda_host->failure(WEFT_CUDA_INTERNAL, "Span is too large: %lld vs %lld.",
                                   (long long)(span.end - span.start), (long long)s->size);
  }
  return NULL;
}

/* Of rows and of columns, by the last two inputs. */
static WEFT_Failure *read_lines(WEFT_KernelContext *c, const int64_t *in, const int64_t *out,
                                weft_sampling_t lines[2]) {
  const cuda_scale_t *state = weft_cuda_host->state(c);
  const int n = weft_cuda_host->num_inputs(c);
  float scale[2], translation[2];
  WEFT_CUDA_TRY(read_pair(c, n - 2, "scale", scale));
  if (!(scale[0] > 0 && scale[1] > 0)) return WEFT_CUDA_INVALID("Scale must be greater than zero.");
  WEFT_CUDA_TRY(read_pair(c, n - 1, "translation", translation));
  for (int d = 0; d < 2; d++) {
    lines[d] = weft_sampling_of(state->kind, state->antialias, in[d], out[d], scale[d], translation[d]);
  }
  return NULL;
}

/* ---- steps ---- */

/* Weights of one dimension, in the device's memory. */
typedef struct cuda_spans {
  void *starts, *weights;
  void *firsts, *most; /* of a gradient */
} cuda_spans_t;

static WEFT_Failure *spans_of(WEFT_KernelContext *c, weft_sampling_t *s, cuda_spans_t *out) {
  *out = (cuda_spans_t){.starts = NULL};
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s->out * sizeof(int64_t), &out->starts));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s->out * (size_t)s->size * sizeof(float), &out->weights));
  void *args[] = {&out->starts, &out->weights, s};
  return weft_cuda_launch_over(c, &spans_function, s->out, 1, args);
}

static WEFT_Failure *turn(WEFT_KernelContext *c, weft_sampling_t *s, cuda_spans_t *spans) {
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s->in * sizeof(int64_t), &spans->firsts));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, sizeof(int64_t), &spans->most));
  WEFT_CUDA_TRY(weft_cuda_fill(c, spans->most, 0, sizeof(int64_t)));
  void *args[] = {&spans->starts, &spans->weights, &spans->firsts, &spans->most, s};
  return weft_cuda_launch_over(c, &turned_function, s->in, 1, args);
}

static WEFT_Failure *scale(WEFT_KernelContext *c) {
  WEFT_TensorView x, size, y;
  weft_sampling_t lines[2];
  cuda_spans_t spans[2];
  int64_t out[2];
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &size);
  if (x.rank != 4) return WEFT_CUDA_INVALID("input must be 4-dimensional, got shape %s", WEFT_CUDA_SHAPE(&x));
  WEFT_CUDA_TRY(weft_cuda_size_read(&size, "output_shape_t", out));
  if (x.dims[1] >= INT32_MAX || x.dims[2] >= INT32_MAX)
    return WEFT_CUDA_INVALID("input sizes must be between 0 and max int32");
  if (x.dims[3] == 0) return WEFT_CUDA_INVALID("image must have at least one channel");
  if (x.dims[1] == 0 || x.dims[2] == 0) return WEFT_CUDA_INVALID("input image must be of non-zero size");
  WEFT_CUDA_TRY(read_lines(c, &x.dims[1], out, lines));
  const int64_t dims[4] = {x.dims[0], out[0], out[1], x.dims[3]};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &y));
  if (y.count == 0) return NULL;
  for (int d = 1; d >= 0; d--) WEFT_CUDA_TRY(check_spans(&lines[d]));
  for (int d = 0; d < 2; d++) WEFT_CUDA_TRY(spans_of(c, &lines[d], &spans[d]));
  void *from = x.data, *between = NULL;
  if (x.dtype != WEFT_CUDA_f32) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)x.count * sizeof(float), &from));
    WEFT_CUDA_TRY(weft_cuda_convert(c, x.dtype, x.data, WEFT_CUDA_f32, from, x.count));
  }
  const int64_t width = x.dims[2] * x.dims[3];
  weft_cuda_lines_t rows = {lines[0].in, lines[0].out, width, x.dims[0] * out[0] * width},
                    columns = {lines[1].in, lines[1].out, x.dims[3], y.count};
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)rows.count * sizeof(float), &between));
  void *first[] = {&from, &between, &spans[0].starts, &spans[0].weights, &lines[0].size, &rows},
       *second[] = {&between, &y.data, &spans[1].starts, &spans[1].weights, &lines[1].size, &columns};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &scale_function, rows.count, 1, first));
  return weft_cuda_launch_over(c, &scale_function, columns.count, 1, second);
}

static WEFT_Failure *scale_grad(WEFT_KernelContext *c) {
  WEFT_TensorView dy, image, dx;
  weft_sampling_t lines[2];
  cuda_spans_t spans[2];
  void *between = NULL;
  weft_cuda_host->input(c, 0, &dy);
  weft_cuda_host->input(c, 1, &image);
  if (dy.rank != 4)
    return WEFT_CUDA_INVALID("input_grad must be 4-dimensional, got shape %s", WEFT_CUDA_SHAPE(&dy));
  if (image.rank != 4)
    return WEFT_CUDA_INVALID("original_image must be 4-dimensional, got shape %s", WEFT_CUDA_SHAPE(&image));
  if (image.dims[1] >= INT32_MAX || image.dims[2] >= INT32_MAX)
    return WEFT_CUDA_INVALID("original sizes must be between 0 and max int32");
  const int64_t dims[4] = {dy.dims[0], image.dims[1], image.dims[2], dy.dims[3]};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &dx));
  WEFT_CUDA_TRY(read_lines(c, &image.dims[1], &dy.dims[1], lines));
  for (int d = 1; d >= 0; d--) WEFT_CUDA_TRY(check_spans(&lines[d]));
  if (dx.count == 0) return NULL;
  if (dy.count == 0) return weft_cuda_fill(c, dx.data, 0, dx.bytes);
  for (int d = 0; d < 2; d++) {
    WEFT_CUDA_TRY(spans_of(c, &lines[d], &spans[d]));
    WEFT_CUDA_TRY(turn(c, &lines[d], &spans[d]));
  }
  const int64_t width = dy.dims[2] * dy.dims[3];
  weft_cuda_lines_t rows = {lines[0].out, lines[0].in, width, dy.dims[0] * image.dims[1] * width},
                    columns = {lines[1].out, lines[1].in, dy.dims[3], dx.count};
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)rows.count * sizeof(float), &between));
  void *first[] = {&dy.data,       &between,         &spans[0].starts, &spans[0].weights,
                   &lines[0].size, &spans[0].firsts, &spans[0].most,   &rows},
       *second[] = {&between,       &dx.data,         &spans[1].starts, &spans[1].weights,
                    &lines[1].size, &spans[1].firsts, &spans[1].most,   &columns};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &grad_function, rows.count, 1, first));
  return weft_cuda_launch_over(c, &grad_function, columns.count, 1, second);
}

enum { SECOND = 2, THIRD = 4, FOURTH = 8 };
const WEFT_DeviceKernel weft_cuda_scale_kernels[] = {
    {.op = "ScaleAndTranslate",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(PIXELS),
     .prepare = prepare,
     .compute = scale,
     .destroy = weft_free,
     .host_inputs = SECOND | THIRD | FOURTH},
    {.op = "ScaleAndTranslateGrad",
     .type_attr = "T",
     .types = 1u << WEFT_CUDA_f32,
     .prepare = prepare,
     .compute = scale_grad,
     .destroy = weft_free,
     .host_inputs = THIRD | FOURTH},
    {.op = NULL},
};
