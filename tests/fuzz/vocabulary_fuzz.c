/* tests/fuzz/vocabulary_fuzz.c - lines of vocabularies, as InitializeTableFromTextFile reads them. The first
 * two bytes choose which parts of a line are key and value, and of what types. */
#include "kernels/cpu/lookup/vocabulary.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x00\x01"
                    "one\ntwo\r\nthree"),
    WEFT_FUZZ_BYTES("\x12\x13"
                    "a\t1\nb\t2\n"),
    WEFT_FUZZ_BYTES("\x22\x33"
                    "-7\t0.5\n8\t1e3\n\n"),
    WEFT_FUZZ_BYTES("\x02\x24"
                    "12\n13\n12\n"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  static const weft_dtype_t keys[] = {WEFT_STRING, WEFT_I64, WEFT_I32};
  static const weft_dtype_t values[] = {WEFT_STRING, WEFT_I64, WEFT_I32, WEFT_F32, WEFT_F64, WEFT_BOOL};
  if (size < 2) return;
  const weft_lookup_config_t config = {.kind = WEFT_LOOKUP_STATIC,
                                       .key_dtype = keys[(data[0] >> 4) % 3],
                                       .value_dtype = values[(data[1] >> 4) % 6],
                                       .value_shape = WEFT_SCALAR};
  const weft_vocabulary_format_t format = {.key_index = (data[0] & 15) % 5 - 2,
                                           .value_index = (data[1] & 15) % 5 - 2,
                                           .size = (data[1] & 8) == 0 ? -1 : 2,
                                           .offset = 1,
                                           .delimiter = '\t'};
  weft_status_t *s = weft_vocabulary_check(&format, &config);
  if (s != NULL) {
    weft_status_free(s);
    return;
  }
  weft_object_t *table = NULL;
  weft_vocabulary_t v = {0};
  s = weft_lookup_table_create(&config, &table);
  if (s == NULL) {
    s = weft_vocabulary_init(&v, "fuzz", weft_str_of((const char *)data + 2, size - 2), &format,
                             config.key_dtype, config.value_dtype);
  }
  if (s == NULL) s = weft_lookup_table_initialize((weft_lookup_table_t *)table, &v.source);
  if (s == NULL) {
    weft_fuzz_check(weft_lookup_table_size((weft_lookup_table_t *)table) <= v.next_line,
                    "more keys than lines");
    weft_fuzz_check(v.next_line <= v.source.total, "more lines than were counted");
  }
  weft_status_free(s);
  weft_vocabulary_deinit(&v);
  weft_object_release(table);
}
