/* kernels/cpu/media/png_encode.c - pixels to PNG files. libpng's errors come back by longjmp; all that is to
 * be freed is in writing_t, in the frame below setjmp's. */
#include <inttypes.h>
#include <png.h>
#include <setjmp.h>

#include "kernels/cpu/media/png.h"

typedef struct png_writing {
  jmp_buf leave;
  png_structp png;
  png_infop info;
  const uint8_t *pixels;
  int64_t height, width;
  int depth, bits, compression;
  weft_strbuf_t *out;
} writing_t;

static void append(png_structp png, png_bytep data, size_t n) {
  weft_strbuf_append(png_get_io_ptr(png), weft_str_of((const char *)data, n));
}

static void flush(png_structp png) { (void)png; }
static void stop(png_structp png, png_const_charp why) {
  (void)why;
  longjmp(((writing_t *)png_get_error_ptr(png))->leave, 1);
}
static void ignore(png_structp png, png_const_charp why) {
  (void)png;
  (void)why;
}

static bool write_image(writing_t *w) {
  static const int colors[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                               PNG_COLOR_TYPE_RGB_ALPHA};
  enum { MOST_MEMORY = 9 }; /* that zlib takes; TensorFlow's files have it */
  int64_t stride = w->width * w->depth * (w->bits / 8);
  w->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, w, stop, ignore);
  w->info = w->png == NULL ? NULL : png_create_info_struct(w->png);
  if (w->info == NULL) return false;
  png_set_write_fn(w->png, w->out, append, flush);
  png_set_compression_level(w->png, w->compression);
  png_set_compression_mem_level(w->png, MOST_MEMORY);
  png_set_IHDR(w->png, w->info, (png_uint_32)w->width, (png_uint_32)w->height, w->bits, colors[w->depth],
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(w->png, w->info);
  if (w->bits == 16) png_set_swap(w->png); /* in the file the high byte is the first */
  for (int64_t y = 0; y < w->height; y++) png_write_row(w->png, w->pixels + y * stride);
  png_write_end(w->png, NULL);
  return true;
}

static bool write_guarded(writing_t *w) {
  if (setjmp(w->leave) != 0) return false;
  return write_image(w);
}

weft_status_t *weft_png_encode(const void *pixels, int64_t height, int64_t width, int depth, int bits,
                               int compression, weft_strbuf_t *out) {
  enum { MOST = 1000000 }; /* rows or columns that libpng takes */
  if (height < 1 || width < 1 || height > MOST || width > MOST || depth < 1 || depth > 4) {
    return WEFT_ERROR(INTERNAL, "PNG encoding failed for an image of %" PRId64 " x %" PRId64 " x %d", height,
                      width, depth);
  }
  size_t begin = out->length;
  writing_t w = {.pixels = pixels,
                 .height = height,
                 .width = width,
                 .depth = depth,
                 .bits = bits,
                 .compression = compression,
                 .out = out};
  bool is_good = write_guarded(&w);
  png_destroy_write_struct(&w.png, &w.info);
  if (is_good && !out->failed) return NULL;
  out->length = begin;
  return WEFT_NO_MEMORY("writing a PNG image");
}
