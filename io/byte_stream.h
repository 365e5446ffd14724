/* io/byte_stream.h - the bytes of a file from its begin to its end, decompressed on the way.
 *
 * The end is not an error: a read that meets it gives fewer bytes than were asked for. Nothing is allocated
 * by a size that the file tells, so a broken one costs no more memory than it has bytes.
 */
#ifndef WEFT_IO_BYTE_STREAM_H_
#define WEFT_IO_BYTE_STREAM_H_

#include "base/status.h"
#include "base/str.h"

typedef enum weft_compression {
  WEFT_COMPRESSION_NONE,
  WEFT_COMPRESSION_ZLIB,   /* one zlib stream; what follows it is not read */
  WEFT_COMPRESSION_GZIP,   /* gzip members, one behind the other */
  WEFT_COMPRESSION_SNAPPY, /* blocks: a length in four bytes, the highest first, and so many bytes */
} weft_compression_t;

/* By TensorFlow's name: "", "ZLIB", "GZIP", "SNAPPY". False if there is none of that name. */
bool weft_compression_find(weft_str_t name, weft_compression_t *out);

typedef struct weft_byte_stream weft_byte_stream_t; /* Confined. */

/* `path` is copied. Errors: those of weft_file_open; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_byte_stream_open(const char *path, weft_compression_t compression,
                                                     weft_byte_stream_t **out);
/* Of bytes in memory, which must outlive the stream. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_byte_stream_of(weft_str_t bytes, weft_compression_t compression,
                                                   weft_byte_stream_t **out);
void weft_byte_stream_close(weft_byte_stream_t *s); /* NULL is fine */

/* Appends `n` bytes to `out`, fewer at the end; *got of them, also on failure.
 * Errors: DATA_LOSS (compressed data that are none), those of reading the file, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_byte_stream_read(weft_byte_stream_t *s, uint64_t n, weft_strbuf_t *out,
                                                     uint64_t *got);
/* The same without keeping the bytes. */
WEFT_MUST_CHECK weft_status_t *weft_byte_stream_skip(weft_byte_stream_t *s, uint64_t n, uint64_t *got);
/* Lends the bytes that come next, without taking them: `n` at least, or all that there are before the end.
 * They stay until the next call but weft_byte_stream_take. Errors: as above. */
WEFT_MUST_CHECK weft_status_t *weft_byte_stream_peek(weft_byte_stream_t *s, size_t n, weft_str_t *out);
/* Takes `n` of the bytes that were lent. */
void weft_byte_stream_take(weft_byte_stream_t *s, size_t n);
/* How many bytes have been taken, read and skipped since the begin. */
uint64_t weft_byte_stream_position(const weft_byte_stream_t *s);
/* How many follow; UINT64_MAX: it cannot tell, since they are compressed, or the file does not say its size.
 */
uint64_t weft_byte_stream_rest(const weft_byte_stream_t *s);
/* Appends the next line, without its '\n' and one '\r' in front of that. *is_end: there was none. The last
 * line may lack its '\n'; if nothing is left of it, it is none. Errors: as above. */
WEFT_MUST_CHECK weft_status_t *weft_byte_stream_line(weft_byte_stream_t *s, weft_strbuf_t *out, bool *is_end);

#endif /* WEFT_IO_BYTE_STREAM_H_ */
