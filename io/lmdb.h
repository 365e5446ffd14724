/* io/lmdb.h - an LMDB database, read: all keys and values of its main database, in the order of the keys.
 *
 * liblmdb maps the file and follows each number in it, so that a damaged file ends the process. Here a page
 * is read by its position and checked before it is used: no byte outside the file or the page is looked at, a
 * value is allocated once the file is known to hold it, a page is not deeper than the tree, and there are no
 * more entries than the tree says, of which the file must have at least a byte each. So any file ends, in a
 * status or not. What a damaged file gives before that is not checked: LMDB has no checksums.
 *
 * As TensorFlow did, there is no lock: pages that a writer reuses meanwhile are seen as damage, if at all.
 * Sorted duplicates are values of their own. The values of named databases are the 48 bytes of their records.
 *
 * Format: lmdb.h and mdb.c of OpenLDAP's LMDB 0.9, data version 1, as 64-bit machines of little-endian order
 * write it.
 */
#ifndef WEFT_IO_LMDB_H_
#define WEFT_IO_LMDB_H_

#include "base/status.h"
#include "base/str.h"

typedef struct weft_lmdb weft_lmdb_t; /* Confined. */

/* `path` is a file, or a directory with a file data.mdb in it; copied. Errors: INVALID_ARGUMENT, in liblmdb's
 * words: it cannot be opened, is no database, is of another version, is damaged; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lmdb_open(const char *path, weft_lmdb_t **out);
/* Of bytes in memory, which must outlive it. Errors: likewise. */
WEFT_MUST_CHECK weft_status_t *weft_lmdb_of(weft_str_t bytes, weft_lmdb_t **out);
void weft_lmdb_close(weft_lmdb_t *d); /* NULL is fine */

/* Lends the next key and value until the next call; *is_end: there was none. Errors: INVALID_ARGUMENT, with
 * the file and the page: it is damaged; also every later call fails then. RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_lmdb_next(weft_lmdb_t *d, weft_str_t *key, weft_str_t *value,
                                              bool *is_end);
/* Goes over `n` of them, or to the end, without reading large values. Errors: likewise. */
WEFT_MUST_CHECK weft_status_t *weft_lmdb_skip(weft_lmdb_t *d, uint64_t n);

#endif /* WEFT_IO_LMDB_H_ */
