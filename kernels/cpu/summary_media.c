/* kernels/cpu/summary_media.c - ImageSummary, AudioSummaryV2. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/png.h"
#include "kernels/cpu/summary_common.h"

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

/* One image of float values to bytes: brought into [0, 255], or around 128 if some are negative. */
static void normalize(const weft_tensor_t *t, int64_t at, int64_t pixels, int depth, const uint8_t *bad, uint8_t *out) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t p = 0; p < pixels; p++) {
    bool finite = true;
    for (int d = 0; d < depth; d++) finite = finite && isfinite(weft_summary_number(t, at + p * depth + d));
    for (int d = 0; finite && d < depth; d++) {
      double v = weft_summary_number(t, at + p * depth + d);
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
  }
  double size = low < 0 ? fmax(fabs(low), fabs(high)) : high, offset = low < 0 ? 128 : 0;
  double scale = size < 1e-6 || !isfinite(size) ? 0 : (low < 0 ? 127 : 255) / size;
  for (int64_t p = 0; p < pixels; p++) {
    bool finite = true;
    for (int d = 0; d < depth; d++) finite = finite && isfinite(weft_summary_number(t, at + p * depth + d));
    for (int d = 0; d < depth; d++) {
      float v = (float)weft_summary_number(t, at + p * depth + d) * (float)scale + (float)offset;
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
  weft_str_t tag = WEFT_STR("");
  uint8_t bad[4];
  WEFT_RETURN_IF_ERROR(weft_summary_tag(c, &tag));
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
  if (s == NULL) return weft_summary_set(c, &b);
  weft_strbuf_deinit(&b);
  return s;
}

/* ---- audio: WAV of 16 bits ---- */

static void add_u16(weft_strbuf_t *b, unsigned value) {
  weft_strbuf_putc(b, (char)value);
  weft_strbuf_putc(b, (char)(value >> 8));
}

static void add_u32(weft_strbuf_t *b, uint32_t value) {
  add_u16(b, value & 0xffffu);
  add_u16(b, value >> 16);
}

/* [-1, 1] to 16 bits; what is outside is cut. */
static void add_sample(weft_strbuf_t *b, float sample) {
  float scaled = roundf(sample * 32768.0f);
  if (!(scaled > -32768.0f)) scaled = -32768.0f;
  if (scaled > 32767.0f) scaled = 32767.0f;
  add_u16(b, (unsigned)(int)scaled & 0xffffu);
}

static weft_status_t *wav_encode(const float *samples, int64_t frames, int64_t channels, uint32_t rate,
                                 weft_strbuf_t *out) {
  enum { HEADER = 44, BYTES = 2, PCM = 1 };
  int64_t bytes = 0;
  if (channels > 256 || !weft_cpu_mul(frames * channels, BYTES, &bytes) || bytes > UINT32_MAX - HEADER) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " frames of %" PRId64 " channels do not fit a WAV file", frames,
                      channels);
  }
  weft_strbuf_puts(out, "RIFF");
  add_u32(out, (uint32_t)bytes + HEADER - 8);
  weft_strbuf_puts(out, "WAVEfmt ");
  add_u32(out, 16);
  add_u16(out, PCM);
  add_u16(out, (unsigned)channels);
  add_u32(out, rate);
  add_u32(out, rate * BYTES * (uint32_t)channels);
  add_u16(out, BYTES * (unsigned)channels);
  add_u16(out, 8 * BYTES);
  weft_strbuf_puts(out, "data");
  add_u32(out, (uint32_t)bytes);
  for (int64_t i = 0; i < frames * channels; i++) add_sample(out, samples[i]);
  return out->failed ? WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a WAV file") : NULL;
}

static weft_status_t *put_audio(weft_strbuf_t *b, weft_str_t tag, int64_t index, bool is_only, float rate,
                                int64_t frames, int64_t channels, weft_str_t wav) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s/audio", WEFT_STR_ARGS(tag));
  if (!is_only) weft_strbuf_printf(&name, "/%" PRId64, index);
  if (name.failed) return WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a summary");
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

static weft_status_t *audio_summary(weft_kernel_ctx_t *c) {
  const weft_tensor_t *t = weft_in(c, 1), *rates = weft_in(c, 2);
  weft_str_t tag = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(weft_summary_tag(c, &tag));
  if (t->shape.rank != 2 && t->shape.rank != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor must be 3-D or 2-D, got: %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  if (rates->count != 1) return WEFT_ERROR(INVALID_ARGUMENT, "sample_rate must be a scalar");
  float rate = *(const float *)rates->data;
  if (!(rate > 0) || rate > 4e9f) return WEFT_ERROR(INVALID_ARGUMENT, "sample_rate must be positive");
  int64_t frames = t->shape.dims[1], channels = t->shape.rank == 2 ? 1 : t->shape.dims[2];
  int64_t max = weft_knode_int(c->node, "max_outputs"), n = t->shape.dims[0] < max ? t->shape.dims[0] : max;
  weft_strbuf_t b = WEFT_STRBUF_INIT, wav = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < n; i++) {
    wav.length = 0;
    s = wav_encode((const float *)t->data + i * frames * channels, frames, channels, (uint32_t)rate, &wav);
    if (s == NULL) s = put_audio(&b, tag, i, max == 1, rate, frames, channels, weft_str_of(wav.data, wav.length));
  }
  weft_strbuf_deinit(&wav);
  if (s == NULL) return weft_summary_set(c, &b);
  weft_strbuf_deinit(&b);
  return s;
}

const weft_kernel_t weft_cpu_summary_media_kernels[] = {
    {.op = "AudioSummaryV2", .compute = audio_summary},
    {.op = "ImageSummary", .compute = image_summary},
    {0},
};
