/* tests/fuzz/lmdb_fuzz.c - LMDB databases: all entries, of which there are no more than the file has bytes.
 */
#include "io/lmdb.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/io/testdata/entries.mdb"),
    WEFT_FUZZ_FILE("tests/io/testdata/duplicates.mdb"),
    WEFT_FUZZ_END,
};

/* So that a sanitizer sees each byte that is lent. */
static unsigned sum(weft_str_t s) {
  unsigned n = 0;
  for (size_t i = 0; i < s.length; i++) n += (unsigned char)s.data[i];
  return n;
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_lmdb_t *d = NULL;
  weft_str_t key, value;
  bool is_end = false;
  size_t n = 0;
  volatile unsigned total = 0;
  weft_status_t *s = weft_lmdb_of(weft_str_of((const char *)data, size), &d);
  while (s == NULL && !is_end) {
    s = weft_lmdb_next(d, &key, &value, &is_end);
    if (s != NULL || is_end) break;
    total += sum(key) + sum(value);
    weft_fuzz_check(++n <= size, "more entries than bytes");
  }
  weft_status_free(s);
  weft_lmdb_close(d);
}
