/* kernels/cpu/media/bmp.h - BMP files to pixels, in memory. */
#ifndef WEFT_KERNELS_CPU_MEDIA_BMP_H_
#define WEFT_KERNELS_CPU_MEDIA_BMP_H_

#include "kernels/cpu/media/picture.h"

/* One frame of 8 bits. Files of 8 (gray), 24 and 32 bits a pixel, not compressed; palettes are not looked at.
 * `channels`: 3 (RGB), 4 (RGBA), or 0: as the file has. Errors: INVALID_ARGUMENT: another kind of file, or
 * one that is not exactly as long as its header says; those of the sink. */
WEFT_MUST_CHECK weft_status_t *weft_bmp_decode(weft_str_t bytes, int channels, weft_picture_sink_t *sink);

#endif /* WEFT_KERNELS_CPU_MEDIA_BMP_H_ */
