/* kernels/cpu/summary/png.c - PNG by libpng.
 *
 * libpng reports errors with longjmp. Nothing of ours is on the stack between
 * setjmp and its calls that would have to be freed.
 */
#include "kernels/cpu/summary/png.h"

#include <inttypes.h>
#include <png.h>

static void append(png_structp png, png_bytep data, size_t n) {
  weft_strbuf_append(png_get_io_ptr(png), weft_str_of((const char *)data, n));
}

static void flush(png_structp png) { (void)png; }
static void fail(png_structp png, png_const_charp why) {
  (void)why;
  png_longjmp(png, 1);
}
static void ignore(png_structp png, png_const_charp why) {
  (void)png;
  (void)why;
}

weft_status_t *weft_png_encode(const uint8_t *pixels, int64_t height, int64_t width, int depth,
                               weft_strbuf_t *out) {
  static const int colors[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                               PNG_COLOR_TYPE_RGB_ALPHA};
  if (height < 1 || width < 1 || height > 1000000 || width > 1000000 || depth < 1 || depth > 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "an image of %" PRId64 " x %" PRId64 " x %d cannot be written as PNG",
                      height, width, depth);
  }
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, fail, ignore);
  png_infop info = png == NULL ? NULL : png_create_info_struct(png);
  if (info == NULL || setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_write_struct(&png, &info);
    return WEFT_NO_MEMORY("writing a PNG image");
  }
  png_set_write_fn(png, out, append, flush);
  png_set_compression_mem_level(png, 9); /* the most that zlib takes; TensorFlow's files have it */
  png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, colors[depth], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int64_t y = 0; y < height; y++)
    png_write_row(png, (png_bytep)(pixels + (size_t)(y * width) * (size_t)depth));
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  return out->failed ? WEFT_NO_MEMORY("writing a PNG image") : NULL;
}
