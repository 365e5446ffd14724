/* resources/reader.h - a reader: turns names of files, taken from a queue, into records (key, value).
 *
 * One operation has the reader at a time, the others wait in line, without a thread; so does a read that
 * waits for the queue. A file is a work unit: it is started when its name is taken from the queue and
 * completed when its last record has been read.
 */
#ifndef WEFT_RESOURCES_READER_H_
#define WEFT_RESOURCES_READER_H_

#include "io/byte_stream.h"
#include "resources/tensor_queue.h"

typedef enum weft_reader_kind {
  WEFT_READER_FIXED_LENGTH, /* key "<file>:<record number from 0>" */
  WEFT_READER_IDENTITY,     /* no file is read: key and value are the name itself */
  WEFT_READER_LMDB,         /* a database, whose keys they are */
  WEFT_READER_TEXT_LINE,    /* "<file>:<line number from 1>" */
  WEFT_READER_TFRECORD,     /* "<file>:<offset in bytes, decompressed>" */
  WEFT_READER_WHOLE_FILE,   /* "<file>" */
} weft_reader_kind_t;

typedef struct weft_reader_config {
  weft_reader_kind_t kind;
  weft_compression_t compression;
  int64_t header_lines;                                        /* of text */
  int64_t header_bytes, record_bytes, footer_bytes, hop_bytes; /* of fixed length; hop: from begin to begin */
} weft_reader_config_t;

typedef struct weft_reader weft_reader_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_reader_type;

WEFT_MUST_CHECK weft_status_t *weft_reader_create(const weft_reader_config_t *config, weft_object_t **out);

/* Each ends its call, at once or later, with these outputs. Errors (through the call): CANCELLED,
 * RESOURCE_EXHAUSTED, and those that are named. */

/* Key and value, scalars, of the next record. Takes names from `queue` (retained) as needed.
 * Errors: those of the queue (OUT_OF_RANGE: closed and empty), of opening and reading the file;
 * INVALID_ARGUMENT: not a queue of single strings. */
void weft_reader_read(weft_reader_t *r, const weft_resource_call_t *call, weft_tensor_queue_t *queue);
/* Keys and values, vectors, of `n` >= 0 records, or fewer where a file ends. Errors: as above; what had been
 * read before is lost then. */
void weft_reader_read_up_to(weft_reader_t *r, const weft_resource_call_t *call, weft_tensor_queue_t *queue,
                            int64_t n);
/* An int64. */
void weft_reader_num_records(weft_reader_t *r, const weft_resource_call_t *call);
void weft_reader_num_work_units(weft_reader_t *r, const weft_resource_call_t *call);
/* A string: TensorFlow's message ReaderBaseState. Errors: UNIMPLEMENTED but for the kinds that keep no place
 * in a file. */
void weft_reader_serialize(weft_reader_t *r, const weft_resource_call_t *call);
/* Errors: UNIMPLEMENTED; INVALID_ARGUMENT (not such a message, negative counts, a unit that is not
 * completed): the reader is reset then. */
void weft_reader_restore(weft_reader_t *r, const weft_resource_call_t *call, weft_str_t state);
/* Back to the beginning: no file is open, all counts are 0. */
void weft_reader_reset(weft_reader_t *r, const weft_resource_call_t *call);

#endif /* WEFT_RESOURCES_READER_H_ */
