/* io/table.h - a file of sorted keys and values (LevelDB's table format): the index of a checkpoint, or, in
 * the first format, all of it.
 *
 * Blocks of entries with shared prefixes, each with a checksum; an index block;
 * a footer of 48 bytes. We write without compression, as TensorFlow does, and
 * read blocks that are compressed with Snappy, which TensorFlow wrote in 2016.
 */
#ifndef WEFT_IO_TABLE_H_
#define WEFT_IO_TABLE_H_

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "io/file.h"

typedef struct weft_table_entry {
  weft_str_t key, value;
} weft_table_entry_t;

int weft_table_compare(weft_str_t a, weft_str_t b); /* bytewise; a prefix comes first */

/* ---- writing; Confined ---- */
typedef struct weft_table_writer weft_table_writer_t;
/* Writes to `file`, which must outlive the writer and is the caller's to finish. */
WEFT_MUST_CHECK weft_status_t *weft_table_writer_create(weft_file_writer_t *file, weft_table_writer_t **out);
/* Both are copied. Errors: INVALID_ARGUMENT if the key does not come after the one before it, bytewise. */
WEFT_MUST_CHECK weft_status_t *weft_table_writer_add(weft_table_writer_t *w, weft_str_t key,
                                                     weft_str_t value);
/* Writes what is left, but not the file's end. Consumes `w`. */
WEFT_MUST_CHECK weft_status_t *weft_table_writer_finish(weft_table_writer_t *w);
void weft_table_writer_abandon(weft_table_writer_t *w); /* NULL is fine */
/* All of these with entries that are there already. */
WEFT_MUST_CHECK weft_status_t *weft_table_write(weft_file_writer_t *file, const weft_table_entry_t *entries,
                                                size_t n);

/* ---- reading single entries; only the index is kept in memory. Thread-safe ---- */
typedef struct weft_table_reader weft_table_reader_t;
/* `path` is copied. Errors: NOT_FOUND, FAILED_PRECONDITION (a directory), DATA_LOSS (not a table). */
WEFT_MUST_CHECK weft_status_t *weft_table_reader_open(const char *path, weft_table_reader_t **out);
void weft_table_reader_close(weft_table_reader_t *r); /* NULL is fine */
/* Appends the value to *out. Errors: NOT_FOUND if the key is absent, DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_table_reader_get(const weft_table_reader_t *r, weft_str_t key,
                                                     weft_strbuf_t *out);

uint64_t weft_table_reader_size(const weft_table_reader_t *r); /* of the file, in bytes */

/* ---- a whole table in memory; immutable once read ---- */
typedef struct weft_table {
  weft_arena_t arena;
  weft_table_entry_t *entries; /* sorted; in the arena, as all keys and values */
  size_t count, capacity;
} weft_table_t;

/* Errors: NOT_FOUND, DATA_LOSS (checksum, truncation, bad structure). */
WEFT_MUST_CHECK weft_status_t *weft_table_read(const char *path, weft_table_t *out);
void weft_table_deinit(weft_table_t *t);
const weft_table_entry_t *weft_table_find(const weft_table_t *t, weft_str_t key); /* NULL if absent */

/* The format's numbers, for the two files that know it. */
enum { WEFT_TABLE_FOOTER = 48, WEFT_TABLE_TRAILER = 5, WEFT_TABLE_PLAIN = 0, WEFT_TABLE_SNAPPY = 1 };
#define WEFT_TABLE_MAGIC 0xdb4775248b80fb57u

#endif /* WEFT_IO_TABLE_H_ */
