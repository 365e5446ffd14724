/* kernels/cpu/media/png.h - PNG files to pixels and back, in memory, by libpng. */
#ifndef WEFT_KERNELS_CPU_MEDIA_PNG_H_
#define WEFT_KERNELS_CPU_MEDIA_PNG_H_

#include "kernels/cpu/media/picture.h"

/* One frame of samples of `bits`, 8 or 16 (uint16_t). `channels`: 1 (gray), 3 (RGB), 4 (RGBA), or 0: as the
 * file has. Errors: INVALID_ARGUMENT: not a PNG file, damaged, or too large; those of the sink. */
WEFT_MUST_CHECK weft_status_t *weft_png_decode(weft_str_t bytes, int channels, int bits,
                                               weft_picture_sink_t *sink);

/* `pixels`: height * width * depth samples of `bits`, 8 or 16 (uint16_t), rows first; depth 1 (gray), 2 (with
 * alpha), 3 (RGB) or 4 (RGBA). `compression`: 0 to 9, or -1: zlib's default. Appends to `out`. Errors:
 * INTERNAL: no pixels, or more than a million rows or columns; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_png_encode(const void *pixels, int64_t height, int64_t width, int depth,
                                               int bits, int compression, weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_MEDIA_PNG_H_ */
