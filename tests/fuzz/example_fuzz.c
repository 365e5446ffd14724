/* tests/fuzz/example_fuzz.c - the features of serialized Examples, as ParseExample reads them. */
#include "kernels/cpu/parsing/feature.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x0a\x0f\x0a\x0d\x0a\x01"
                    "a\x12\x08\x1a\x06\x0a\x04\x01\x02\x80\x01"),
    WEFT_FUZZ_BYTES("\x0a\x11\x0a\x0f\x0a\x01"
                    "b\x12\x0a\x12\x08\x0a\x06\x00\x00\x80\x3f\x00\x00"),
    WEFT_FUZZ_BYTES("\x0a\x11\x0a\x0f\x0a\x01"
                    "b\x12\x0a\x12\x08\x0d\x00\x00\x80\x3f\x0d\x01\x02"),
    WEFT_FUZZ_BYTES("\x18\x05\x0a\x12\x0a\x10\x12\x0b\x0a\x09\x0a\x03xyz\x0a\x00\x0a\x00\x0a\x01"
                    "c"),
    WEFT_FUZZ_BYTES("\x0a\x0c\x0a\x0a\x0a\x01"
                    "d\x12\x05\x1a\x03\x08\x07\x08"),
    WEFT_FUZZ_END,
};

static void read_feature(weft_str_t feature) {
  weft_feature_values_t values = {0};
  weft_status_t *s = NULL;
  weft_str_t rest;
  int dtype = 0;
  s = weft_feature_dtype(feature, &dtype, &rest);
  if (s == NULL && dtype != 0) {
    size_t size = dtype == WEFT_I64 ? 1 : dtype == WEFT_F32 ? 4 : 2; /* bytes that a value needs at least */
    values.dtype = (weft_dtype_t)dtype;
    if (weft_feature_read(rest, &values, &s)) {
      weft_fuzz_check((size_t)values.n <= feature.length / size, "more values than bytes");
    }
    weft_feature_values_deinit(&values);
  }
  weft_status_free(s);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_feature_entries_t entries = {0};
  weft_status_t *s = weft_example_read(weft_str_of((const char *)data, size), &entries);
  for (int64_t i = 0; s == NULL && i < entries.n; i++) read_feature(entries.entries[i].feature);
  weft_status_free(s);
  weft_feature_entries_deinit(&entries);
  read_feature(weft_str_of((const char *)data, size));
}
