/* kernels/cpu/media/gif.h - GIF files to pixels, in memory, by giflib. */
#ifndef WEFT_KERNELS_CPU_MEDIA_GIF_H_
#define WEFT_KERNELS_CPU_MEDIA_GIF_H_

#include "kernels/cpu/media/picture.h"

/* All frames, or only the first, as RGB of 8 bits. All are as high as the highest and as wide as the widest;
 * what a frame leaves out is as in the one before it, black in the first. Errors: INVALID_ARGUMENT: not a GIF
 * file, without a frame, or damaged (but what is wrong behind the last frame is passed over); those of the
 * sink. */
WEFT_MUST_CHECK weft_status_t *weft_gif_decode(weft_str_t bytes, bool all_frames, weft_picture_sink_t *sink);

#endif /* WEFT_KERNELS_CPU_MEDIA_GIF_H_ */
