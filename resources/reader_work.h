/* resources/reader_work.h - one work unit of a reader: a file, and how far it has been read.
 *
 * Only for resources/reader.c.
 */
#ifndef WEFT_RESOURCES_READER_WORK_H_
#define WEFT_RESOURCES_READER_WORK_H_

#include "io/lmdb.h"
#include "io/record_reader.h"
#include "resources/reader.h"

/* Records that have been read: the texts one behind the other. Confined. Begins as {0}. */
typedef struct weft_reader_records {
  weft_strbuf_t keys, values;
  size_t (*ends)[2]; /* n: where key and value i end */
  int64_t n, capacity;
} weft_reader_records_t;
void weft_reader_records_deinit(weft_reader_records_t *r);

typedef struct weft_reader_work { /* Confined: of the operation that has the reader */
  const weft_reader_config_t *config;
  char *name; /* owned, of name_length bytes; NULL: there is none */
  size_t name_length;
  weft_byte_stream_t *stream; /* NULL: no file is open */
  weft_lmdb_t *database;      /* owned; NULL: none is open */
  weft_status_t *failure;     /* owned: of a directory, which opens, as it were, and fails to be read */
  weft_record_reader_t records;
  int64_t number;      /* of lines, or records, so far */
  weft_strbuf_t ahead; /* of fixed length: bytes that the next record may hold, too */
} weft_reader_work_t;

/* `name` is copied. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_reader_work_set_name(weft_reader_work_t *w, weft_str_t name);
/* Opens the file and skips its header. Errors: those of opening and reading; OUT_OF_RANGE: a file of fixed
 * length ends within its header. */
WEFT_MUST_CHECK weft_status_t *weft_reader_work_start(weft_reader_work_t *w);
/* Appends the next record to `out`, unless there is none left (out->n tells). *is_end: the unit is completed.
 * Errors: those of opening and reading. */
WEFT_MUST_CHECK weft_status_t *weft_reader_work_next(weft_reader_work_t *w, weft_reader_records_t *out,
                                                     bool *is_end);
void weft_reader_work_close(weft_reader_work_t *w); /* the file; the name stays */
void weft_reader_work_deinit(weft_reader_work_t *w);

#endif /* WEFT_RESOURCES_READER_WORK_H_ */
