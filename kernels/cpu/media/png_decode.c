/* kernels/cpu/media/png_decode.c - PNG files to pixels. libpng's errors come back by longjmp; all that is to
 * be freed is in reading_t, in the frame below setjmp's. The conversions are those of TensorFlow's DecodePng.
 */
#include <png.h>
#include <setjmp.h>

#include "kernels/cpu/media/png.h"

enum { MAX_SIDE = 1 << 27, MAX_PIXELS = 1 << 29 };

typedef struct png_reading {
  jmp_buf leave;
  png_structp png;
  png_infop info;
  weft_str_t rest; /* of the file */
  int channels, bits;
  bool widen; /* samples of 8 bits are to become 16 */
  int passes;
  int64_t height, width;
  uint8_t *pixels;
} reading_t;

static void stop(png_structp png, png_const_charp why) {
  (void)why;
  longjmp(((reading_t *)png_get_error_ptr(png))->leave, 1);
}
static void ignore(png_structp png, png_const_charp why) {
  (void)png;
  (void)why;
}

static void take(png_structp png, png_bytep out, size_t n) {
  reading_t *r = png_get_io_ptr(png);
  if (n > r->rest.length) png_error(png, "the file ends too early");
  memcpy(out, r->rest.data, n);
  r->rest = weft_str_of(r->rest.data + n, r->rest.length - n);
}

/* Asks for alpha or for none. */
static void choose_alpha(reading_t *r, int color, int depth) {
  bool has_alpha = (color & PNG_COLOR_MASK_ALPHA) != 0;
  bool has_transparent = png_get_valid(r->png, r->info, PNG_INFO_tRNS) != 0;
  if (r->channels % 2 != 0) {
    if (has_alpha || has_transparent) png_set_strip_alpha(r->png);
  } else if (has_transparent && !has_alpha) {
    png_set_tRNS_to_alpha(r->png);
  } else if (!has_alpha) {
    png_set_add_alpha(r->png, (1u << depth) - 1, PNG_FILLER_AFTER);
  }
}

/* Asks for gray or for colour. Their weights are those of ITU-R BT.601. */
static void choose_color(reading_t *r, int color, int depth) {
  bool wants_gray = r->channels < 3, is_gray = (color & PNG_COLOR_MASK_COLOR) == 0;
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r->png);
  if (is_gray && depth < 8) png_set_expand_gray_1_2_4_to_8(r->png);
  if (wants_gray && !is_gray) png_set_rgb_to_gray(r->png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  if (!wants_gray && is_gray) png_set_gray_to_rgb(r->png);
}

static bool read_header(reading_t *r) {
  int depth = 0, color = 0;
  png_uint_32 width = 0, height = 0;
  r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, stop, ignore);
  r->info = r->png == NULL ? NULL : png_create_info_struct(r->png);
  if (r->info == NULL) return false;
  png_set_read_fn(r->png, r, take);
  png_read_info(r->png, r->info);
  png_get_IHDR(r->png, r->info, &width, &height, &depth, &color, NULL, NULL, NULL);
  if (width == 0 || height == 0) return false;
  r->width = width;
  r->height = height;
  if (r->channels == 0) {
    bool has_transparent = png_get_valid(r->png, r->info, PNG_INFO_tRNS) != 0;
    r->channels = color != PNG_COLOR_TYPE_PALETTE ? png_get_channels(r->png, r->info)
                  : has_transparent               ? 4
                                                  : 3;
  }
  choose_alpha(r, color, depth);
  if (depth == 16 && r->bits == 8) png_set_strip_16(r->png);
  r->widen = depth <= 8 && r->bits == 16;
  png_set_packing(r->png);
  r->passes = png_set_interlace_handling(r->png);
  if (r->bits == 16) png_set_swap(r->png);
  choose_color(r, color, depth);
  png_read_update_info(r->png, r->info);
  return true;
}

static bool read_rows(reading_t *r) {
  size_t stride = (size_t)(r->width * r->channels * (r->bits / 8));
  if (png_get_rowbytes(r->png, r->info) != (r->widen ? stride / 2 : stride)) return false;
  for (int pass = 0; pass < r->passes; pass++) {
    for (int64_t y = 0; y < r->height; y++) png_read_row(r->png, r->pixels + (size_t)y * stride, NULL);
  }
  png_read_end(r->png, r->info);
  return true;
}

static bool read_guarded(reading_t *r, bool (*body)(reading_t *r)) {
  if (setjmp(r->leave) != 0) return false;
  return body(r);
}

/* Rows of n samples of 8 bits, each in the front half of its row's memory, to 16 bits. */
static void widen_rows(uint8_t *pixels, int64_t rows, int64_t n) {
  for (int64_t y = 0; y < rows; y++) {
    uint8_t *row = pixels + y * n * 2;
    for (int64_t i = n - 1; i >= 0; i--) {
      row[2 * i + 1] = row[i];
      row[2 * i] = row[2 * i + 1];
    }
  }
}

static weft_status_t *decode(reading_t *r, size_t size, weft_picture_sink_t *sink) {
  void *pixels = NULL;
  if (!read_guarded(r, read_header)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid PNG. Failed to initialize decoder.");
  }
  if (r->width >= MAX_SIDE || r->height >= MAX_SIDE || r->width * r->height >= MAX_PIXELS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "PNG size too large for int: %lld by %lld", (long long)r->width,
                      (long long)r->height);
  }
  WEFT_RETURN_IF_ERROR(sink->make(sink, 1, r->height, r->width, r->channels, &pixels));
  r->pixels = pixels;
  if (!read_guarded(r, read_rows)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid PNG data, size %zu", size);
  }
  if (r->widen) widen_rows(r->pixels, r->height, r->width * r->channels);
  return NULL;
}

weft_status_t *weft_png_decode(weft_str_t bytes, int channels, int bits, weft_picture_sink_t *sink) {
  reading_t r = {.rest = bytes, .channels = channels, .bits = bits};
  weft_status_t *s = decode(&r, bytes.length, sink);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return s;
}
