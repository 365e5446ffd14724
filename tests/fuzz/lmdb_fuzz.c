/* tests/fuzz/lmdb_fuzz.c - LMDB databases: all entries, of which there are no more than the file has bytes.
 */
#include "io/lmdb.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/io/testdata/entries.mdb"),
    WEFT_FUZZ_FILE("tests/io/testdata/duplicates.mdb"),
    WEFT_FUZZ_END,
};

static volatile unsigned looked_at;

/* So that a sanitizer sees each byte that is lent. */
static void look(weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) looked_at += (unsigned char)s.data[i];
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_lmdb_t *d = NULL;
  weft_str_t key, value;
  bool is_end = false;
  size_t n = 0;
  weft_status_t *s = weft_lmdb_of(weft_str_of((const char *)data, size), &d);
  while (s == NULL && !is_end) {
    s = weft_lmdb_next(d, &key, &value, &is_end);
    if (s != NULL || is_end) break;
    look(key);
    look(value);
    weft_fuzz_check(++n <= size, "more entries than bytes");
  }
  weft_status_free(s);
  weft_lmdb_close(d);
}
