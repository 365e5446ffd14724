/* io/record_writer.c - length, its checksum, bytes, their checksum. */
#include "io/record_writer.h"

#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "io/crc32c.h"
#include "io/file.h"

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

/* ---- a file ---- */

struct weft_record_file {
  char *path; /* owned */
  z_stream z;
};

/* Adds what the stream makes of `bytes` to the file. */
static weft_status_t *deflate_to(weft_record_file_t *f, weft_str_t bytes, int flush) {
  char out[1 << 14];
  f->z.next_in = (Bytef *)(uintptr_t)bytes.data;
  f->z.avail_in = (uInt)bytes.length;
  do {
    f->z.next_out = (Bytef *)out;
    f->z.avail_out = sizeof out;
    if (deflate(&f->z, flush) == Z_STREAM_ERROR)
      return WEFT_ERROR(INTERNAL, "cannot compress what goes to %s", f->path);
    WEFT_RETURN_IF_ERROR(weft_file_append(f->path, out, sizeof out - f->z.avail_out));
  } while (f->z.avail_out == 0);
  return NULL;
}

weft_status_t *weft_record_file_create(const char *path, weft_record_file_t **out) {
  weft_record_file_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return WEFT_NO_MEMORY("writing %s", path);
  f->path = weft_strdup(path);
  if (f->path == NULL || deflateInit(&f->z, Z_DEFAULT_COMPRESSION) != Z_OK) {
    weft_free(f->path);
    weft_free(f);
    return WEFT_NO_MEMORY("writing %s", path);
  }
  weft_file_remove(path);
  weft_status_t *s = weft_file_append(path, "", 0);
  if (s == NULL) *out = f;
  if (s != NULL) weft_status_free(weft_record_file_finish(f));
  return s;
}

weft_status_t *weft_record_file_put(weft_record_file_t *f, weft_str_t bytes) {
  weft_strbuf_t record = WEFT_STRBUF_INIT;
  weft_record_put(&record, bytes);
  weft_status_t *s = NULL;
  if (record.failed || record.length > UINT32_MAX) s = WEFT_NO_MEMORY("a record of %s", f->path);
  if (s == NULL) s = deflate_to(f, weft_str_of(record.data, record.length), Z_SYNC_FLUSH);
  weft_strbuf_deinit(&record);
  return s;
}

weft_status_t *weft_record_file_finish(weft_record_file_t *f) {
  if (f == NULL) return NULL;
  weft_status_t *s = deflate_to(f, WEFT_STR(""), Z_FINISH);
  deflateEnd(&f->z);
  weft_free(f->path);
  weft_free(f);
  return s;
}
