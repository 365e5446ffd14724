/* io/table.h - a file of sorted keys and values: the index of a checkpoint (LevelDB's table format).
 *
 * Blocks of entries with shared prefixes, each with a checksum; an index block;
 * a footer of 48 bytes. We write without compression, as TensorFlow does. Blocks
 * of 2016 may be compressed with Snappy, which is not read yet.
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

/* Writes entries with strictly ascending keys (bytewise) to `w`. Errors: INVALID_ARGUMENT if they do not ascend. */
WEFT_MUST_CHECK weft_status_t *weft_table_write(weft_file_writer_t *w, const weft_table_entry_t *entries, size_t n);

/* A whole table in memory. Immutable once read. */
typedef struct weft_table {
  weft_arena_t arena;
  weft_table_entry_t *entries; /* sorted; in the arena, as all keys and values */
  size_t count, capacity;
} weft_table_t;

/* Errors: NOT_FOUND, DATA_LOSS (checksum, truncation, bad structure), UNIMPLEMENTED (compressed). */
WEFT_MUST_CHECK weft_status_t *weft_table_read(const char *path, weft_table_t *out);
void weft_table_deinit(weft_table_t *t);
const weft_table_entry_t *weft_table_find(const weft_table_t *t, weft_str_t key); /* NULL if absent */
int weft_table_compare(weft_str_t a, weft_str_t b); /* bytewise; a prefix comes first */

#endif /* WEFT_IO_TABLE_H_ */
