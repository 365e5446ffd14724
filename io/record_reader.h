/* io/record_reader.h - the records of a TFRecord file, one after the other.
 *
 * A record is its length in 8 bytes, a masked CRC-32C of these, the bytes, and their masked CRC-32C.
 * Format: TensorFlow's "TFRecord and tf.train.Example" guide.
 */
#ifndef WEFT_IO_RECORD_READER_H_
#define WEFT_IO_RECORD_READER_H_

#include "io/byte_stream.h"

typedef struct weft_record_reader { /* Confined. Ready to use with a stream and zeros */
  weft_byte_stream_t *stream;       /* borrowed */
  uint64_t offset;                  /* of the next record, in decompressed bytes */
  weft_status_t *failure;           /* owned: every read fails alike from the first one on */
} weft_record_reader_t;

void weft_record_reader_deinit(weft_record_reader_t *r);
/* Lends the next record until the next call; *is_end: there was none.
 * Errors: DATA_LOSS "truncated record at <offset>", "corrupted record at <offset>"; those of the stream. */
WEFT_MUST_CHECK weft_status_t *weft_record_reader_lend(weft_record_reader_t *r, weft_str_t *out,
                                                       bool *is_end);
/* The same, appended to `out`. */
WEFT_MUST_CHECK weft_status_t *weft_record_reader_next(weft_record_reader_t *r, weft_strbuf_t *out,
                                                       bool *is_end);

#endif /* WEFT_IO_RECORD_READER_H_ */
