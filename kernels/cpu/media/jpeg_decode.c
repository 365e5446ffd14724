/* kernels/cpu/media/jpeg_decode.c - JPEG files to pixels.
 *
 * libjpeg reports errors with longjmp. All that is to be freed is in reading_t, in the frame below setjmp's.
 * Which damaged files are read, and how far, follows TensorFlow's DecodeJpeg: its source of bytes suspends
 * where the data ends in the middle of a unit, and ends the decoding where it ends behind one.
 */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/alloc.h"
#include "kernels/cpu/media/jpeg.h"

enum {
  MAX_SAMPLES = 1 << 29, /* of an image; TensorFlow's limit */
  MAX_SCANS = 1000,      /* of a progressive file: more are there to cost time */
  MAX_REFILLS = 1 << 17, /* from one position; a marker's segment has 2^16 bytes */
};
static const long max_memory = 1L << 32; /* of the library: coefficients of a progressive file */

typedef struct jpeg_reading {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  jmp_buf leave;
  weft_str_t bytes;
  const weft_jpeg_reading_t *how;
  weft_picture_sink_t *sink;
  weft_status_t *status; /* of the sink; owned */
  int64_t refills;       /* in vain */
  int64_t size[3];       /* height, width, channels that are wanted */
  int64_t skipped;       /* rows above the window */
  int64_t rows_read;
  uint8_t *pixels;
  /* A row as the library gives it, one byte behind `room`, which is owned: to memory that is aligned it
   * writes around the caches, where whatever looks at the picture next would wait for it. */
  uint8_t *line, *room;
} reading_t;

/* ---- the library's errors, bytes and progress ---- */

static void stop(j_common_ptr jpeg) { longjmp(((reading_t *)jpeg->client_data)->leave, 1); }
static void say_nothing(j_common_ptr jpeg) { (void)jpeg; }
static void count_warning(j_common_ptr jpeg, int level) {
  if (level < 0) jpeg->err->num_warnings++;
}

static void limit_scans(j_common_ptr jpeg) {
  if (((j_decompress_ptr)jpeg)->input_scan_number > MAX_SCANS) stop(jpeg);
}

static void begin_source(j_decompress_ptr jpeg) {
  const reading_t *r = jpeg->client_data;
  jpeg->src->next_input_byte = (const JOCTET *)r->bytes.data;
  jpeg->src->bytes_in_buffer = r->bytes.length;
}
static void end_source(j_decompress_ptr jpeg) { (void)jpeg; }

/* The library wants more bytes than there are. It counts from a position of its own: if `bytes_in_buffer` is
 * not 0, it is in the middle of something, and either suspends or reads the rest again. */
static boolean refill(j_decompress_ptr jpeg) {
  static const JOCTET end_of_image[2] = {0xff, JPEG_EOI};
  reading_t *r = jpeg->client_data;
  struct jpeg_source_mgr *source = jpeg->src;
  if (source->bytes_in_buffer > 0) {
    int64_t most = MAX_REFILLS + (int64_t)jpeg->image_width * jpeg->image_height;
    if (r->how->recover && ++r->refills > most) stop((j_common_ptr)jpeg);
    return r->how->recover ? TRUE : FALSE;
  }
  bool is_empty = source->next_input_byte == (const JOCTET *)r->bytes.data;
  if (is_empty || !r->how->recover || source->next_input_byte == end_of_image) stop((j_common_ptr)jpeg);
  jpeg->err->num_warnings++;
  source->next_input_byte = end_of_image;
  source->bytes_in_buffer = sizeof end_of_image;
  return TRUE;
}

static void skip(j_decompress_ptr jpeg, long n) {
  if (n < 0) return;
  if ((size_t)n > jpeg->src->bytes_in_buffer) {
    jpeg->src->bytes_in_buffer = 0;
    (void)refill(jpeg);
    return;
  }
  jpeg->src->bytes_in_buffer -= (size_t)n;
  jpeg->src->next_input_byte += n;
}

static void read_header(reading_t *r) {
  jpeg_create_decompress(&r->jpeg);
  r->jpeg.mem->max_memory_to_use = max_memory;
  r->progress.progress_monitor = limit_scans;
  r->jpeg.progress = &r->progress;
  r->source.init_source = begin_source;
  r->source.fill_input_buffer = refill;
  r->source.skip_input_data = skip;
  r->source.resync_to_restart = jpeg_resync_to_restart;
  r->source.term_source = end_source;
  r->jpeg.src = &r->source;
  jpeg_read_header(&r->jpeg, TRUE);
}

/* Calls `body` and comes back even if the library leaves it by longjmp. False: the file cannot be read. */
static bool read_guarded(reading_t *r, bool (*body)(reading_t *r)) {
  r->jpeg.err = jpeg_std_error(&r->errors);
  r->errors.error_exit = stop;
  r->errors.output_message = say_nothing;
  r->errors.emit_message = count_warning;
  r->jpeg.client_data = r;
  if (setjmp(r->leave) != 0) return false;
  return body(r);
}

/* ---- the image ---- */

/* What the library is to make of the file. False: not these channels, or too large. */
static bool choose(reading_t *r) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  int channels = r->how->channels != 0      ? r->how->channels
                 : jpeg->num_components < 3 ? jpeg->num_components
                                            : 3;
  bool is_cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  if (channels != 1 && channels != 3) return false;
  jpeg->out_color_space = channels == 1 ? JCS_GRAYSCALE : is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg->do_fancy_upsampling = r->how->fancy_upscaling ? TRUE : FALSE;
  jpeg->scale_num = 1;
  jpeg->scale_denom = (unsigned)r->how->ratio;
  jpeg->dct_method = r->how->is_accurate ? JDCT_ISLOW : JDCT_IFAST;
  jpeg_calc_output_dimensions(jpeg);
  int64_t samples = (int64_t)jpeg->output_height * jpeg->output_width * jpeg->num_components;
  r->size[2] = channels;
  return samples > 0 && samples < MAX_SAMPLES;
}

/* Brings the library to the first row of the window. It widens the window to the left, to where a unit
 * begins. */
static bool begin_window(reading_t *r) {
  const weft_jpeg_reading_t *how = r->how;
  int64_t height = r->jpeg.output_height, width = r->jpeg.output_width;
  if (how->crop_height <= 0 || how->crop_width <= 0 || how->crop_y < 0 || how->crop_x < 0) return false;
  if (how->crop_y + how->crop_height > height || how->crop_x + how->crop_width > width) return false;
  JDIMENSION x = (JDIMENSION)how->crop_x, n = (JDIMENSION)how->crop_width;
  jpeg_crop_scanline(&r->jpeg, &x, &n);
  r->skipped = jpeg_skip_scanlines(&r->jpeg, (JDIMENSION)how->crop_y);
  r->size[0] = how->crop_height;
  r->size[1] = how->crop_width;
  return r->skipped == how->crop_y;
}

static void cmyk_to_rgb(const uint8_t *cmyk, int64_t n, bool is_inverted, uint8_t *rgb) {
  for (int64_t i = 0; i < n; i++) {
    int k = is_inverted ? cmyk[4 * i + 3] : 255 - cmyk[4 * i + 3];
    for (int c = 0; c < 3; c++) {
      int ink = is_inverted ? cmyk[4 * i + c] : 255 - cmyk[4 * i + c];
      rgb[3 * i + c] = (uint8_t)(k * ink / 255);
    }
  }
}

/* The next row; false: there is none. */
static bool read_row(reading_t *r, uint8_t *out) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  JSAMPROW row = r->line;
  if (jpeg_read_scanlines(jpeg, &row, 1) == 0) return false;
  const uint8_t *first = r->line + ((int64_t)jpeg->output_width - r->size[1]) * jpeg->output_components;
  if (jpeg->out_color_space == JCS_CMYK) {
    cmyk_to_rgb(first, r->size[1], jpeg->saw_Adobe_marker, out);
  } else {
    memcpy(out, first, (size_t)(r->size[1] * r->size[2]));
  }
  return true;
}

static void read_rows(reading_t *r) {
  int64_t stride = r->size[1] * r->size[2], y = 0;
  while (y < r->size[0] && read_row(r, r->pixels + y * stride)) y++;
  r->rows_read = y;
  if (y == r->size[0] || !r->how->recover) return;
  for (; y < r->size[0]; y++) {
    uint8_t *row = r->pixels + y * stride;
    if (y == 0) memset(row, 0, (size_t)stride);
    if (y > 0) memcpy(row, row - stride, (size_t)stride);
  }
  r->rows_read = r->size[0];
  r->jpeg.output_scanline =
      (JDIMENSION)(r->skipped + r->size[0]); /* the library wants to see all rows read */
}

static bool read_image(reading_t *r) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  void *pixels = NULL;
  read_header(r);
  if (!choose(r)) return false;
  jpeg_start_decompress(jpeg);
  r->size[0] = jpeg->output_height;
  r->size[1] = jpeg->output_width;
  if (r->how->crop && !begin_window(r)) return false;
  bool is_cmyk = jpeg->out_color_space == JCS_CMYK;
  if (jpeg->output_components != (is_cmyk ? 4 : r->size[2])) return false;
  r->room = weft_malloc((size_t)jpeg->output_width * (size_t)jpeg->output_components + 1);
  if (r->room == NULL) {
    r->status = WEFT_NO_MEMORY("reading a row of a JPEG image");
    return false;
  }
  r->line = r->room + 1;
  r->status = r->sink->make(r->sink, 1, r->size[0], r->size[1], r->size[2], &pixels);
  if (r->status != NULL) return false;
  r->pixels = pixels;
  read_rows(r);
  if (r->how->crop && jpeg->output_scanline < jpeg->output_height) {
    jpeg_skip_scanlines(jpeg, jpeg->output_height - (JDIMENSION)(r->how->crop_y + r->how->crop_height));
  }
  if (r->rows_read == r->size[0]) jpeg_finish_decompress(jpeg);
  return true;
}

weft_status_t *weft_jpeg_decode(weft_str_t bytes, const weft_jpeg_reading_t *how, weft_picture_sink_t *sink) {
  reading_t r = {.bytes = bytes, .how = how, .sink = sink};
  bool is_good = bytes.length > 0 && read_guarded(&r, read_image);
  jpeg_destroy_decompress(&r.jpeg);
  weft_free(r.room);
  if (r.status != NULL) return r.status;
  float least = how->acceptable_fraction < 1 ? how->acceptable_fraction : 1;
  if (!is_good || (float)r.rows_read / (float)r.size[0] < least) {
    return WEFT_ERROR(INVALID_ARGUMENT, "jpeg::Uncompress failed. Invalid JPEG data or crop window.");
  }
  int64_t stride = r.size[1] * r.size[2];
  memset(r.pixels + r.rows_read * stride, 0, (size_t)((r.size[0] - r.rows_read) * stride));
  return NULL;
}

static bool read_size(reading_t *r) {
  read_header(r);
  jpeg_start_decompress(&r->jpeg); /* reads a progressive file to its end, and fails if it cannot */
  r->size[0] = r->jpeg.output_height;
  r->size[1] = r->jpeg.output_width;
  r->size[2] = r->jpeg.output_components;
  return true;
}

weft_status_t *weft_jpeg_size(weft_str_t bytes, int64_t out[3]) {
  static const weft_jpeg_reading_t plain = {.ratio = 1};
  reading_t r = {.bytes = bytes, .how = &plain};
  bool is_good = bytes.length > 0 && read_guarded(&r, read_size);
  jpeg_destroy_decompress(&r.jpeg);
  if (!is_good) return WEFT_ERROR(INVALID_ARGUMENT, "Invalid JPEG data, size %zu", bytes.length);
  memcpy(out, r.size, sizeof r.size);
  return NULL;
}
