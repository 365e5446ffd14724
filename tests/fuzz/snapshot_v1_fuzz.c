/* tests/fuzz/snapshot_v1_fuzz.c - files of snapshots of version 1. The first byte chooses the compression,
 * and whether elements are packed by Snappy; an element is a number and a text. */
#include "kernels/cpu/dataset/snapshot_v1.h"
#include "tests/fuzz/fuzz.h"

/* What TensorFlow has written of (1, "a"). */
#define MESSAGE                                              \
  "\x0a\x0e\x08\x09\x12\x00\x22\x08\x01\x00\x00\x00\x00\x00" \
  "\x00\x00\x0a\x07\x08\x07\x12\x00\x42\x01"                 \
  "a"
#define METADATA "\x0a\x04\x12\x00\x18\x08\x0a\x04\x12\x00\x18\x07"
#define PACKED                                                       \
  "\x0f\x38\x01\x00\x00\x00\x00\x00\x00\x00\x08\x07\x12\x00\x42\x01" \
  "a"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x00\x19\x00\x00\x00\x00\x00\x00\x00" MESSAGE
                    "\x19\x00\x00\x00\x00\x00\x00\x00" MESSAGE),
    WEFT_FUZZ_BYTES("\x04\x0c\x00\x00\x00\x00\x00\x00\x00" METADATA
                    "\x11\x00\x00\x00\x00\x00\x00\x00" PACKED),
    WEFT_FUZZ_END,
};

static weft_status_t *read_all(weft_byte_stream_t *s, bool is_snappy, weft_element_spec_t *spec) {
  weft_tensor_t *parts[2] = {NULL, NULL};
  weft_status_t *status = NULL;
  for (bool is_over = false; status == NULL && !is_over;) {
    status = weft_snapshot_v1_next(s, is_snappy, spec, parts, &is_over);
    for (int i = 0; status == NULL && !is_over && i < 2; i++)
      weft_fuzz_check(parts[i]->dtype == spec->dtypes[i], "a component of another type");
    weft_element_release(parts, 2);
  }
  return status;
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_byte_stream_t *s = NULL;
  weft_element_spec_t *spec = NULL;
  if (size == 0) return;
  const weft_str_t bytes = weft_str_of((const char *)data + 1, size - 1);
  weft_status_t *status = weft_element_spec_create(2, &spec);
  if (status == NULL) status = weft_byte_stream_of(bytes, (weft_compression_t)(data[0] % 4), &s);
  if (status == NULL) {
    spec->dtypes[0] = WEFT_I64;
    spec->dtypes[1] = WEFT_STRING;
    status = read_all(s, data[0] / 4 % 2 == 1, spec);
  }
  weft_status_free(status);
  weft_byte_stream_close(s);
  weft_element_spec_release(spec);
}
