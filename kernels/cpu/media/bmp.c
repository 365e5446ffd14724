/* kernels/cpu/media/bmp.c - BMP files to pixels. What is checked, and in which order, is as in TensorFlow's
 * DecodeBmp. */
#include "kernels/cpu/media/bmp.h"

enum { HEADER = 32, AT_PIXELS = 10, AT_WIDTH = 18, AT_HEIGHT = 22, AT_BITS = 28, OPAQUE = 255 };

static int32_t i32_at(weft_str_t bytes, size_t at) {
  const uint8_t *b = (const uint8_t *)bytes.data + at;
  return (int32_t)((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
}

static int16_t i16_at(weft_str_t bytes, size_t at) {
  const uint8_t *b = (const uint8_t *)bytes.data + at;
  return (int16_t)(uint16_t)(b[0] | b[1] << 8);
}

/* n pixels: gray, BGR or BGRA to gray, RGB or RGBA. */
static void convert(const uint8_t *in, int in_channels, int64_t n, int channels, uint8_t *out) {
  for (int64_t i = 0; i < n; i++, in += in_channels, out += channels) {
    bool is_gray = in_channels == 1;
    out[0] = is_gray ? in[0] : in[2];
    if (channels == 1) continue;
    out[1] = is_gray ? in[0] : in[1];
    out[2] = in[0];
    if (channels == 4) out[3] = in_channels == 4 ? in[3] : OPAQUE;
  }
}

weft_status_t *weft_bmp_decode(weft_str_t bytes, int channels, weft_picture_sink_t *sink) {
  if (bytes.length < HEADER) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Incomplete bmp content, requires at least 32 bytes to find the header size, width, height, and "
        "bpp, got %zu bytes",
        bytes.length);
  }
  int64_t begin = i32_at(bytes, AT_PIXELS), width = i32_at(bytes, AT_WIDTH),
          height = i32_at(bytes, AT_HEIGHT);
  bool is_top_down = height < 0;
  int file_channels = i16_at(bytes, AT_BITS) / 8;
  if (file_channels != 1 && file_channels != 3 && file_channels != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of channels inherent in the image must be 1, 3 or 4, was %d",
                      file_channels);
  }
  if (width <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Width must be positive");
  if (height == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Height must be nonzero");
  if (begin < 0) return WEFT_ERROR(INVALID_ARGUMENT, "header size must be nonnegative");
  height = is_top_down ? -height : height;
  if (width * height >= INT32_MAX / 8) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Total possible pixel bytes must be less than 2^30");
  }
  int64_t stride = (file_channels * width + 3) / 4 * 4,
          excess = (int64_t)bytes.length - begin - stride * height;
  if (excess != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input size should match (header_size + row_size * abs_height) but they differ by %lld",
                      (long long)excess);
  }
  void *pixels = NULL;
  int out_channels = channels == 0 ? file_channels : channels;
  WEFT_RETURN_IF_ERROR(sink->make(sink, 1, height, width, out_channels, &pixels));
  for (int64_t y = 0; y < height; y++) {
    const uint8_t *row = (const uint8_t *)bytes.data + begin + (is_top_down ? y : height - 1 - y) * stride;
    convert(row, file_channels, width, out_channels, (uint8_t *)pixels + y * width * out_channels);
  }
  return NULL;
}
