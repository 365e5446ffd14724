/* tests/fuzz/png_fuzz.c - PNG files, as DecodePng reads them. The checksums of chunks are made right, so that
 * what is in them is looked at. */
#include <zlib.h>

#include "kernels/cpu/media/png.h"
#include "tests/fuzz/picture_sink.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/fuzz/testdata/colour.png"),
    WEFT_FUZZ_FILE("tests/fuzz/testdata/interlaced.png"),
    WEFT_FUZZ_FILE("tests/fuzz/testdata/palette.png"),
    WEFT_FUZZ_FILE("tests/fuzz/testdata/words.png"),
    WEFT_FUZZ_END,
};

static void put_checksums(uint8_t *file, size_t size) {
  enum { SIGNATURE = 8, FRAME = 12 }; /* of a chunk: length, kind, checksum */
  for (size_t at = SIGNATURE; size >= FRAME && at <= size - FRAME;) {
    size_t n = (size_t)file[at] << 24 | (size_t)file[at + 1] << 16 | (size_t)file[at + 2] << 8 | file[at + 3];
    if (n > size - FRAME - at) return;
    uLong sum = crc32(0, file + at + 4, (uInt)n + 4);
    for (int k = 0; k < 4; k++) file[at + 8 + n + (size_t)k] = (uint8_t)(sum >> (24 - 8 * k));
    at += n + FRAME;
  }
}

static void decode(weft_str_t file, int channels, int bits) {
  fuzz_sink_t sink = fuzz_sink((size_t)bits / 8);
  fuzz_sink_finish(&sink, weft_png_decode(file, channels, bits, &sink.sink));
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  uint8_t *copy = weft_malloc(size + 1);
  if (copy == NULL) return;
  memcpy(copy, data, size);
  put_checksums(copy, size);
  weft_str_t file = weft_str_of((const char *)copy, size);
  decode(file, 0, 8);
  decode(file, 4, 16);
  decode(file, 1, 8);
  weft_free(copy);
}
