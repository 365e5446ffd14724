/* io/record_reader.c - lengths, bytes and checksums of records. */
#include "io/record_reader.h"

#include <inttypes.h>

#include "io/crc32c.h"
#include "protos/wire.h"

enum { LENGTH = 8, CHECKSUM = 4 };

void weft_record_reader_deinit(weft_record_reader_t *r) {
  weft_status_free(r->failure);
  r->failure = NULL;
}

/* The next `n` bytes, whose checksum follows them; *got < n + CHECKSUM: the stream ended. A length that the
 * file cannot hold is not read for. */
static weft_status_t *read_checked(weft_record_reader_t *r, uint64_t offset, uint64_t n, weft_str_t *out,
                                   uint64_t *got) {
  *got = weft_byte_stream_rest(r->stream);
  if (*got < n + CHECKSUM) return NULL;
  WEFT_RETURN_IF_ERROR(weft_byte_stream_peek(r->stream, (size_t)n + CHECKSUM, out));
  *got = out->length < n + CHECKSUM ? out->length : n + CHECKSUM;
  if (*got < n + CHECKSUM) return NULL;
  weft_byte_stream_take(r->stream, (size_t)*got);
  out->length = (size_t)n;
  if (weft_crc32c_unmask(weft_wire_load32(out->data + n)) == weft_crc32c(out->data, (size_t)n)) return NULL;
  return WEFT_ERROR(DATA_LOSS, "corrupted record at %" PRIu64 "%s", offset,
                    offset == 0 ? " (Is this even a TFRecord file?)" : "");
}

static weft_status_t *next(weft_record_reader_t *r, weft_str_t *out, bool *is_end) {
  uint64_t got = 0;
  WEFT_RETURN_IF_ERROR(read_checked(r, r->offset, LENGTH, out, &got));
  *is_end = got < LENGTH + CHECKSUM;
  if (*is_end) return NULL;
  const uint64_t length = weft_wire_load64(out->data);
  if (length >= UINT64_MAX - CHECKSUM) return WEFT_ERROR(DATA_LOSS, "record size too large");
  WEFT_RETURN_IF_ERROR(read_checked(r, r->offset + LENGTH + CHECKSUM, length, out, &got));
  if (got < length + CHECKSUM) return WEFT_ERROR(DATA_LOSS, "truncated record at %" PRIu64, r->offset);
  r->offset += LENGTH + CHECKSUM + length + CHECKSUM;
  return NULL;
}

weft_status_t *weft_record_reader_lend(weft_record_reader_t *r, weft_str_t *out, bool *is_end) {
  if (r->failure == NULL) r->failure = next(r, out, is_end);
  return r->failure == NULL ? NULL : weft_status_clone(r->failure);
}

weft_status_t *weft_record_reader_next(weft_record_reader_t *r, weft_strbuf_t *out, bool *is_end) {
  weft_str_t record;
  WEFT_RETURN_IF_ERROR(weft_record_reader_lend(r, &record, is_end));
  if (!*is_end) weft_strbuf_append(out, record);
  return out->failed ? WEFT_NO_MEMORY("reading a record of %zu bytes", record.length) : NULL;
}
