/* io/record_writer.c - length, its checksum, bytes, their checksum. */
#include "io/record_writer.h"

#include <snappy-c.h>
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

/* ---- a file that records are added to ---- */

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

/* ---- a new file ---- */

enum { BLOCK_BYTES = 256 << 10 }; /* what is compressed at a time; the most in a block of Snappy */

struct weft_record_writer {
  weft_file_writer_t *file;
  weft_compression_t compression;
  z_stream z;
  bool has_z;
  weft_strbuf_t waiting; /* records that have not been compressed yet */
};

void weft_record_writer_abandon(weft_record_writer_t *w) {
  if (w == NULL) return;
  if (w->has_z) deflateEnd(&w->z);
  weft_file_writer_abandon(w->file);
  weft_strbuf_deinit(&w->waiting);
  weft_free(w);
}

weft_status_t *weft_record_writer_create(const char *path, weft_compression_t compression,
                                         weft_record_writer_t **out) {
  weft_record_writer_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("writing %s", path);
  w->compression = compression;
  if (compression == WEFT_COMPRESSION_ZLIB || compression == WEFT_COMPRESSION_GZIP) {
    const int window = MAX_WBITS + (compression == WEFT_COMPRESSION_GZIP ? 16 : 0);
    w->has_z = deflateInit2(&w->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, MAX_MEM_LEVEL,
                            Z_DEFAULT_STRATEGY) == Z_OK;
    if (!w->has_z) {
      weft_free(w);
      return WEFT_NO_MEMORY("writing %s", path);
    }
  }
  weft_status_t *s = weft_file_writer_create(path, &w->file);
  if (s == NULL) *out = w;
  if (s != NULL) weft_record_writer_abandon(w);
  return s;
}

static weft_status_t *write_deflated(weft_record_writer_t *w, weft_str_t bytes, int flush) {
  char out[1 << 14];
  w->z.next_in = (Bytef *)(uintptr_t)bytes.data;
  w->z.avail_in = (uInt)bytes.length;
  do {
    w->z.next_out = (Bytef *)out;
    w->z.avail_out = sizeof out;
    if (deflate(&w->z, flush) == Z_STREAM_ERROR) return WEFT_ERROR(INTERNAL, "cannot compress records");
    WEFT_RETURN_IF_ERROR(weft_file_writer_append(w->file, out, sizeof out - w->z.avail_out));
  } while (w->z.avail_out == 0);
  return NULL;
}

/* A block: its length in four bytes, the highest first, and what Snappy makes of it. */
static weft_status_t *write_snappy(weft_record_writer_t *w, weft_str_t bytes) {
  size_t n = snappy_max_compressed_length(bytes.length);
  unsigned char *block = weft_malloc(4 + n);
  if (block == NULL) return WEFT_NO_MEMORY("compressing records");
  weft_status_t *s = NULL;
  if (snappy_compress(bytes.data, bytes.length, (char *)block + 4, &n) != SNAPPY_OK)
    s = WEFT_ERROR(INTERNAL, "cannot compress records");
  for (int i = 0; i < 4; i++) block[i] = (unsigned char)(n >> (24 - 8 * i));
  if (s == NULL) s = weft_file_writer_append(w->file, block, 4 + n);
  weft_free(block);
  return s;
}

static weft_status_t *write_waiting(weft_record_writer_t *w) {
  weft_str_t rest = weft_str_of(w->waiting.data, w->waiting.length);
  if (w->waiting.failed) return WEFT_NO_MEMORY("writing records");
  while (rest.length > 0) {
    const weft_str_t block = weft_str_of(rest.data, rest.length < BLOCK_BYTES ? rest.length : BLOCK_BYTES);
    switch (w->compression) {
      case WEFT_COMPRESSION_NONE:
        WEFT_RETURN_IF_ERROR(weft_file_writer_append(w->file, block.data, block.length));
        break;
      case WEFT_COMPRESSION_ZLIB:
      case WEFT_COMPRESSION_GZIP: WEFT_RETURN_IF_ERROR(write_deflated(w, block, Z_NO_FLUSH)); break;
      case WEFT_COMPRESSION_SNAPPY: WEFT_RETURN_IF_ERROR(write_snappy(w, block)); break;
    }
    rest = weft_str_of(rest.data + block.length, rest.length - block.length);
  }
  w->waiting.length = 0;
  return NULL;
}

static weft_status_t *write_blocks(weft_record_writer_t *w) {
  return w->waiting.length < BLOCK_BYTES && !w->waiting.failed ? NULL : write_waiting(w);
}

weft_status_t *weft_record_writer_put(weft_record_writer_t *w, weft_str_t bytes) {
  weft_record_put(&w->waiting, bytes);
  return write_blocks(w);
}

weft_status_t *weft_record_writer_put_plain(weft_record_writer_t *w, weft_str_t bytes) {
  weft_strbuf_append(&w->waiting, bytes);
  return write_blocks(w);
}

weft_status_t *weft_record_writer_finish(weft_record_writer_t *w) {
  weft_status_t *s = write_waiting(w);
  if (s == NULL && w->has_z) s = write_deflated(w, WEFT_STR(""), Z_FINISH);
  if (s == NULL) {
    s = weft_file_writer_finish(w->file);
    w->file = NULL;
  }
  weft_record_writer_abandon(w);
  return s;
}
