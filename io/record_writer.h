/* io/record_writer.h - records of a TFRecord file, as record_reader.h describes them. */
#ifndef WEFT_IO_RECORD_WRITER_H_
#define WEFT_IO_RECORD_WRITER_H_

#include "io/byte_stream.h"

/* Appends `bytes` as a record. Out of memory sets out->failed. */
void weft_record_put(weft_strbuf_t *out, weft_str_t bytes);

/* A new file of records, which has its name once it is whole. Confined. */
typedef struct weft_record_writer weft_record_writer_t;
/* Errors: those of weft_file_writer_create, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_record_writer_create(const char *path, weft_compression_t compression,
                                                         weft_record_writer_t **out);
/* Errors: likewise. */
WEFT_MUST_CHECK weft_status_t *weft_record_writer_put(weft_record_writer_t *w, weft_str_t bytes);
/* The bytes as they are, without what makes a record of them. Errors: likewise. */
WEFT_MUST_CHECK weft_status_t *weft_record_writer_put_plain(weft_record_writer_t *w, weft_str_t bytes);
/* Consumes `w`. Errors: likewise; there is no file then. */
WEFT_MUST_CHECK weft_status_t *weft_record_writer_finish(weft_record_writer_t *w);
void weft_record_writer_abandon(weft_record_writer_t *w); /* there is no file. NULL is fine */

/* A file of records in one zlib stream, to which each is added at once. Confined. */
typedef struct weft_record_file weft_record_file_t;
/* Makes the file, without records; what had that name is gone. Errors: those of weft_file_append. */
WEFT_MUST_CHECK weft_status_t *weft_record_file_create(const char *path, weft_record_file_t **out);
/* Adds a record; its bytes are in the file when this returns. Errors: likewise, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_record_file_put(weft_record_file_t *f, weft_str_t bytes);
/* Ends the stream, and `f`. Errors: likewise; NULL is fine. */
WEFT_MUST_CHECK weft_status_t *weft_record_file_finish(weft_record_file_t *f);

#endif /* WEFT_IO_RECORD_WRITER_H_ */
