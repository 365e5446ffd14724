/* kernels/cpu/media/jpeg_encode.c - pixels to JPEG files. All that is to be freed is in writing_t, in the
 * frame below setjmp's, which libjpeg's errors come back to. */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "base/alloc.h"
#include "kernels/cpu/media/jpeg.h"

enum { MAX_PIXELS = 1 << 29, CHUNK = 16384 };

typedef struct jpeg_writing {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_destination_mgr destination;
  jmp_buf leave;
  const weft_jpeg_writing_t *how;
  const uint8_t *pixels;
  int64_t height, width;
  int channels;
  weft_strbuf_t *out;
  weft_strbuf_t xmp;
  JOCTET chunk[CHUNK];
} writing_t;

static void stop(j_common_ptr jpeg) { longjmp(((writing_t *)jpeg->client_data)->leave, 1); }
static void say_nothing(j_common_ptr jpeg) { (void)jpeg; }
static void ignore(j_common_ptr jpeg, int level) {
  (void)jpeg;
  (void)level;
}

static void begin_chunk(j_compress_ptr jpeg) {
  writing_t *w = jpeg->client_data;
  jpeg->dest->next_output_byte = w->chunk;
  jpeg->dest->free_in_buffer = CHUNK;
}

static boolean end_chunk(j_compress_ptr jpeg) {
  writing_t *w = jpeg->client_data;
  weft_strbuf_append(w->out, weft_str_of((const char *)w->chunk, CHUNK));
  begin_chunk(jpeg);
  return TRUE;
}

static void end_file(j_compress_ptr jpeg) {
  writing_t *w = jpeg->client_data;
  weft_strbuf_append(w->out, weft_str_of((const char *)w->chunk, CHUNK - jpeg->dest->free_in_buffer));
}

static void set_up(writing_t *w) {
  struct jpeg_compress_struct *jpeg = &w->jpeg;
  const weft_jpeg_writing_t *how = w->how;
  jpeg_create_compress(jpeg);
  w->destination.init_destination = begin_chunk;
  w->destination.empty_output_buffer = end_chunk;
  w->destination.term_destination = end_file;
  jpeg->dest = &w->destination;
  jpeg->image_width = (JDIMENSION)w->width;
  jpeg->image_height = (JDIMENSION)w->height;
  jpeg->input_components = w->channels;
  jpeg->in_color_space = w->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(jpeg);
  if (how->optimize_size) jpeg->optimize_coding = TRUE;
  jpeg->density_unit = (UINT8)how->density_unit;
  jpeg->X_density = (UINT16)how->x_density;
  jpeg->Y_density = (UINT16)how->y_density;
  jpeg_set_quality(jpeg, how->quality, TRUE);
  if (how->progressive) jpeg_simple_progression(jpeg);
  for (int i = 0; !how->chroma_downsampling && i < jpeg->num_components; i++) {
    jpeg->comp_info[i].h_samp_factor = 1;
    jpeg->comp_info[i].v_samp_factor = 1;
  }
}

static bool write_image(writing_t *w) {
  set_up(w);
  jpeg_start_compress(&w->jpeg, TRUE);
  if (w->xmp.length > 0) {
    jpeg_write_marker(&w->jpeg, JPEG_APP0 + 1, (const JOCTET *)w->xmp.data, (unsigned)w->xmp.length);
  }
  while (w->jpeg.next_scanline < w->jpeg.image_height) {
    JSAMPROW row = (JSAMPROW)(uintptr_t)(w->pixels + w->jpeg.next_scanline * w->width * w->channels);
    jpeg_write_scanlines(&w->jpeg, &row, 1);
  }
  jpeg_finish_compress(&w->jpeg);
  return true;
}

/* Calls write_image() and comes back even if the library leaves it by longjmp. */
static bool write_guarded(writing_t *w) {
  w->jpeg.err = jpeg_std_error(&w->errors);
  w->errors.error_exit = stop;
  w->errors.output_message = say_nothing;
  w->errors.emit_message = ignore;
  w->jpeg.client_data = w;
  if (setjmp(w->leave) != 0) return false;
  return write_image(w);
}

weft_status_t *weft_jpeg_encode(const uint8_t *pixels, int64_t height, int64_t width, int channels,
                                const weft_jpeg_writing_t *how, weft_strbuf_t *out) {
  static const char xmp_name[] = "http://ns.adobe.com/xap/1.0/"; /* goes with its '\0' */
  enum { MAX_SEGMENT = 65533 };
  size_t begin = out->length;
  if (height <= 0 || width <= 0 || height > JPEG_MAX_DIMENSION || width > JPEG_MAX_DIMENSION ||
      height * width >= MAX_PIXELS || how->xmp.length > MAX_SEGMENT - sizeof xmp_name) {
    return WEFT_ERROR(INTERNAL, "JPEG encoding failed");
  }
  writing_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("writing a JPEG image");
  w->how = how;
  w->pixels = pixels;
  w->height = height;
  w->width = width;
  w->channels = channels;
  w->out = out;
  if (how->xmp.length > 0) {
    weft_strbuf_append(&w->xmp, weft_str_of(xmp_name, sizeof xmp_name));
    weft_strbuf_append(&w->xmp, how->xmp);
  }
  bool has_memory = !w->xmp.failed, is_good = has_memory && write_guarded(w);
  if (has_memory) jpeg_destroy_compress(&w->jpeg);
  weft_strbuf_deinit(&w->xmp);
  weft_free(w);
  if (is_good && !out->failed) return NULL;
  out->length = begin;
  return has_memory && !out->failed ? WEFT_ERROR(INTERNAL, "JPEG encoding failed")
                                    : WEFT_NO_MEMORY("writing a JPEG image");
}
