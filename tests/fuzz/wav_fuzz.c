/* tests/fuzz/wav_fuzz.c - WAV files, as DecodeWav reads them. */
#include "base/alloc.h"
#include "kernels/cpu/media/wav.h"
#include "tests/fuzz/fuzz.h"

#define FORMAT "\x01\x00\x02\x00\x40\x1f\x00\x00\x00\x7d\x00\x00\x04\x00\x10\x00"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("RIFF\x2c\x00\x00\x00WAVEfmt \x10\x00\x00\x00" FORMAT
                    "data\x08\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08"),
    WEFT_FUZZ_BYTES("RIFF\x3e\x00\x00\x00WAVEJUNK\x02\x00\x00\x00xyfmt \x12\x00\x00\x00" FORMAT
                    "\x00\x00LIST\x02\x00\x00\x00okdata\x04\x00\x00\x00\x01\x02\x03\x04"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_wav_t wav;
  float sum = 0;
  char *copy = weft_malloc(size + (size == 0)); /* of its very size, so that a byte too much is noticed */
  if (copy == NULL) return;
  memcpy(copy, data, size);
  weft_status_t *s = weft_wav_read(weft_str_of(copy, size), &wav);
  if (s == NULL) {
    weft_fuzz_check(wav.channels > 0 && (size_t)(2 * wav.frames * wav.channels) <= size,
                    "more samples than bytes");
    for (int64_t i = 0; i < wav.frames * wav.channels; i++) sum += weft_wav_sample(&wav, i);
    weft_fuzz_check(sum < 1e9f, "samples beyond 1");
  }
  weft_status_free(s);
  weft_free(copy);
}
