/* kernels/cpu/media/jpeg.h - JPEG files to pixels and back, in memory, by libjpeg-turbo. */
#ifndef WEFT_KERNELS_CPU_MEDIA_JPEG_H_
#define WEFT_KERNELS_CPU_MEDIA_JPEG_H_

#include "kernels/cpu/media/picture.h"

typedef struct weft_jpeg_reading {
  int channels;              /* 1 (gray), 3 (RGB), or 0: as the file has */
  int ratio;                 /* the image is made 1, 2, 4 or 8 times smaller */
  bool fancy_upscaling;      /* smooth interpolation of colour */
  bool is_accurate;          /* the slower inverse transform of whole numbers, else the fast one */
  bool recover;              /* a file that ends early: its last row is repeated */
  float acceptable_fraction; /* of rows that a file must have that ends early; the others are black */
  bool crop;                 /* only this window: */
  int64_t crop_y, crop_x, crop_height, crop_width;
} weft_jpeg_reading_t;

/* Pixels of 8 bits, one frame. CMYK becomes RGB. Errors: INVALID_ARGUMENT: not a JPEG file, damaged, 2^29
 * samples or more, or a window that is not inside the image; those of the sink. */
WEFT_MUST_CHECK weft_status_t *weft_jpeg_decode(weft_str_t bytes, const weft_jpeg_reading_t *how,
                                                weft_picture_sink_t *sink);
/* Height, width, channels. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_jpeg_size(weft_str_t bytes, int64_t out[3]);

typedef struct weft_jpeg_writing {
  int quality; /* 0 to 100 */
  bool progressive, optimize_size, chroma_downsampling;
  int density_unit;             /* 1: inch, 2: cm */
  int64_t x_density, y_density; /* pixels per unit, modulo 2^16 */
  weft_str_t xmp;               /* embedded if not empty */
} weft_jpeg_writing_t;

/* `pixels`: height * width * channels bytes, rows first; channels 1 (gray) or 3 (RGB). Appends to `out`.
 * Errors: INTERNAL: no pixels, too many, or metadata that is too long; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_jpeg_encode(const uint8_t *pixels, int64_t height, int64_t width,
                                                int channels, const weft_jpeg_writing_t *how,
                                                weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_MEDIA_JPEG_H_ */
