/* kernels/cpu/media/gif.c - GIF files to pixels.
 *
 * giflib reads records and undoes the compression. Its own loop over all records (DGifSlurp) allocates a
 * frame by what its header says; this one, which is like it, first asks whether the bytes that are left can
 * hold so many pixels.
 */
#include "kernels/cpu/media/gif.h"

#include <gif_lib.h>

#include "base/alloc.h"

enum {
  CHANNELS = 3,
  PIXELS_PER_BYTE = 8 * 4096, /* at most: a code has a bit or more, and stands for less than 4096 pixels */
};

typedef struct gif_frame {
  GifImageDesc place; /* its colours belong to the file */
  int transparent;    /* the colour that is none; NO_TRANSPARENT_COLOR */
  uint8_t *pixels;    /* owned; numbers of colours */
} frame_t;

typedef struct gif_reading {
  weft_str_t rest; /* of the file */
  GifFileType *gif;
  frame_t *frames; /* owned */
  size_t num, capacity;
  int transparent; /* what the extensions in front of the next frame say */
  bool has_control;
} reading_t;

static int take(GifFileType *gif, GifByteType *out, int n) {
  reading_t *r = gif->UserData;
  size_t size = (size_t)n < r->rest.length ? (size_t)n : r->rest.length;
  memcpy(out, r->rest.data, size);
  r->rest = weft_str_of(r->rest.data + size, r->rest.length - size);
  return (int)size;
}

static weft_status_t *broken(const reading_t *r) {
  const char *why = GifErrorString(r->gif->Error);
  return WEFT_ERROR(INVALID_ARGUMENT, "failed to slurp gif file: %s", why == NULL ? "Unknown error" : why);
}

/* ---- records ---- */

static weft_status_t *read_extension(reading_t *r) {
  int code = 0;
  GifByteType *data = NULL;
  if (DGifGetExtension(r->gif, &code, &data) == GIF_ERROR) return broken(r);
  if (data != NULL && code == GRAPHICS_EXT_FUNC_CODE &&
      !r->has_control) { /* the first is the one that counts */
    GraphicsControlBlock control = {.TransparentColor = NO_TRANSPARENT_COLOR};
    if (DGifExtensionToGCB(data[0], data + 1, &control) == GIF_OK) r->transparent = control.TransparentColor;
    r->has_control = true;
  }
  while (data != NULL) {
    if (DGifGetExtensionNext(r->gif, &data) == GIF_ERROR) return broken(r);
  }
  return NULL;
}

/* Numbers of colours, rows in their order. False: the data end or are wrong. */
static bool read_pixels(GifFileType *gif, frame_t *f) {
  static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  int width = f->place.Width, height = f->place.Height;
  if (!f->place.Interlace) return DGifGetLine(gif, f->pixels, width * height) == GIF_OK;
  for (int pass = 0; pass < 4; pass++) {
    for (int y = first[pass]; y < height; y += step[pass]) {
      if (DGifGetLine(gif, f->pixels + (size_t)y * (size_t)width, width) == GIF_ERROR) return false;
    }
  }
  return true;
}

static weft_status_t *add_frame(reading_t *r, frame_t **out) {
  if (r->num == r->capacity) {
    size_t capacity = r->capacity == 0 ? 4 : 2 * r->capacity;
    frame_t *grown = weft_realloc(r->frames, capacity, sizeof *grown);
    if (grown == NULL) return WEFT_NO_MEMORY("reading a GIF image");
    r->frames = grown;
    r->capacity = capacity;
  }
  *out = &r->frames[r->num++];
  **out = (frame_t){.place = r->gif->SavedImages[r->gif->ImageCount - 1].ImageDesc,
                    .transparent = NO_TRANSPARENT_COLOR};
  return NULL;
}

static weft_status_t *read_frame(reading_t *r) {
  frame_t *f = NULL;
  if (DGifGetImageDesc(r->gif) == GIF_ERROR) return broken(r);
  WEFT_RETURN_IF_ERROR(add_frame(r, &f));
  int64_t pixels = (int64_t)f->place.Width * f->place.Height;
  if (pixels <= 0 || pixels > INT32_MAX || pixels / PIXELS_PER_BYTE > (int64_t)r->rest.length)
    return broken(r);
  f->pixels = weft_calloc((size_t)pixels, 1);
  if (f->pixels == NULL) return WEFT_NO_MEMORY("reading a GIF image");
  if (!read_pixels(r->gif, f)) return broken(r);
  f->transparent = r->transparent;
  r->transparent = NO_TRANSPARENT_COLOR;
  r->has_control = false;
  return NULL;
}

static weft_status_t *read_records(reading_t *r) {
  GifRecordType type = UNDEFINED_RECORD_TYPE;
  while (type != TERMINATE_RECORD_TYPE) {
    if (DGifGetRecordType(r->gif, &type) == GIF_ERROR) return broken(r);
    if (type == IMAGE_DESC_RECORD_TYPE) WEFT_RETURN_IF_ERROR(read_frame(r));
    if (type == EXTENSION_RECORD_TYPE) WEFT_RETURN_IF_ERROR(read_extension(r));
  }
  return r->num > 0 ? NULL
                    : WEFT_ERROR(INVALID_ARGUMENT, "failed to slurp gif file: No image descriptor detected");
}

/* Is what was read in front of the damage enough? As TensorFlow has it: some frame, and the last has pixels.
 */
static bool is_bearable(const reading_t *r) {
  return r->num > 0 && r->frames[r->num - 1].pixels != NULL && r->gif->Error != D_GIF_ERR_EOF_TOO_SOON;
}

/* ---- pixels ---- */

static weft_status_t *paint(const reading_t *r, size_t k, int64_t height, int64_t width, uint8_t *canvas) {
  const frame_t *f = &r->frames[k];
  const GifImageDesc *at = &f->place;
  const ColorMapObject *colors = at->ColorMap != NULL ? at->ColorMap : r->gif->SColorMap;
  if (colors == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "missing color map for frame %zu", k);
  int64_t bottom = at->Top + at->Height < height ? at->Top + at->Height : height;
  int64_t right = at->Left + at->Width < width ? at->Left + at->Width : width;
  for (int64_t y = at->Top; y < bottom; y++) {
    for (int64_t x = at->Left; x < right; x++) {
      int color = f->pixels[(y - at->Top) * at->Width + x - at->Left];
      if (color == f->transparent) continue;
      if (color >= colors->ColorCount) {
        return WEFT_ERROR(INVALID_ARGUMENT, "found color index %d outside of color map range %d", color,
                          colors->ColorCount);
      }
      uint8_t *out = canvas + (y * width + x) * CHANNELS;
      out[0] = colors->Colors[color].Red;
      out[1] = colors->Colors[color].Green;
      out[2] = colors->Colors[color].Blue;
    }
  }
  return NULL;
}

static weft_status_t *paint_all(const reading_t *r, bool all_frames, weft_picture_sink_t *sink) {
  int64_t height = 0, width = 0;
  size_t num = all_frames ? r->num : 1;
  void *pixels = NULL;
  for (size_t k = 0; k < r->num; k++) {
    height = r->frames[k].place.Height > height ? r->frames[k].place.Height : height;
    width = r->frames[k].place.Width > width ? r->frames[k].place.Width : width;
  }
  WEFT_RETURN_IF_ERROR(sink->make(sink, (int64_t)num, height, width, CHANNELS, &pixels));
  size_t size = (size_t)(height * width * CHANNELS);
  for (size_t k = 0; k < num; k++) {
    uint8_t *canvas = (uint8_t *)pixels + k * size;
    if (k == 0) memset(canvas, 0, size);
    if (k > 0) memcpy(canvas, canvas - size, size);
    WEFT_RETURN_IF_ERROR(paint(r, k, height, width, canvas));
  }
  return NULL;
}

static weft_status_t *decode(reading_t *r, bool all_frames, weft_picture_sink_t *sink) {
  int error = D_GIF_SUCCEEDED;
  r->gif = DGifOpen(r, take, &error);
  if (r->gif == NULL) {
    const char *why = GifErrorString(error);
    return WEFT_ERROR(INVALID_ARGUMENT, "failed to open gif file: %s", why == NULL ? "Unknown error" : why);
  }
  weft_status_t *s = read_records(r);
  if (s != NULL && weft_status_code(s) == WEFT_INVALID_ARGUMENT && is_bearable(r)) {
    weft_status_free(s);
    s = NULL;
  }
  return s != NULL ? s : paint_all(r, all_frames, sink);
}

weft_status_t *weft_gif_decode(weft_str_t bytes, bool all_frames, weft_picture_sink_t *sink) {
  reading_t r = {.rest = bytes, .transparent = NO_TRANSPARENT_COLOR};
  int error = D_GIF_SUCCEEDED;
  weft_status_t *s = decode(&r, all_frames, sink);
  for (size_t k = 0; k < r.num; k++) weft_free(r.frames[k].pixels);
  weft_free(r.frames);
  if (r.gif != NULL) DGifCloseFile(r.gif, &error);
  return s;
}
