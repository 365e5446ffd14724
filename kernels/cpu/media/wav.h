/* kernels/cpu/media/wav.h - WAV files of 16 bits to samples and back, in memory. */
#ifndef WEFT_KERNELS_CPU_MEDIA_WAV_H_
#define WEFT_KERNELS_CPU_MEDIA_WAV_H_

#include "base/status.h"
#include "base/str.h"

typedef struct weft_wav {
  int64_t frames, channels;
  uint32_t rate;   /* frames per second */
  weft_str_t data; /* frames * channels samples of 16 bits, low byte first; lent by the file */
} weft_wav_t;

/* What is in a file. Chunks in front of the format that are known to be harmless and all behind it are passed
 * over. Errors: INVALID_ARGUMENT: another kind of file, or a damaged one. */
WEFT_MUST_CHECK weft_status_t *weft_wav_read(weft_str_t file, weft_wav_t *out);
/* Sample i, in [-1, 1). */
static inline float weft_wav_sample(const weft_wav_t *w, int64_t i) {
  const uint8_t *b = (const uint8_t *)w->data.data + 2 * i;
  return (float)(int16_t)(uint16_t)(b[0] | b[1] << 8) * (1.0f / 32768.0f);
}

/* `samples`: frames * channels of them, those of a frame together; outside of [-1, 1] they are cut, what is
 * no number is silence. Appends to `out`. Errors: INVALID_ARGUMENT: a rate or a number of channels that the
 * format has not, too many samples; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_wav_write(const float *samples, int64_t frames, int64_t channels,
                                              uint64_t rate, weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_MEDIA_WAV_H_ */
