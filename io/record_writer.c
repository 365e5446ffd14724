/* io/record_writer.c - length, its checksum, bytes, their checksum. */
#include "io/record_writer.h"

#include "io/crc32c.h"

static void put_number(weft_strbuf_t *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) weft_strbuf_putc(out, (char)(value >> (8 * i)));
}

void weft_record_put(weft_strbuf_t *out, weft_str_t bytes) {
  size_t begin = out->length;
  put_number(out, bytes.length, 8);
  if (out->failed) return;
  put_number(out, weft_crc32c_mask(weft_crc32c(out->data + begin, 8)), 4);
  weft_strbuf_append(out, bytes);
  put_number(out, weft_crc32c_mask(weft_crc32c(bytes.data, bytes.length)), 4);
}
