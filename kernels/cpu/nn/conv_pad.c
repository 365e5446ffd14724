/* kernels/cpu/nn/conv_pad.c - FusedPadConv2D, FusedResizeAndPadConv2D: images are resized, mirrored at their
 * borders and convolved. What the filter sees is made as one image first. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/nn/conv.h"

typedef struct conv_pad_state {
  int64_t stride[2];
  bool is_same, is_reflected, resizes, align_corners;
} conv_pad_state_t;

/* One dimension: an image of length `in` is resized to `resized`, mirrored to `padded`; the windows begin at
 * `first` of that and span `length`. */
typedef struct conv_pad_line {
  int64_t in, resized, before, after, padded, k, out, first, length;
  float scale;
} conv_pad_line_t;

typedef struct conv_pad_job {
  conv_pad_line_t rows, columns;
  int64_t channels;
  bool interpolates;
  int mirror; /* 1: the border itself is not repeated */
  const void *x;
  void *y;
} conv_pad_job_t;

/* Where pixel i of what the filter sees comes from; false: it is 0. */
static bool find_source(const conv_pad_line_t *l, int mirror, int64_t i, int64_t *low, int64_t *high,
                        float *part) {
  const int64_t at = i + l->first;
  if (at < 0 || at >= l->padded) return false;
  float v = (float)(at - l->before);
  if (v < 0) {
    v = -(v + 1.0F - (float)mirror);
  } else if (v >= (float)l->resized) {
    v = (float)l->resized * 2.0F - (v + 1.0F + (float)mirror);
  }
  v *= l->scale;
  const int64_t below = (int64_t)floorf(v), above = (int64_t)ceilf(v);
  *low = below < 0 ? 0 : below < l->in ? below : l->in - 1;
  *high = above < 0 ? 0 : above < l->in ? above : l->in - 1;
  *part = v - floorf(v);
  return true;
}

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_FILE "kernels/cpu/nn/conv_pad_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static weft_range_fn *const conv_pad_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM conv_pad
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

static weft_status_t *conv_pad_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *strides = weft_knode_attr(setup, "strides");
  if (strides == NULL || strides->n != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "Sliding window strides field must specify 4 dimensions");
  const int64_t *v = strides->list.ints;
  if (v[0] != 1 || v[3] != 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Current implementation does not yet support strides in the batch and depth dimensions.");
  }
  conv_pad_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = (conv_pad_state_t){.stride = {v[1], v[2]},
                              .is_same = weft_str_is(weft_knode_string(setup, "padding"), "SAME"),
                              .is_reflected = weft_str_is(weft_knode_string(setup, "mode"), "REFLECT"),
                              .resizes = *(const bool *)setup->node.param,
                              .align_corners = weft_knode_bool_or(setup, "resize_align_corners", false)};
  *out_state = state;
  return NULL;
}

static weft_status_t *read_size(const conv_pad_state_t *s, const weft_tensor_t *t, conv_pad_job_t *j) {
  const int32_t *size = t->data;
  if (t->shape.rank != 1 || t->count != 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "size must be a vector of two elements, got %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  if (size[0] <= 0 || size[1] <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "output dimensions must be positive");
  conv_pad_line_t *const lines[] = {&j->rows, &j->columns};
  for (int i = 0; i < 2; i++) {
    conv_pad_line_t *l = lines[i];
    l->resized = size[i];
    l->scale = s->align_corners && size[i] > 1 ? (float)(l->in - 1) / (float)(size[i] - 1)
                                               : (float)l->in / (float)size[i];
  }
  return NULL;
}

static weft_status_t *read_mirror(const conv_pad_state_t *s, const weft_tensor_t *t, const weft_shape_t *x,
                                  conv_pad_job_t *j) {
  const int64_t dims[] = {x->dims[0], j->rows.resized, j->columns.resized, x->dims[3]};
  const int32_t *pads = t->data;
  if (t->shape.rank != 2 || t->shape.dims[1] != 2 || t->shape.dims[0] != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "paddings must be a matrix of 4 rows with 2 columns: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  for (int d = 0; d < 4; d++) {
    for (int side = 0; side < 2; side++) {
      const int64_t v = pads[2 * d + side];
      if (v < 0) return WEFT_ERROR(INVALID_ARGUMENT, "paddings must be non-negative: %" PRId64, v);
      if (v > dims[d] - s->is_reflected) {
        return WEFT_ERROR(INVALID_ARGUMENT, "paddings must be %s the dimension size: %" PRId64 ", %" PRId64,
                          s->is_reflected ? "less than" : "no greater than", v, dims[d]);
      }
      if (v != 0 && (d == 0 || d == 3))
        return WEFT_ERROR(INVALID_ARGUMENT, "Fused mirror padding only supports spatial padding");
    }
  }
  j->rows.before = pads[2];
  j->rows.after = pads[3];
  j->columns.before = pads[4];
  j->columns.after = pads[5];
  return NULL;
}

/* Where the windows of one dimension lie. What is left over of a VALID one is divided up as in TensorFlow. */
static weft_status_t *plan_line(const conv_pad_state_t *s, int64_t stride, conv_pad_line_t *l) {
  const weft_window_attrs_t a = {.num_space = 2,
                                 .padding = s->is_same ? WEFT_PADDING_SAME : WEFT_PADDING_VALID,
                                 .stride = {1, stride, 1},
                                 .dilation = {1, 1, 1}};
  weft_window_t w;
  l->padded = l->before + l->resized + l->after;
  WEFT_RETURN_IF_ERROR(weft_window_plan(&a, 1, l->padded, l->k, &w));
  if (w.out <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Output tensor can't be empty");
  l->out = w.out;
  l->length = (w.out - 1) * stride + l->k;
  l->first = -((l->length - l->padded + (s->is_same ? 0 : 1)) / 2);
  return NULL;
}

static weft_status_t *plan_conv_pad(weft_kernel_ctx_t *ctx, conv_pad_job_t *j) {
  const conv_pad_state_t *s = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0), *f = weft_in(ctx, ctx->node->num_inputs - 1);
  if (x->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor can't be empty");
  if (x->shape.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional, got %s", WEFT_SHAPE_TEXT(&x->shape));
  const int64_t *dims = x->shape.dims;
  *j = (conv_pad_job_t){.rows = {.in = dims[1], .resized = dims[1], .scale = 1},
                        .columns = {.in = dims[2], .resized = dims[2], .scale = 1},
                        .channels = dims[3],
                        .interpolates = s->resizes,
                        .mirror = s->is_reflected,
                        .x = x->data};
  if (s->resizes) WEFT_RETURN_IF_ERROR(read_size(s, weft_in(ctx, 1), j));
  WEFT_RETURN_IF_ERROR(read_mirror(s, weft_in(ctx, ctx->node->num_inputs - 2), &x->shape, j));
  if (f->shape.rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "filter must be 4-dimensional: %s", WEFT_SHAPE_TEXT(&f->shape));
  if (f->shape.dims[2] != dims[3]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input and filter must have the same depth: %" PRId64 " vs %" PRId64,
                      dims[3], f->shape.dims[2]);
  }
  if (f->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Output tensor can't be empty");
  j->rows.k = f->shape.dims[0];
  j->columns.k = f->shape.dims[1];
  WEFT_RETURN_IF_ERROR(plan_line(s, s->stride[0], &j->rows));
  return plan_line(s, s->stride[1], &j->columns);
}

static weft_status_t *conv_pad(weft_kernel_ctx_t *ctx) {
  const conv_pad_state_t *s = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_tensor_t *f = weft_in(ctx, ctx->node->num_inputs - 1), *seen = NULL;
  conv_pad_job_t j;
  WEFT_RETURN_IF_ERROR(plan_conv_pad(ctx, &j));
  const weft_shape_t shape = {.rank = 4,
                              .dims = {x->shape.dims[0], j.rows.length, j.columns.length, j.channels}};
  WEFT_RETURN_IF_ERROR(weft_tensor_new(x->dtype, &shape, ctx->device->allocator, &seen));
  j.y = seen->data;
  weft_parallel_for(ctx->device->pool, shape.dims[0] * j.rows.length,
                    WEFT_CPU_GRAIN / (8 * j.columns.length * j.channels) + 1, conv_pad_fns[x->dtype], &j);
  const weft_window_attrs_t a = {.num_space = 2,
                                 .padding = WEFT_PADDING_VALID,
                                 .stride = {1, s->stride[0], s->stride[1]},
                                 .dilation = {1, 1, 1}};
  weft_status_t *status = weft_convolve(ctx, &a, seen, f);
  weft_tensor_release(seen);
  return status;
}

#define CONV_PAD(op_, types_, resizes_)                                                             \
  {                                                                                                 \
    .op = op_, .type_attr = "T", .types = types_, .prepare = conv_pad_prepare, .compute = conv_pad, \
    .destroy = weft_free, .param = &(const bool) {                                                  \
      resizes_                                                                                      \
    }                                                                                               \
  }
const weft_kernel_t weft_cpu_conv_pad_kernels[] = {
    CONV_PAD("FusedPadConv2D", WEFT_SET_FLOATS, false),
    CONV_PAD("FusedResizeAndPadConv2D", WEFT_SET_FLOATS & ~WEFT_DTYPE_BIT(WEFT_BF16), true),
    {0},
};
