/* tests/fuzz/bmp_fuzz.c - BMP files, as DecodeBmp reads them. */
#include "kernels/cpu/media/bmp.h"
#include "tests/fuzz/picture_sink.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/fuzz/testdata/plain.bmp"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  for (int channels = 0; channels <= 4; channels += channels == 0 ? 3 : 1) {
    fuzz_sink_t sink = fuzz_sink(1);
    fuzz_sink_finish(&sink, weft_bmp_decode(weft_str_of((const char *)data, size), channels, &sink.sink));
  }
}
