/* kernels/cpu/image/decode.c - image files to tensors.
 *
 * As in TensorFlow, the first bytes of a file say what it is, and the ops of one format read some others,
 * too; what an op refuses stands in `check_format`.
 */
#include <limits.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/media/bmp.h"
#include "kernels/cpu/media/gif.h"
#include "kernels/cpu/media/jpeg.h"
#include "kernels/cpu/media/png.h"

typedef enum format { UNKNOWN, JPEG, PNG, GIF, BMP } format_t;

static const char *const format_names[] = {"unknown", "JPEG", "PNG", "GIF", "BMP"};

typedef enum decode_op {
  DECODE_JPEG,
  CROP_JPEG,
  DECODE_PNG,
  DECODE_GIF,
  DECODE_BMP,
  DECODE_IMAGE
} decode_op_t;

typedef struct decode_state {
  decode_op_t op;
  int channels;
  bool all_frames;
  weft_jpeg_reading_t jpeg; /* without channels and window */
} decode_state_t;

static format_t format_of(weft_str_t file) {
  if (weft_str_starts_with(file, "\xff\xd8\xff")) return JPEG;
  if (weft_str_starts_with(file, "\x89PNG\r\n\x1a\n")) return PNG;
  if (weft_str_starts_with(file, "GIF8")) return GIF;
  return weft_str_starts_with(file, "BM") ? BMP : UNKNOWN;
}

/* ---- attributes ---- */

static weft_status_t *read_jpeg_attrs(const weft_kernel_setup_t *setup, weft_jpeg_reading_t *out) {
  int64_t ratio = weft_knode_int(setup, "ratio");
  weft_str_t method = weft_knode_string(setup, "dct_method");
  if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
    return WEFT_ERROR(INVALID_ARGUMENT, "ratio must be 1, 2, 4, or 8, got %lld", (long long)ratio);
  }
  out->is_accurate = weft_str_is(method, "INTEGER_ACCURATE");
  if (!out->is_accurate && method.length > 0 && !weft_str_is(method, "INTEGER_FAST")) {
    return WEFT_ERROR(INVALID_ARGUMENT, "dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}");
  }
  out->ratio = (int)ratio;
  out->fancy_upscaling = weft_knode_bool(setup, "fancy_upscaling");
  out->recover = weft_knode_bool(setup, "try_recover_truncated");
  out->acceptable_fraction = weft_knode_float(setup, "acceptable_fraction");
  return NULL;
}

static weft_status_t *decode_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  decode_op_t op = *(const decode_op_t *)setup->node.param;
  decode_state_t st = {.op = op, .jpeg = {.ratio = 1, .fancy_upscaling = true, .acceptable_fraction = 1}};
  int64_t channels = weft_knode_int_or(setup, "channels", 3);
  if (op == DECODE_JPEG || op == CROP_JPEG) WEFT_RETURN_IF_ERROR(read_jpeg_attrs(setup, &st.jpeg));
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`channels` must be 0, 1, 3 or 4 but got %lld", (long long)channels);
  }
  st.channels = (int)channels;
  st.all_frames = weft_knode_bool_or(setup, "expand_animations", true);
  decode_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *state = st;
  *out_state = state;
  return NULL;
}

/* ---- what an op reads ---- */

static weft_status_t *check_format(const decode_state_t *st, format_t format) {
  const char *name = format_names[format];
  bool is_bmp_op = st->op == DECODE_BMP;
  if (format == UNKNOWN) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Unknown image file format. One of JPEG, PNG, GIF, BMP required.");
  }
  if (format == JPEG && st->channels == 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "JPEG does not support 4 channels");
  if (format == GIF && st->channels != 0 && st->channels != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "channels must be 0 or 3 for GIF, got %d", st->channels);
  }
  if (format == BMP && st->channels == 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`channels` must be 0, 3 or 4 for BMP, but got 1");
  }
  if (st->op == CROP_JPEG && format != JPEG) {
    return WEFT_ERROR(INVALID_ARGUMENT, "DecodeAndCropJpeg operation can run on JPEG only, but detected %s.",
                      name);
  }
  if (is_bmp_op != (format == BMP) && (is_bmp_op || st->op != DECODE_IMAGE)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s cannot be decoded by this op; DecodeImage reads every format",
                      name);
  }
  return NULL;
}

static weft_status_t *read_window(const weft_tensor_t *window, weft_jpeg_reading_t *out) {
  if (window->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "crop_window must be 1-D, got shape %s",
                      WEFT_SHAPE_TEXT(&window->shape));
  }
  if (window->count != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "crop_size must have four elements %s",
                      WEFT_SHAPE_TEXT(&window->shape));
  }
  const int32_t *v = window->data;
  out->crop = true;
  out->crop_y = v[0];
  out->crop_x = v[1];
  out->crop_height = v[2];
  out->crop_width = v[3];
  return NULL;
}

/* ---- pixels ---- */

/* Output 0, or memory that is converted to its dtype afterwards. */
typedef struct target {
  weft_picture_sink_t sink;
  weft_kernel_ctx_t *ctx;
  format_t format;
  weft_tensor_t *out;
  int sample_bytes; /* of the samples that the decoder writes */
  void *scratch;    /* owned; NULL: the decoder writes to the tensor */
} target_t;

static weft_status_t *make_output(weft_picture_sink_t *sink, int64_t frames, int64_t height, int64_t width,
                                  int64_t channels, void **out) {
  target_t *t = (target_t *)sink;
  const decode_state_t *st = t->ctx->state;
  weft_dtype_t dtype = (weft_dtype_t)t->ctx->node->output_types[0];
  bool has_frames = st->op == DECODE_GIF || (st->op == DECODE_IMAGE && st->all_frames && t->format == GIF);
  weft_shape_t shape = {.rank = 4, .dims = {frames, height, width, channels}};
  if (!has_frames) shape = (weft_shape_t){.rank = 3, .dims = {height, width, channels}};
  if (!has_frames && frames != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Got %lld frames, but animated gifs can only be decoded by tf.io.decode_gif or "
                      "tf.io.decode_image",
                      (long long)frames);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(t->ctx, 0, dtype, &shape, &t->out));
  *out = t->out->data;
  if (weft_dtype_size(dtype) == (size_t)t->sample_bytes) return NULL;
  t->scratch = weft_malloc((size_t)t->out->count * (size_t)t->sample_bytes + 1);
  *out = t->scratch;
  return t->scratch != NULL ? NULL : WEFT_NO_MEMORY("decoding an image");
}

/* Samples of 8 bits to 16, or of 8 or 16 to float in [0, 1]. */
static void convert(const target_t *t) {
  const uint8_t *bytes = t->scratch;
  const uint16_t *words = t->scratch;
  if (t->out->dtype == WEFT_U16) {
    uint16_t *out = t->out->data;
    for (int64_t i = 0; i < t->out->count; i++) out[i] = (uint16_t)(bytes[i] * 256);
    return;
  }
  float *out = t->out->data, scale = (float)(1.0 / (t->sample_bytes == 1 ? UINT8_MAX : UINT16_MAX));
  for (int64_t i = 0; i < t->out->count; i++) {
    out[i] = (float)(t->sample_bytes == 1 ? bytes[i] : words[i]) * scale;
  }
}

static weft_status_t *decode_file(target_t *t, weft_str_t file) {
  const decode_state_t *st = t->ctx->state;
  weft_jpeg_reading_t jpeg = st->jpeg;
  jpeg.channels = st->channels;
  switch (t->format) {
    case JPEG:
      if (st->op == CROP_JPEG) WEFT_RETURN_IF_ERROR(read_window(weft_in(t->ctx, 1), &jpeg));
      return weft_jpeg_decode(file, &jpeg, &t->sink);
    case PNG: return weft_png_decode(file, st->channels, 8 * t->sample_bytes, &t->sink);
    case GIF: return weft_gif_decode(file, st->all_frames, &t->sink);
    case BMP: return weft_bmp_decode(file, st->channels, &t->sink);
    case UNKNOWN: break;
  }
  return WEFT_ERROR(INTERNAL, "an image of no format");
}

static weft_status_t *decode_compute(weft_kernel_ctx_t *c) {
  const weft_tensor_t *contents = weft_in(c, 0);
  if (contents->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`contents` must be scalar but got shape%s",
                      WEFT_SHAPE_TEXT(&contents->shape));
  }
  weft_str_t file = weft_tensor_str_at(contents, 0);
  if (file.length == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Input is empty.");
  if (file.length > INT_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input contents are too large for int: %zu", file.length);
  }
  target_t t = {.sink.make = make_output, .ctx = c, .format = format_of(file)};
  t.sample_bytes = t.format == PNG && c->node->output_types[0] != WEFT_U8 ? 2 : 1;
  WEFT_RETURN_IF_ERROR(check_format(c->state, t.format));
  weft_status_t *s = decode_file(&t, file);
  if (s == NULL && t.scratch != NULL) convert(&t);
  weft_free(t.scratch);
  return s;
}

WEFT_ATTRS(jpeg_shape, (TYPE, output_type))
static weft_status_t *jpeg_shape(weft_kernel_ctx_t *c, const jpeg_shape_attrs_t *attrs) {
  const weft_tensor_t *contents = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_shape_t shape = weft_shape_vector(3);
  int64_t size[3] = {0};
  if (contents->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "contents must be scalar, got shape %s",
                      WEFT_SHAPE_TEXT(&contents->shape));
  }
  weft_str_t file = weft_tensor_str_at(contents, 0);
  if (file.length > INT_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "JPEG contents are too large for int: %zu", file.length);
  }
  WEFT_RETURN_IF_ERROR(weft_jpeg_size(file, size));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, (weft_dtype_t)attrs->output_type, &shape, &out));
  for (int i = 0; i < 3; i++) {
    if (out->dtype == WEFT_I64) ((int64_t *)out->data)[i] = size[i];
    if (out->dtype == WEFT_I32) ((int32_t *)out->data)[i] = (int32_t)size[i];
  }
  return NULL;
}

#define DECODE(op_, which)                                                                 \
  {                                                                                        \
    .op = op_, .prepare = decode_prepare, .compute = decode_compute, .destroy = weft_free, \
    .param = &(const decode_op_t) {                                                        \
      which                                                                                \
    }                                                                                      \
  }

const weft_kernel_t weft_cpu_image_decode_kernels[] = {
    DECODE("DecodeAndCropJpeg", CROP_JPEG),
    DECODE("DecodeBmp", DECODE_BMP),
    DECODE("DecodeGif", DECODE_GIF),
    DECODE("DecodeImage", DECODE_IMAGE),
    DECODE("DecodeJpeg", DECODE_JPEG),
    DECODE("DecodePng", DECODE_PNG),
    {.op = "ExtractJpegShape", .type_attr = "output_type", .types = WEFT_SET_INDEX, WEFT_COMPUTE(jpeg_shape)},
    {0},
};
