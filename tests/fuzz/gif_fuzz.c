/* tests/fuzz/gif_fuzz.c - GIF files, as DecodeGif reads them. */
#include "kernels/cpu/media/gif.h"
#include "tests/fuzz/picture_sink.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/fuzz/testdata/animated.gif"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  for (int all = 0; all < 2; all++) {
    fuzz_sink_t sink = fuzz_sink(1);
    fuzz_sink_finish(&sink, weft_gif_decode(weft_str_of((const char *)data, size), all != 0, &sink.sink));
  }
}
