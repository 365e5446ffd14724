/* base/arena.h - many small objects that die together.
 *
 * Memory comes from blocks that double up to 1 MiB; nothing is given back before
 * the arena is. Confined: one thread at a time.
 */
#ifndef WEFT_BASE_ARENA_H_
#define WEFT_BASE_ARENA_H_

#include "base/str.h"

typedef struct weft_arena_block weft_arena_block_t;

typedef struct weft_arena {
  weft_arena_block_t *blocks; /* owned; newest first */
  char *next, *end;           /* free space in the newest block */
  size_t bytes;               /* taken from the system so far */
} weft_arena_t;

#define WEFT_ARENA_INIT \
  { NULL, NULL, NULL, 0 }
void weft_arena_deinit(weft_arena_t *a);
/* 16-byte aligned; NULL when there is no memory. The first is not zeroed, the second is. */
void *weft_arena_alloc(weft_arena_t *a, size_t size);
void *weft_arena_calloc(weft_arena_t *a, size_t n, size_t size); /* n*size is checked */
/* A copy that also ends with '\0'; data is NULL when there is no memory. */
weft_str_t weft_arena_str(weft_arena_t *a, weft_str_t s);

#endif /* WEFT_BASE_ARENA_H_ */
