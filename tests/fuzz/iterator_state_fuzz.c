/* tests/fuzz/iterator_state_fuzz.c - where a pass through a data set stands, the metadata of snapshots, and
 * which files a snapshot has. The first byte chooses which; of the first the rest of the input says which
 * kinds of values are asked for.
 */
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/snapshot.h"
#include "tests/fuzz/fuzz.h"

#define HEAD "weft iterator 2\n"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x00" HEAD "i\x07\x00\x00\x00\x00\x00\x00\x00s\x03\x00\x00\x00\x00\x00\x00\x00"
                    "Map"),
    WEFT_FUZZ_BYTES("\x00" HEAD "t\x06\x00\x00\x00\x00\x00\x00\x00\x08\x03\x12\x00\x38\x05"),
    WEFT_FUZZ_BYTES("\x00" HEAD "i\x05\x00\x00\x00\x00\x00\x00\x00s\x02\x00\x00\x00\x00\x00\x00\x00"
                    "no"),
    WEFT_FUZZ_BYTES("\x01\x12\x03"
                    "123\x18\x05\x20\x02\x28\x09\x30\x07\xc0\x3e\x01"),
    WEFT_FUZZ_BYTES("\x02" HEAD "s\x03\x00\x00\x00\x00\x00\x00\x00"
                    "123"
                    "i\x09\x00\x00\x00\x00\x00\x00\x00i\x01\x00\x00\x00\x00\x00\x00\x00"
                    "i\x07\x00\x00\x00\x00\x00\x00\x00i\x02\x00\x00\x00\x00\x00\x00\x00"),
    WEFT_FUZZ_END,
};

static weft_status_t *read_one(weft_saved_t *s) {
  weft_tensor_t *t = NULL;
  weft_status_t *failure = NULL, *status = NULL;
  weft_str_t text = WEFT_STR("");
  int64_t number = 0;
  switch (s->rest.length == 0 ? 0 : s->rest.data[0]) {
    case 's': return weft_saved_get_string(s, &text);
    case 't':
      status = weft_saved_get_tensor(s, &t);
      weft_tensor_release(t);
      return status;
    case 'i': break;
    default: return weft_saved_get_int(s, &number);
  }
  status = weft_saved_get_status(s, &failure);
  weft_status_free(failure);
  return status;
}

static void read_state(weft_str_t bytes) {
  weft_saved_t s;
  weft_status_t *status = weft_saved_open(&s, bytes, NULL);
  for (size_t left = SIZE_MAX; status == NULL && s.rest.length < left;) {
    left = s.rest.length;
    status = read_one(&s);
    weft_fuzz_check(s.rest.length <= left, "a state that grows");
  }
  weft_status_free(status);
  weft_saved_deinit(&s);
}

static void read_metadata(weft_str_t bytes) {
  weft_snapshot_metadata_t m;
  weft_status_t *s = weft_snapshot_metadata_parse(bytes, &m);
  for (const char *c = m.run; s == NULL && *c != '\0'; c++)
    weft_fuzz_check((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z'), "a run that is no number");
  weft_status_free(s);
}

static void read_files(weft_str_t bytes) {
  weft_saved_t s;
  weft_status_t *status = weft_saved_open(&s, bytes, NULL);
  if (status == NULL) status = weft_snapshot_writer_skip(&s);
  weft_status_free(status);
  weft_saved_deinit(&s);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  if (size == 0) return;
  const weft_str_t bytes = weft_str_of((const char *)data + 1, size - 1);
  switch (data[0] % 3) {
    case 0: read_state(bytes); break;
    case 1: read_metadata(bytes); break;
    default: read_files(bytes); break;
  }
}
