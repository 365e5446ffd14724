/* kernels/cpu/media/picture.h - where the decoders of images put their pixels. */
#ifndef WEFT_KERNELS_CPU_MEDIA_PICTURE_H_
#define WEFT_KERNELS_CPU_MEDIA_PICTURE_H_

#include "base/status.h"
#include "base/str.h"

/* A decoder calls `make` once, when the file's header has said how large the image is and the size has passed
 * the decoder's own limits. Its status, if it fails, is what the decoder returns. */
typedef struct weft_picture_sink {
  /* Memory for frames * height * width * channels samples, rows first; lent until the decoder returns. The
   * decoder writes all of it, unless it fails. */
  weft_status_t *(*make)(struct weft_picture_sink *sink, int64_t frames, int64_t height, int64_t width,
                         int64_t channels, void **out);
} weft_picture_sink_t;

#endif /* WEFT_KERNELS_CPU_MEDIA_PICTURE_H_ */
