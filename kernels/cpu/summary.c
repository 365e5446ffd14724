/* kernels/cpu/summary.c - Summary messages for TensorBoard: scalars, histograms, images, tensors, and their union.
 *
 * Field numbers are those of summary.proto, histogram.proto and tensor.proto.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "kernels/cpu/common.h"
#include "kernels/cpu/png.h"
#include "protos/wire.h"

enum {
  SUMMARY_VALUE = 1,
  VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_IMAGE = 4, VALUE_HISTO = 5, VALUE_TENSOR = 8, VALUE_METADATA = 9,
  HISTO_MIN = 1, HISTO_MAX = 2, HISTO_NUM = 3, HISTO_SUM = 4, HISTO_SQUARES = 5, HISTO_LIMITS = 6, HISTO_BUCKETS = 7,
  IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_COLORSPACE = 3, IMAGE_BYTES = 4,
  TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_CONTENT = 4, TENSOR_STRINGS = 8, SHAPE_DIM = 2, DIM_SIZE = 1,
};

static double number(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_F32: return (double)((const float *)t->data)[i];
    case WEFT_F64: return ((const double *)t->data)[i];
    case WEFT_F16: return (double)weft_f16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_BF16: return (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_U64: return (double)((const uint64_t *)t->data)[i];
    default: return (double)weft_cpu_int_at(t, i);
  }
}

static weft_status_t *set_message(weft_kernel_ctx_t *c, weft_strbuf_t *b) {
  weft_status_t *s = b->failed ? WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a summary")
                               : weft_tensor_string(weft_str_of(b->data, b->length), &c->outputs[0].tensor);
  weft_strbuf_deinit(b);
  return s;
}

static weft_status_t *scalar_tag(const weft_kernel_ctx_t *c, weft_str_t *out) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "tags must be scalar");
  *out = weft_tensor_str_at(t, 0);
  return NULL;
}

/* ---- scalars ---- */

static weft_status_t *scalar_summary(weft_kernel_ctx_t *c) {
  const weft_tensor_t *tags = weft_in(c, 0), *values = weft_in(c, 1);
  bool both_one = tags->count == 1 && values->count == 1;
  if (!both_one && !weft_shape_eq(&tags->shape, &values->shape)) {
    bool one_tag = tags->count == 1;
    return WEFT_ERROR(INVALID_ARGUMENT, "tags and values are not the same shape: %s != %s%s%.*s%s",
                      WEFT_SHAPE_TEXT(&tags->shape), WEFT_SHAPE_TEXT(&values->shape), one_tag ? " (tag '" : "",
                      one_tag ? (int)weft_tensor_str_at(tags, 0).length : 0,
                      one_tag ? weft_tensor_str_at(tags, 0).data : "", one_tag ? "')" : "");
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  for (int64_t i = 0; i < tags->count; i++) {
    size_t mark = weft_wire_begin(&b, SUMMARY_VALUE);
    weft_wire_put_bytes(&b, VALUE_TAG, weft_tensor_str_at(tags, i));
    weft_wire_add_fixed32(&b, VALUE_SIMPLE, (uint32_t)weft_wire_float_bits((float)number(values, i)));
    weft_wire_end(&b, mark);
  }
  return set_message(c, &b);
}

/* ---- histograms: buckets that grow by a tenth, the same on both sides of 0 ---- */

typedef struct histogram {
  double *limits, *counts; /* num of them */
  size_t num;
  double min, max, n, sum, squares;
} histogram_t;

static weft_status_t *histogram_init(histogram_t *h) {
  enum { MOST = 800 }; /* of each sign: log(1e32) / log(1.1) is 773 */
  double *positive = weft_calloc(MOST, sizeof *positive);
  size_t n = 0;
  *h = (histogram_t){.min = DBL_MAX, .max = -DBL_MAX};
  h->limits = weft_calloc(2 * MOST + 1, sizeof *h->limits);
  h->counts = weft_calloc(2 * MOST + 1, sizeof *h->counts);
  if (positive == NULL || h->limits == NULL || h->counts == NULL) {
    weft_free(positive);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "making a histogram");
  }
  for (double v = 1.0e-12; v < 1.0e20 && n < MOST - 1; v *= 1.1) positive[n++] = v;
  positive[n++] = DBL_MAX;
  for (size_t i = n; i > 0; i--) h->limits[h->num++] = -positive[i - 1];
  h->limits[h->num++] = 0;
  for (size_t i = 0; i < n; i++) h->limits[h->num++] = positive[i];
  weft_free(positive);
  return NULL;
}

static void histogram_deinit(histogram_t *h) {
  weft_free(h->limits);
  weft_free(h->counts);
}

static void histogram_add(histogram_t *h, double v) {
  size_t low = 0, high = h->num - 1; /* the first limit above v; the last takes the rest */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (h->limits[middle] > v) high = middle;
    if (h->limits[middle] <= v) low = middle + 1;
  }
  h->counts[low]++;
  if (v < h->min) h->min = v;
  if (v > h->max) h->max = v;
  h->n++;
  h->sum += v;
  h->squares += v * v;
}

/* A run of empty buckets is written as one. */
static void histogram_put(const histogram_t *h, weft_strbuf_t *b) {
  weft_wire_put_double(b, HISTO_MIN, h->min);
  weft_wire_put_double(b, HISTO_MAX, h->max);
  weft_wire_put_double(b, HISTO_NUM, h->n);
  weft_wire_put_double(b, HISTO_SUM, h->sum);
  weft_wire_put_double(b, HISTO_SQUARES, h->squares);
  for (int pass = 0; pass < 2; pass++) {
    size_t mark = weft_wire_begin(b, pass == 0 ? HISTO_LIMITS : HISTO_BUCKETS);
    for (size_t i = 0; i < h->num; i++) {
      while (h->counts[i] <= 0 && i + 1 < h->num && h->counts[i + 1] <= 0) i++;
      uint8_t *to = weft_wire_room(b, 8);
      double value = pass == 0 ? h->limits[i] : h->counts[i];
      if (to != NULL) weft_wire_advance(b, weft_wire_store64(to, weft_wire_double_bits(value)));
    }
    weft_wire_end(b, mark);
  }
}

static weft_status_t *histogram_summary(weft_kernel_ctx_t *c) {
  const weft_tensor_t *values = weft_in(c, 1);
  weft_str_t tag;
  histogram_t h;
  WEFT_RETURN_IF_ERROR(scalar_tag(c, &tag));
  weft_status_t *s = histogram_init(&h);
  for (int64_t i = 0; s == NULL && i < values->count; i++) {
    double v = number(values, i);
    if (isnan(v)) s = WEFT_ERROR(INVALID_ARGUMENT, "Nan in summary histogram for: %.*s", WEFT_STR_ARGS(c->node->name));
    if (isinf(v)) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Infinity in summary histogram for: %.*s", WEFT_STR_ARGS(c->node->name));
    }
    if (s == NULL) histogram_add(&h, v);
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  if (s == NULL) {
    size_t value = weft_wire_begin(&b, SUMMARY_VALUE);
    weft_wire_put_bytes(&b, VALUE_TAG, tag);
    size_t histo = weft_wire_begin(&b, VALUE_HISTO);
    histogram_put(&h, &b);
    weft_wire_end(&b, histo);
    weft_wire_end(&b, value);
    s = set_message(c, &b);
  }
  histogram_deinit(&h);
  return s;
}

/* ---- images ---- */

/* One image of float values to bytes: brought into [0, 255], or around 128 if some are negative. */
static void normalize(const weft_tensor_t *t, int64_t at, int64_t pixels, int depth, const uint8_t *bad, uint8_t *out) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t p = 0; p < pixels; p++) {
    bool finite = true;
    for (int d = 0; d < depth; d++) finite = finite && isfinite(number(t, at + p * depth + d));
    for (int d = 0; finite && d < depth; d++) {
      double v = number(t, at + p * depth + d);
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
  }
  double size = low < 0 ? fmax(fabs(low), fabs(high)) : high, offset = low < 0 ? 128 : 0;
  double scale = size < 1e-6 || !isfinite(size) ? 0 : (low < 0 ? 127 : 255) / size;
  for (int64_t p = 0; p < pixels; p++) {
    bool finite = true;
    for (int d = 0; d < depth; d++) finite = finite && isfinite(number(t, at + p * depth + d));
    for (int d = 0; d < depth; d++) {
      float v = (float)number(t, at + p * depth + d) * (float)scale + (float)offset;
      out[p * depth + d] = finite ? (uint8_t)v : bad[d];
    }
  }
}

static weft_status_t *put_image(weft_strbuf_t *b, weft_str_t tag, int64_t index, bool is_only, const uint8_t *pixels,
                                int64_t height, int64_t width, int depth) {
  weft_strbuf_t png = WEFT_STRBUF_INIT, name = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_png_encode(pixels, height, width, depth, &png);
  weft_strbuf_printf(&name, "%.*s/image", WEFT_STR_ARGS(tag));
  if (!is_only) weft_strbuf_printf(&name, "/%" PRId64, index);
  if (s == NULL && (name.failed || png.failed)) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a summary");
  if (s == NULL) {
    size_t value = weft_wire_begin(b, SUMMARY_VALUE);
    weft_wire_add_bytes(b, VALUE_TAG, weft_str_of(name.data, name.length));
    size_t image = weft_wire_begin(b, VALUE_IMAGE);
    weft_wire_put_i64(b, IMAGE_HEIGHT, height);
    weft_wire_put_i64(b, IMAGE_WIDTH, width);
    weft_wire_put_i64(b, IMAGE_COLORSPACE, depth);
    weft_wire_add_bytes(b, IMAGE_BYTES, weft_str_of(png.data, png.length));
    weft_wire_end(b, image);
    weft_wire_end(b, value);
  }
  weft_strbuf_deinit(&png);
  weft_strbuf_deinit(&name);
  return s;
}

/* The color of pixels that are not finite, one value for each channel. */
static weft_status_t *bad_color(const weft_kernel_ctx_t *c, int depth, uint8_t out[4]) {
  const weft_attr_t *a = weft_knode_attr(c->node, "bad_color");
  static const uint8_t red[4] = {255, 0, 0, 255};
  memcpy(out, red, sizeof red);
  if (a == NULL || a->kind != WEFT_ATTR_TENSOR || a->tensor == NULL) return NULL;
  const weft_tensor_t *t = a->tensor;
  if (t->dtype != WEFT_U8 || t->shape.rank != 1 || t->count < depth) {
    return WEFT_ERROR(INVALID_ARGUMENT, "expected size-%d vector of type uint8 as bad_color, got %s of shape %s", depth,
                      weft_dtype_name(t->dtype), WEFT_SHAPE_TEXT(&t->shape));
  }
  memcpy(out, t->data, (size_t)depth);
  return NULL;
}

static weft_status_t *image_summary(weft_kernel_ctx_t *c) {
  const weft_tensor_t *t = weft_in(c, 1);
  weft_str_t tag;
  uint8_t bad[4];
  WEFT_RETURN_IF_ERROR(scalar_tag(c, &tag));
  int64_t depth = t->shape.rank == 4 ? t->shape.dims[3] : 0;
  if (depth != 1 && depth != 3 && depth != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor must be 4-D with last dim 1, 3, or 4, not %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  WEFT_RETURN_IF_ERROR(bad_color(c, (int)depth, bad));
  int64_t height = t->shape.dims[1], width = t->shape.dims[2], pixels = height * width, max = weft_knode_int(c->node, "max_images");
  int64_t n = t->shape.dims[0] < max ? t->shape.dims[0] : max;
  uint8_t *bytes = weft_malloc((size_t)(pixels * depth));
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_status_t *s = bytes == NULL ? WEFT_ERROR(RESOURCE_EXHAUSTED, "writing an image") : NULL;
  for (int64_t i = 0; s == NULL && i < n; i++) {
    int64_t at = i * pixels * depth;
    const uint8_t *image = bytes;
    if (t->dtype == WEFT_U8) {
      image = (const uint8_t *)t->data + at;
    } else {
      normalize(t, at, pixels, (int)depth, bad, bytes);
    }
    s = put_image(&b, tag, i, max == 1, image, height, width, (int)depth);
  }
  weft_free(bytes);
  if (s == NULL) return set_message(c, &b);
  weft_strbuf_deinit(&b);
  return s;
}

/* ---- tensors ---- */

static void put_tensor(const weft_tensor_t *t, uint32_t field, weft_strbuf_t *b) {
  size_t mark = weft_wire_begin(b, field);
  weft_wire_put_i64(b, TENSOR_DTYPE, t->dtype);
  size_t shape = weft_wire_begin(b, TENSOR_SHAPE);
  for (int d = 0; d < t->shape.rank; d++) {
    size_t dim = weft_wire_begin(b, SHAPE_DIM);
    weft_wire_put_i64(b, DIM_SIZE, t->shape.dims[d]);
    weft_wire_end(b, dim);
  }
  weft_wire_end(b, shape);
  if (t->dtype == WEFT_STRING) {
    for (int64_t i = 0; i < t->count; i++) weft_wire_add_bytes(b, TENSOR_STRINGS, weft_tensor_str_at(t, i));
  } else {
    weft_wire_put_bytes(b, TENSOR_CONTENT, weft_str_of(t->data, t->bytes));
  }
  weft_wire_end(b, mark);
}

static weft_status_t *check_plain(const weft_tensor_t *t) {
  if (weft_dtype_is_plain(t->dtype) || t->dtype == WEFT_STRING) return NULL;
  return WEFT_ERROR(UNIMPLEMENTED, "a tensor of type %s cannot be put into a summary", weft_dtype_name(t->dtype));
}

static weft_status_t *tensor_summary_v2(weft_kernel_ctx_t *c) {
  const weft_tensor_t *metadata = weft_in(c, 2);
  weft_str_t tag;
  WEFT_RETURN_IF_ERROR(scalar_tag(c, &tag));
  WEFT_RETURN_IF_ERROR(check_plain(weft_in(c, 1)));
  if (metadata->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "serialized_summary_metadata must be scalar");
  if (!weft_wire_is_message(weft_tensor_str_at(metadata, 0))) {
    return WEFT_ERROR(INVALID_ARGUMENT, "serialized_summary_metadata is not a message");
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  size_t mark = weft_wire_begin(&b, SUMMARY_VALUE);
  weft_wire_put_bytes(&b, VALUE_TAG, tag);
  put_tensor(weft_in(c, 1), VALUE_TENSOR, &b);
  weft_wire_add_bytes(&b, VALUE_METADATA, weft_tensor_str_at(metadata, 0));
  weft_wire_end(&b, mark);
  return set_message(c, &b);
}

static weft_status_t *tensor_summary(weft_kernel_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_plain(weft_in(c, 0)));
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  enum { VALUE_NODE_NAME = 7 };
  size_t mark = weft_wire_begin(&b, SUMMARY_VALUE);
  weft_wire_put_bytes(&b, VALUE_NODE_NAME, c->node->name);
  put_tensor(weft_in(c, 0), VALUE_TENSOR, &b);
  weft_wire_end(&b, mark);
  return set_message(c, &b);
}

/* ---- the union ---- */

/* Adds the tags of one summary to `seen`; they are views into it. */
static weft_status_t *see_tags(weft_map_t *seen, weft_str_t summary) {
  weft_wire_reader_t r = weft_wire_reader(summary);
  weft_wire_field_t f, g;
  static char mark;
  while (weft_wire_next(&r, &f)) {
    if (f.tag != WEFT_WIRE_TAG(SUMMARY_VALUE, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t v = weft_wire_reader(f.bytes);
    weft_str_t tag = WEFT_STR("");
    while (weft_wire_next(&v, &g)) {
      if (g.tag == WEFT_WIRE_TAG(VALUE_TAG, WEFT_WIRE_BYTES)) tag = g.bytes;
    }
    if (v.failed) r.failed = true;
    if (tag.length == 0) continue;
    if (weft_map_get(seen, tag) != NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Duplicate tag %.*s found in summary inputs", WEFT_STR_ARGS(tag));
    }
    WEFT_RETURN_IF_ERROR(weft_map_put(seen, tag, &mark, NULL));
  }
  return r.failed ? WEFT_ERROR(INVALID_ARGUMENT, "Could not parse one of the summary inputs") : NULL;
}

/* Summaries are lists of values: one behind the other they are one summary. */
static weft_status_t *merge_summary(weft_kernel_ctx_t *c) {
  weft_map_t seen = WEFT_MAP_INIT;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < c->node->num_inputs; i++) {
    const weft_tensor_t *t = weft_in(c, i);
    for (int64_t k = 0; s == NULL && k < t->count; k++) {
      s = see_tags(&seen, weft_tensor_str_at(t, k));
      weft_strbuf_append(&b, weft_tensor_str_at(t, k));
    }
  }
  weft_map_deinit(&seen);
  if (s == NULL) return set_message(c, &b);
  weft_strbuf_deinit(&b);
  return s;
}

const weft_kernel_t weft_cpu_summary_kernels[] = {
    {.op = "HistogramSummary", .type_attr = "T", .types = WEFT_SET_REAL, .compute = histogram_summary},
    {.op = "ImageSummary", .compute = image_summary},
    {.op = "MergeSummary", .compute = merge_summary},
    {.op = "ScalarSummary", .type_attr = "T", .types = WEFT_SET_REAL, .compute = scalar_summary},
    {.op = "TensorSummary", .compute = tensor_summary},
    {.op = "TensorSummaryV2", .compute = tensor_summary_v2},
    {0},
};
