/* tests/fuzz/picture_sink.h - takes the pixels of image decoders that are fuzzed, if they are not too many.
 */
#ifndef WEFT_TESTS_FUZZ_PICTURE_SINK_H_
#define WEFT_TESTS_FUZZ_PICTURE_SINK_H_

#include "base/alloc.h"
#include "kernels/cpu/media/picture.h"
#include "tests/fuzz/fuzz.h"

typedef struct fuzz_sink {
  weft_picture_sink_t sink;
  size_t sample_bytes;
  void *pixels; /* owned */
} fuzz_sink_t;

static weft_status_t *fuzz_sink_make(weft_picture_sink_t *sink, int64_t frames, int64_t height, int64_t width,
                                     int64_t channels, void **out) {
  enum { MOST = 1 << 20 };
  fuzz_sink_t *f = (fuzz_sink_t *)sink;
  int64_t rows = 0, samples = 0;
  weft_fuzz_check(f->pixels == NULL, "pixels are asked for twice");
  weft_fuzz_check(frames > 0 && height > 0 && width > 0 && channels > 0 && channels <= 4,
                  "an image without pixels");
  if (__builtin_mul_overflow(frames * channels, height, &rows) ||
      __builtin_mul_overflow(rows, width, &samples) || samples > MOST) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "too many pixels");
  }
  f->pixels = *out = weft_malloc((size_t)samples * f->sample_bytes);
  return f->pixels != NULL ? NULL : WEFT_NO_MEMORY("pixels");
}

static inline fuzz_sink_t fuzz_sink(size_t sample_bytes) {
  return (fuzz_sink_t){.sink.make = fuzz_sink_make, .sample_bytes = sample_bytes};
}

static inline void fuzz_sink_finish(fuzz_sink_t *f, weft_status_t *s) {
  weft_fuzz_check(s != NULL || f->pixels != NULL, "an image without pixels");
  weft_free(f->pixels);
  weft_status_free(s);
}

#endif /* WEFT_TESTS_FUZZ_PICTURE_SINK_H_ */
