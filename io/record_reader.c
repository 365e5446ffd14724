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

/* Appends `n` bytes whose checksum follows them. *got < n + CHECKSUM: the stream ended. */
static weft_status_t *read_checked(weft_record_reader_t *r, uint64_t offset, uint64_t n, weft_strbuf_t *out,
                                   uint64_t *got) {
  size_t begin = out->length;
  WEFT_RETURN_IF_ERROR(weft_byte_stream_read(r->stream, n + CHECKSUM, out, got));
  if (*got < n + CHECKSUM) return NULL;
  out->length = begin + (size_t)n;
  uint32_t stored = weft_wire_load32(out->data + out->length);
  if (weft_crc32c_unmask(stored) == weft_crc32c(out->data + begin, (size_t)n)) return NULL;
  return WEFT_ERROR(DATA_LOSS, "corrupted record at %" PRIu64, offset);
}

static weft_status_t *next(weft_record_reader_t *r, weft_strbuf_t *out, bool *is_end) {
  uint64_t got = 0;
  size_t begin = out->length;
  WEFT_RETURN_IF_ERROR(read_checked(r, r->offset, LENGTH, out, &got));
  uint64_t length = got == LENGTH + CHECKSUM ? weft_wire_load64(out->data + begin) : 0;
  out->length = begin;
  *is_end = got < LENGTH + CHECKSUM;
  if (*is_end) return NULL;
  if (length >= UINT64_MAX - CHECKSUM) return WEFT_ERROR(DATA_LOSS, "record size too large");
  WEFT_RETURN_IF_ERROR(read_checked(r, r->offset + LENGTH + CHECKSUM, length, out, &got));
  if (got < length + CHECKSUM) return WEFT_ERROR(DATA_LOSS, "truncated record at %" PRIu64, r->offset);
  r->offset += LENGTH + CHECKSUM + length + CHECKSUM;
  return NULL;
}

weft_status_t *weft_record_reader_next(weft_record_reader_t *r, weft_strbuf_t *out, bool *is_end) {
  if (r->failure == NULL) r->failure = next(r, out, is_end);
  return r->failure == NULL ? NULL : weft_status_clone(r->failure);
}
