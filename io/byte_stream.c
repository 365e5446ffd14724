/* io/byte_stream.c - files read in pieces, decompressed by zlib or Snappy.
 *
 * `window` is what is decoded and not yet read; fill() adds to it. Raw pieces come from the file through
 * `raw`, or are the caller's bytes in memory.
 */
#define _DEFAULT_SOURCE /* posix_fadvise */
#include "io/byte_stream.h"

#include <fcntl.h>
#include <limits.h>
#include <snappy-c.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "io/file.h"

enum {
  PIECE = 256 << 10,              /* bytes read, and decoded, at a time */
  SNAPPY_BLOCK_BYTES = 256 << 10, /* of one block, decoded; TensorFlow's limit */
};

struct weft_byte_stream {
  weft_compression_t compression;
  weft_file_reader_t file; /* fd -1: of bytes in memory */
  char *path;              /* owned; of the file */
  uint64_t offset;         /* of what is read next of the file */
  weft_str_t input;        /* raw bytes that are not yet decoded */
  weft_str_t window;
  uint64_t position; /* of the window, in decoded bytes */
  char *raw;         /* PIECE bytes, of compressed files */
  char *buffer;      /* where the window lies, but of plain bytes in memory; grows with what is there */
  size_t capacity;
  z_stream z;
  bool has_z;
};

bool weft_compression_find(weft_str_t name, weft_compression_t *out) {
  static const char *const names[] = {"", "ZLIB", "GZIP", "SNAPPY"};
  for (int i = 0; i < 4; i++) {
    if (!weft_str_is(name, names[i])) continue;
    *out = (weft_compression_t)i;
    return true;
  }
  return false;
}

/* ---- opening ---- */

void weft_byte_stream_close(weft_byte_stream_t *s) {
  if (s == NULL) return;
  if (s->has_z) inflateEnd(&s->z);
  weft_file_close(&s->file);
  weft_free(s->path);
  weft_free(s->raw);
  weft_free(s->buffer);
  weft_free(s);
}

static weft_status_t *stream_new(const char *path, weft_compression_t compression, weft_byte_stream_t **out) {
  weft_byte_stream_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("opening a file");
  s->compression = compression;
  s->file.fd = -1;
  bool is_zlib = compression == WEFT_COMPRESSION_ZLIB || compression == WEFT_COMPRESSION_GZIP;
  bool failed = false;
  if (path != NULL) {
    s->path = weft_strdup(path);
    failed = s->path == NULL;
  }
  if (path != NULL && compression != WEFT_COMPRESSION_NONE) {
    s->raw = weft_malloc(PIECE);
    failed = failed || s->raw == NULL;
  }
  if (path != NULL || compression != WEFT_COMPRESSION_NONE) {
    s->buffer = weft_malloc(PIECE);
    s->capacity = PIECE;
    failed = failed || s->buffer == NULL;
  }
  if (!failed && is_zlib) {
    int window = MAX_WBITS + (compression == WEFT_COMPRESSION_GZIP ? 16 : 0);
    s->has_z = inflateInit2(&s->z, window) == Z_OK;
    failed = !s->has_z;
  }
  if (failed) {
    weft_byte_stream_close(s);
    return WEFT_NO_MEMORY("opening a file");
  }
  *out = s;
  return NULL;
}

weft_status_t *weft_byte_stream_open(const char *path, weft_compression_t compression,
                                     weft_byte_stream_t **out) {
  weft_byte_stream_t *s = NULL;
  WEFT_RETURN_IF_ERROR(stream_new(path, compression, &s));
  weft_status_t *status = weft_file_open(s->path, &s->file);
  if (status == NULL) (void)posix_fadvise(s->file.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  if (status == NULL) *out = s;
  if (status != NULL) weft_byte_stream_close(s);
  return status;
}

weft_status_t *weft_byte_stream_of(weft_str_t bytes, weft_compression_t compression,
                                   weft_byte_stream_t **out) {
  WEFT_RETURN_IF_ERROR(stream_new(NULL, compression, out));
  if (compression == WEFT_COMPRESSION_NONE) (*out)->window = bytes;
  if (compression != WEFT_COMPRESSION_NONE) (*out)->input = bytes;
  return NULL;
}

/* ---- filling the window ---- */

/* Raw bytes from the file, where there are none left; none at the end. */
static weft_status_t *need_input(weft_byte_stream_t *s) {
  if (s->input.length > 0 || s->file.fd < 0) return NULL;
  size_t got = 0;
  WEFT_RETURN_IF_ERROR(weft_file_read_some(&s->file, s->offset, s->raw, PIECE, &got));
  s->offset += got;
  s->input = weft_str_of(s->raw, got);
  return NULL;
}

static void advance(weft_str_t *s, size_t n) { *s = weft_str_of(s->data + n, s->length - n); }

/* Moves the window to the front of its buffer, with room for `n` bytes behind it. */
static weft_status_t *make_room(weft_byte_stream_t *s, size_t n) {
  if (s->window.length > 0) memmove(s->buffer, s->window.data, s->window.length);
  if (s->capacity - s->window.length < n) {
    char *more = weft_realloc(s->buffer, s->capacity, 2);
    if (more == NULL) return WEFT_NO_MEMORY("reading %s", s->path == NULL ? "bytes" : s->path);
    s->buffer = more;
    s->capacity *= 2;
  }
  s->window.data = s->buffer;
  return NULL;
}

static weft_status_t *fill_plain(weft_byte_stream_t *s) {
  size_t got = 0;
  if (s->file.fd < 0) return NULL;
  WEFT_RETURN_IF_ERROR(make_room(s, PIECE / 2));
  WEFT_RETURN_IF_ERROR(weft_file_read_some(&s->file, s->offset, s->buffer + s->window.length,
                                           s->capacity - s->window.length, &got));
  s->offset += got;
  s->window.length += got;
  return NULL;
}

static weft_status_t *fill_inflated(weft_byte_stream_t *s) {
  const size_t before = s->window.length;
  WEFT_RETURN_IF_ERROR(make_room(s, PIECE / 2));
  const size_t room = s->capacity - before < UINT_MAX ? s->capacity - before : UINT_MAX;
  while (s->window.length == before) {
    WEFT_RETURN_IF_ERROR(need_input(s));
    size_t n = s->input.length < PIECE ? s->input.length : PIECE;
    s->z.next_in = (Bytef *)(uintptr_t)s->input.data;
    s->z.avail_in = (uInt)n;
    s->z.next_out = (Bytef *)s->buffer + before;
    s->z.avail_out = (uInt)room;
    int result = inflate(&s->z, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return WEFT_ERROR(DATA_LOSS, "inflate() failed with error %d%s%s", result, s->z.msg == NULL ? "" : ": ",
                        s->z.msg == NULL ? "" : s->z.msg);
    }
    size_t used = n - s->z.avail_in;
    advance(&s->input, used);
    s->window.length = before + room - s->z.avail_out;
    if (result == Z_STREAM_END && s->compression == WEFT_COMPRESSION_GZIP) inflateReset(&s->z);
    if (result == Z_STREAM_END && s->compression == WEFT_COMPRESSION_ZLIB)
      advance(&s->input, s->input.length);
    if (used == 0 && s->window.length == before)
      return NULL; /* the end: of the file, or of the zlib stream */
  }
  return NULL;
}

/* Moves `n` raw bytes to `to`; *got of them, fewer at the end of the file. */
static weft_status_t *take_input(weft_byte_stream_t *s, char *to, size_t n, size_t *got) {
  *got = 0;
  while (*got < n) {
    WEFT_RETURN_IF_ERROR(need_input(s));
    if (s->input.length == 0) return NULL;
    size_t part = s->input.length < n - *got ? s->input.length : n - *got;
    memcpy(to + *got, s->input.data, part);
    advance(&s->input, part);
    *got += part;
  }
  return NULL;
}

/* A block can be no longer than what a whole piece compresses to at worst. */
static weft_status_t *fill_snappy(weft_byte_stream_t *s) {
  unsigned char prefix[4];
  size_t got = 0, size = 0, decoded = 0;
  WEFT_RETURN_IF_ERROR(take_input(s, (char *)prefix, sizeof prefix, &got));
  if (got < sizeof prefix) return NULL;
  for (int i = 0; i < 4; i++) size = size << 8 | prefix[i];
  weft_status_t *status = NULL;
  size_t most = snappy_max_compressed_length(SNAPPY_BLOCK_BYTES);
  char *block = weft_calloc(1, (size < most ? size : most) + 1);
  if (block == NULL) return WEFT_NO_MEMORY("reading a block of %zu bytes", size);
  if (size <= most) status = take_input(s, block, size, &got);
  if (status != NULL) goto done;
  if (size > most || got < size) {
    status = WEFT_ERROR(DATA_LOSS, "Failed to read %zu bytes from file. Possible data corruption.", size);
  } else if (snappy_uncompressed_length(block, size, &decoded) != SNAPPY_OK) {
    status = WEFT_ERROR(DATA_LOSS, "Parsing error in Snappy_GetUncompressedLength");
  } else if (decoded > SNAPPY_BLOCK_BYTES) {
    status = WEFT_ERROR(RESOURCE_EXHAUSTED,
                        "Output buffer(size: %d bytes) too small. Should be larger than %zu bytes.",
                        SNAPPY_BLOCK_BYTES, decoded);
  } else if (snappy_uncompress(block, size, s->buffer + s->window.length, &decoded) != SNAPPY_OK) {
    status = WEFT_ERROR(DATA_LOSS, "Snappy_Uncompress failed.");
  } else {
    s->window.length += decoded;
  }
done:
  weft_free(block);
  return status;
}

/* Adds to the window; adds nothing at the end alone. */
static weft_status_t *fill(weft_byte_stream_t *s) {
  const size_t before = s->window.length;
  switch (s->compression) {
    case WEFT_COMPRESSION_NONE: return fill_plain(s);
    case WEFT_COMPRESSION_ZLIB:
    case WEFT_COMPRESSION_GZIP: return fill_inflated(s);
    case WEFT_COMPRESSION_SNAPPY: break;
  }
  WEFT_RETURN_IF_ERROR(make_room(s, SNAPPY_BLOCK_BYTES));
  do {
    WEFT_RETURN_IF_ERROR(fill_snappy(s));
  } while (s->window.length == before && s->input.length > 0);
  return NULL;
}

/* ---- reading ---- */

static void take(weft_byte_stream_t *s, size_t n) {
  advance(&s->window, n);
  s->position += n;
}

static weft_status_t *move(weft_byte_stream_t *s, uint64_t n, weft_strbuf_t *out, uint64_t *got) {
  *got = 0;
  while (*got < n) {
    if (s->window.length == 0) WEFT_RETURN_IF_ERROR(fill(s));
    if (s->window.length == 0) return NULL;
    uint64_t part = n - *got < s->window.length ? n - *got : s->window.length;
    if (out != NULL) weft_strbuf_append(out, weft_str_of(s->window.data, (size_t)part));
    if (out != NULL && out->failed) return WEFT_NO_MEMORY("reading %s", s->path == NULL ? "bytes" : s->path);
    take(s, (size_t)part);
    *got += part;
  }
  return NULL;
}

weft_status_t *weft_byte_stream_read(weft_byte_stream_t *s, uint64_t n, weft_strbuf_t *out, uint64_t *got) {
  return move(s, n, out, got);
}

weft_status_t *weft_byte_stream_skip(weft_byte_stream_t *s, uint64_t n, uint64_t *got) {
  const bool is_plain = s->compression == WEFT_COMPRESSION_NONE && s->file.fd >= 0;
  const uint64_t behind = is_plain && s->file.size > s->offset ? s->file.size - s->offset : 0;
  uint64_t jumped = 0;
  if (n > s->window.length && behind > 0) { /* what is not in the window need not be read */
    jumped = n - s->window.length < behind ? n - s->window.length : behind;
    s->offset += jumped;
    s->position += jumped;
  }
  weft_status_t *status = move(s, n - jumped, NULL, got);
  *got += jumped;
  return status;
}

weft_status_t *weft_byte_stream_peek(weft_byte_stream_t *s, size_t n, weft_str_t *out) {
  for (size_t before = SIZE_MAX; s->window.length < n && s->window.length != before;) {
    before = s->window.length;
    WEFT_RETURN_IF_ERROR(fill(s));
  }
  *out = s->window;
  return NULL;
}

void weft_byte_stream_take(weft_byte_stream_t *s, size_t n) { take(s, n); }

uint64_t weft_byte_stream_rest(const weft_byte_stream_t *s) {
  if (s->compression != WEFT_COMPRESSION_NONE || (s->file.fd >= 0 && s->file.size == 0)) return UINT64_MAX;
  const uint64_t behind = s->file.fd >= 0 && s->file.size > s->offset ? s->file.size - s->offset : 0;
  return s->window.length + behind;
}

uint64_t weft_byte_stream_position(const weft_byte_stream_t *s) { return s->position; }

weft_status_t *weft_byte_stream_line(weft_byte_stream_t *s, weft_strbuf_t *out, bool *is_end) {
  size_t begin = out->length;
  bool is_whole = false;
  while (!is_whole) {
    if (s->window.length == 0) WEFT_RETURN_IF_ERROR(fill(s));
    if (s->window.length == 0) break;
    const char *end = memchr(s->window.data, '\n', s->window.length);
    is_whole = end != NULL;
    size_t n = is_whole ? (size_t)(end - s->window.data) : s->window.length;
    weft_strbuf_append(out, weft_str_of(s->window.data, n));
    if (out->failed) return WEFT_NO_MEMORY("reading a line");
    take(s, n + (is_whole ? 1 : 0));
  }
  if (out->length > begin && out->data[out->length - 1] == '\r') out->length--;
  *is_end = !is_whole && out->length == begin;
  return NULL;
}
