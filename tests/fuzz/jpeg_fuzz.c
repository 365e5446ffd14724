/* tests/fuzz/jpeg_fuzz.c - JPEG files, whole and in part, as DecodeJpeg, DecodeAndCropJpeg and
 * ExtractJpegShape read them. */
#include "kernels/cpu/media/jpeg.h"
#include "tests/fuzz/picture_sink.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/fuzz/testdata/colour.jpg"),
    WEFT_FUZZ_FILE("tests/fuzz/testdata/gray.jpg"),
    WEFT_FUZZ_FILE("tests/fuzz/testdata/progressive.jpg"),
    WEFT_FUZZ_END,
};

static void decode(weft_str_t file, const weft_jpeg_reading_t *how) {
  fuzz_sink_t sink = fuzz_sink(1);
  fuzz_sink_finish(&sink, weft_jpeg_decode(file, how, &sink.sink));
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_str_t file = weft_str_of((const char *)data, size);
  int64_t shape[3] = {0};
  decode(file, &(weft_jpeg_reading_t){.ratio = 1, .fancy_upscaling = true, .acceptable_fraction = 0.5f});
  decode(file, &(weft_jpeg_reading_t){.channels = 3, .ratio = 2, .is_accurate = true, .recover = true});
  decode(file, &(weft_jpeg_reading_t){.channels = 1,
                                      .ratio = 1,
                                      .crop = true,
                                      .crop_y = 2,
                                      .crop_x = 3,
                                      .crop_height = 3,
                                      .crop_width = 5});
  weft_status_free(weft_jpeg_size(file, shape));
}
