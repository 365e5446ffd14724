/* kernels/cpu/nn/lines.h - rows of an image laid out with their padding. */
#ifndef WEFT_KERNELS_CPU_NN_LINES_H_
#define WEFT_KERNELS_CPU_NN_LINES_H_

#include "kernels/cpu/loops/common.h"

/* Of rows of `in` pixels with `pitch` channels: `width` pixels from pixel `from` (which may lie in front of
 * the row), `channels` channels of each. */
typedef struct weft_lines {
  size_t size; /* bytes of an element */
  int64_t in, pitch, from, width, channels;
  int64_t block; /* channels that lie side by side: a line is [channels / block][width][block], the last block
                    may be narrower */
} weft_lines_t;

static inline size_t weft_line_bytes(const weft_lines_t *l) {
  return (size_t)(l->width * l->channels) * l->size;
}

/* Lays out the row whose first pixel, at the first of the channels, is at `row`; pixels outside of it are
 * zeros. */
void weft_line_fill(const weft_lines_t *l, const char *row, char *to);

#endif /* WEFT_KERNELS_CPU_NN_LINES_H_ */
