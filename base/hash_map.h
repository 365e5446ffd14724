/* base/hash_map.h - from text or a number to a pointer; open addressing, linear probing.
 *
 * Keys of a text map are not copied: they must outlive their entry. Values are
 * not owned. Confined; concurrent readers without a writer are fine.
 */
#ifndef WEFT_BASE_HASH_MAP_H_
#define WEFT_BASE_HASH_MAP_H_

#include "base/str.h"

typedef struct weft_map_entry {
  weft_str_t key; /* data == NULL: a number key, in key.length */
  uint64_t hash;  /* 0: empty slot; 1: removed */
  void *value;
} weft_map_entry_t;

typedef struct weft_map {
  weft_map_entry_t *slots; /* owned */
  size_t capacity;         /* a power of two, or 0 */
  size_t count, used;      /* entries; entries and removed ones */
} weft_map_t;

#define WEFT_MAP_INIT \
  { NULL, 0, 0, 0 }
void weft_map_deinit(weft_map_t *m);
/* Makes room for `count` entries in all, so that they go in without growing. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_map_reserve(weft_map_t *m, size_t count);
/* NULL when absent. */
void *weft_map_get(const weft_map_t *m, weft_str_t key);
void *weft_map_get_u64(const weft_map_t *m, uint64_t key);
/* Adds or replaces; *old (may be NULL) gets what was there. `value` must not be NULL.
 * Errors: RESOURCE_EXHAUSTED, the map is then unchanged. */
WEFT_MUST_CHECK weft_status_t *weft_map_put(weft_map_t *m, weft_str_t key, void *value, void **old);
WEFT_MUST_CHECK weft_status_t *weft_map_put_u64(weft_map_t *m, uint64_t key, void *value, void **old);
/* Returns the value that was there, or NULL. */
void *weft_map_remove(weft_map_t *m, weft_str_t key);
void *weft_map_remove_u64(weft_map_t *m, uint64_t key);
/* Walks all entries in no order: start with *at = 0; false at the end. The map must not grow meanwhile. */
bool weft_map_next(const weft_map_t *m, size_t *at, weft_map_entry_t *out);

#endif /* WEFT_BASE_HASH_MAP_H_ */
