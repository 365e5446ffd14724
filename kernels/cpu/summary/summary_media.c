/* kernels/cpu/summary/summary_media.c - summaries of images and sound. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/media/png.h"
#include "kernels/cpu/media/wav.h"
#include "kernels/cpu/summary/summary_common.h"

/* Field numbers of summary.proto. */
enum {
  IMAGE_HEIGHT = 1,
  IMAGE_WIDTH = 2,
  IMAGE_COLORSPACE = 3,
  IMAGE_BYTES = 4,
  AUDIO_RATE = 1,
  AUDIO_CHANNELS = 2,
  AUDIO_FRAMES = 3,
  AUDIO_BYTES = 4,
  AUDIO_TYPE = 5,
};

/* ---- images ---- */

typedef struct image_state {
  int64_t max_images;
  const weft_tensor_t *bad_color; /* of pixels that are not finite; lent by the node */
} image_state_t;

static weft_status_t *image_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *a = weft_knode_attr(setup, "bad_color");
  const weft_tensor_t *color = a != NULL && a->kind == WEFT_ATTR_TENSOR ? a->tensor : NULL;
  int64_t max = weft_knode_int(setup, "max_images");
  if (max > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "max_images must be < 2^31");
  if (color == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "bad_color is missing");
  if (color->dtype != WEFT_U8) {
    return WEFT_ERROR(INVALID_ARGUMENT, "bad_color must be uint8, got %s", weft_dtype_name(color->dtype));
  }
  if (color->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "bad_color must be a vector, got shape %s",
                      WEFT_SHAPE_TEXT(&color->shape));
  }
  image_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *st = (image_state_t){max, color};
  *out_state = st;
  return NULL;
}

static float round_to(weft_dtype_t dtype, float x) {
  return dtype == WEFT_F16 ? weft_f16_to_f32(weft_f32_to_f16(x)) : x;
}

static bool is_finite_pixel(const weft_tensor_t *t, int64_t at, int depth) {
  for (int d = 0; d < depth; d++) {
    if (!isfinite(weft_summary_number(t, at + d))) return false;
  }
  return true;
}

/* As TensorFlow's cast does; what does not fit is 0. */
static uint8_t to_byte(double v) { return v > -1 && v < 256 ? (uint8_t)(int)v : 0; }

/* One image of float values to bytes: brought into [0, 255], or around 128 if some are negative. Extremes and
 * scale are float whatever the type; the rest is in the type itself, rounded after each step. */
static void normalize(const weft_tensor_t *t, int64_t at, int64_t pixels, int depth, const uint8_t *bad,
                      uint8_t *out) {
  float low = INFINITY, high = -INFINITY;
  for (int64_t p = 0; p < pixels; p++) {
    if (!is_finite_pixel(t, at + p * depth, depth)) continue;
    for (int d = 0; d < depth; d++) {
      float v = (float)weft_summary_number(t, at + p * depth + d);
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
  }
  float size = low < 0 ? fmaxf(fabsf(low), fabsf(high)) : high;
  float scale = round_to(t->dtype, size < 1e-6f ? 0 : (low < 0 ? 127.0f : 255.0f) / size),
        offset = low < 0 ? 128 : 0;
  for (int64_t p = 0; p < pixels; p++) {
    int64_t first = at + p * depth;
    if (!is_finite_pixel(t, first, depth)) {
      memcpy(out + p * depth, bad, (size_t)depth);
      continue;
    }
    for (int d = 0; d < depth; d++) {
      double v = weft_summary_number(t, first + d);
      out[p * depth + d] =
          t->dtype == WEFT_F64
              ? to_byte(v * (double)scale + (double)offset)
              : to_byte((double)round_to(t->dtype, round_to(t->dtype, (float)v * scale) + offset));
    }
  }
}

static weft_status_t *put_image(weft_strbuf_t *b, weft_str_t tag, int64_t index, bool is_only,
                                const uint8_t *pixels, int64_t height, int64_t width, int depth) {
  weft_strbuf_t png = WEFT_STRBUF_INIT, name = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_png_encode(pixels, height, width, depth, 8, -1, &png);
  weft_strbuf_printf(&name, "%.*s/image", WEFT_STR_ARGS(tag));
  if (!is_only) weft_strbuf_printf(&name, "/%" PRId64, index);
  if (s == NULL && (name.failed || png.failed)) s = WEFT_NO_MEMORY("writing a summary");
  if (s == NULL) {
    size_t value = weft_wire_begin(b, WEFT_SUMMARY_VALUE);
    weft_wire_add_bytes(b, WEFT_VALUE_TAG, weft_str_of(name.data, name.length));
    size_t image = weft_wire_begin(b, WEFT_VALUE_IMAGE);
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

static weft_status_t *check_image(const weft_tensor_t *t, const weft_tensor_t *bad_color) {
  int64_t depth = t->shape.rank == 4 ? t->shape.dims[3] : 0;
  if (depth != 1 && depth != 3 && depth != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor must be 4-D with last dim 1, 3, or 4, not %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  const int64_t *d = t->shape.dims;
  enum { MAX_PIXELS = 1 << 29 };
  if (d[0] > INT32_MAX || d[1] > INT32_MAX || d[2] > INT32_MAX || d[1] * d[2] >= MAX_PIXELS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor too large for summary %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  if (d[1] == 0 || d[2] == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input tensor must have non-zero dims. Found: [%" PRId64 ", %" PRId64 ", %" PRId64
                      ", %" PRId64 "].",
                      d[0], d[1], d[2], d[3]);
  }
  if (t->dtype != WEFT_U8 && bad_color->count < depth) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "expected depth <= bad_color.size, got depth = %" PRId64 ", bad_color.size = %" PRId64,
                      depth, bad_color->count);
  }
  return NULL;
}

weft_status_t *weft_summary_put_images(weft_strbuf_t *b, weft_str_t tag, const weft_tensor_t *t, int64_t max,
                                       const weft_tensor_t *bad_color) {
  WEFT_RETURN_IF_ERROR(check_image(t, bad_color));
  int64_t height = t->shape.dims[1], width = t->shape.dims[2], pixels = height * width;
  int64_t n = t->shape.dims[0] < max ? t->shape.dims[0] : max;
  int depth = (int)t->shape.dims[3];
  uint8_t *bytes = weft_malloc((size_t)pixels * (size_t)depth);
  weft_status_t *s = bytes == NULL ? WEFT_NO_MEMORY("writing an image") : NULL;
  for (int64_t i = 0; s == NULL && i < n; i++) {
    int64_t at = i * pixels * depth;
    const uint8_t *image = bytes;
    if (t->dtype == WEFT_U8) {
      image = (const uint8_t *)t->data + at;
    } else {
      normalize(t, at, pixels, depth, bad_color->data, bytes);
    }
    s = put_image(b, tag, i, max == 1, image, height, width, depth);
  }
  weft_free(bytes);
  return s;
}

static weft_status_t *image_summary(weft_kernel_ctx_t *c) {
  const image_state_t *st = c->state;
  weft_str_t tag = WEFT_STR("");
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_summary_tag(c, "Tags must be a scalar", &tag));
  return weft_summary_finish(
      c, weft_summary_put_images(&b, tag, weft_in(c, 1), st->max_images, st->bad_color), &b);
}

/* ---- audio ---- */

static weft_status_t *put_audio(weft_strbuf_t *b, weft_str_t tag, int64_t index, bool is_only, float rate,
                                int64_t frames, int64_t channels, weft_str_t wav) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s/audio", WEFT_STR_ARGS(tag));
  if (!is_only) weft_strbuf_printf(&name, "/%" PRId64, index);
  if (name.failed) {
    weft_strbuf_deinit(&name);
    return WEFT_NO_MEMORY("writing a summary");
  }
  size_t value = weft_wire_begin(b, WEFT_SUMMARY_VALUE);
  weft_wire_add_bytes(b, WEFT_VALUE_TAG, weft_str_of(name.data, name.length));
  size_t audio = weft_wire_begin(b, WEFT_VALUE_AUDIO);
  weft_wire_put_float(b, AUDIO_RATE, rate);
  weft_wire_put_i64(b, AUDIO_CHANNELS, channels);
  weft_wire_put_i64(b, AUDIO_FRAMES, frames);
  weft_wire_add_bytes(b, AUDIO_BYTES, wav);
  weft_wire_put_text(b, AUDIO_TYPE, "audio/wav");
  weft_wire_end(b, audio);
  weft_wire_end(b, value);
  weft_strbuf_deinit(&name);
  return NULL;
}

weft_status_t *weft_summary_put_audio(weft_strbuf_t *b, weft_str_t tag, const weft_tensor_t *t, int64_t max,
                                      float rate) {
  if (t->shape.rank != 2 && t->shape.rank != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor must be 3-D or 2-D, got: %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  if (!(rate > 0)) return WEFT_ERROR(INVALID_ARGUMENT, "sample_rate must be > 0");
  /* The file's rate is a whole number, at least 1; one that no integer holds is 2^63, as there. */
  uint64_t whole = rate < 0x1p63f ? (uint64_t)llrintf(rate) : (uint64_t)1 << 63;
  if (whole == 0) whole = 1;
  int64_t frames = t->shape.dims[1], channels = t->shape.rank == 2 ? 1 : t->shape.dims[2];
  int64_t n = t->shape.dims[0] < max ? t->shape.dims[0] : max;
  weft_strbuf_t wav = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < n; i++) {
    wav.length = 0;
    s = weft_wav_write((const float *)t->data + i * frames * channels, frames, channels, whole, &wav);
    if (s == NULL)
      s = put_audio(b, tag, i, max == 1, rate, frames, channels, weft_str_of(wav.data, wav.length));
  }
  weft_strbuf_deinit(&wav);
  return s;
}

typedef struct audio_state {
  int64_t max_outputs;
  bool has_rate; /* else it is input 2 */
  float rate;
} audio_state_t;

static weft_status_t *audio_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  int64_t max = weft_knode_int(setup, "max_outputs");
  const weft_attr_t *rate = weft_knode_attr(setup, "sample_rate");
  if (max > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Attr max_outputs has value %" PRId64 " out of range for an int32",
                      max);
  }
  audio_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *st = (audio_state_t){.max_outputs = max, .has_rate = rate != NULL, .rate = rate != NULL ? rate->f : 0};
  *out_state = st;
  return NULL;
}

static weft_status_t *audio_summary(weft_kernel_ctx_t *c) {
  const audio_state_t *st = c->state;
  weft_str_t tag = WEFT_STR("");
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  float rate = st->rate;
  WEFT_RETURN_IF_ERROR(weft_summary_tag(c, "Tag must be a scalar", &tag));
  if (!st->has_rate) {
    if (weft_in(c, 2)->count != 1) return WEFT_ERROR(INVALID_ARGUMENT, "sample_rate must be a scalar");
    rate = *(const float *)weft_in(c, 2)->data;
  }
  return weft_summary_finish(c, weft_summary_put_audio(&b, tag, weft_in(c, 1), st->max_outputs, rate), &b);
}

const weft_kernel_t weft_cpu_summary_media_kernels[] = {
    {.op = "AudioSummary", .prepare = audio_prepare, .compute = audio_summary, .destroy = weft_free},
    {.op = "AudioSummaryV2", .prepare = audio_prepare, .compute = audio_summary, .destroy = weft_free},
    {.op = "ImageSummary", .prepare = image_prepare, .compute = image_summary, .destroy = weft_free},
    {0},
};
