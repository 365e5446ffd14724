/* base/thread_blocks.c - lists of free blocks, one for each size and thread.
 *
 * Sizes are rounded up to an eighth of their power of two. A thread's lists go when it ends. With
 * AddressSanitizer nothing is kept, so that it sees each use of a freed block.
 */
#include "base/thread_blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fault.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { KEEPS = false };
#else
enum { KEEPS = true };
#endif

enum {
  KEPT_BYTES = 1 << 20, /* by a thread */
  SMALLEST_LOG2 = 9,
  LARGEST_LOG2 = 18,
  NUM_SIZES = (LARGEST_LOG2 - SMALLEST_LOG2) * 8 + 1,
};

/* Written into the block itself. */
typedef struct kept_block {
  struct kept_block *next;
} kept_block_t;

typedef struct thread_blocks {
  kept_block_t *lists[NUM_SIZES]; /* by size; the one freed last is first */
  size_t bytes;                   /* of all */
} thread_blocks_t;

static _Thread_local thread_blocks_t *mine; /* NULL before the first block is given back */
static pthread_key_t at_end;                /* of a thread: its lists */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

static size_t round_up(size_t bytes, int *index) {
  if (bytes < (size_t)1 << SMALLEST_LOG2) bytes = (size_t)1 << SMALLEST_LOG2;
  int log2 = 63 - __builtin_clzl(bytes);
  const size_t step = (size_t)1 << (log2 - 3), rounded = (bytes + step - 1) & ~(step - 1);
  log2 = 63 - __builtin_clzl(rounded);
  *index = (log2 - SMALLEST_LOG2) * 8 + (int)((rounded >> (log2 - 3)) & 7);
  return rounded;
}

static void give_up_all(thread_blocks_t *b) {
  for (int i = 0; i < NUM_SIZES; i++) {
    for (kept_block_t *next; b->lists[i] != NULL; b->lists[i] = next) {
      next = b->lists[i]->next;
      free(b->lists[i]);
    }
  }
  b->bytes = 0;
}

static void end_thread(void *arg) {
  mine = NULL; /* what is given back later, by other destructors, begins anew */
  give_up_all(arg);
  free(arg);
}

static void make_key(void) { has_key = pthread_key_create(&at_end, end_thread) == 0; }

/* The calling thread's lists; NULL: it has none. */
static thread_blocks_t *make_mine(void) {
  pthread_once(&once, make_key);
  thread_blocks_t *b = has_key ? calloc(1, sizeof *b) : NULL;
  if (b != NULL && pthread_setspecific(at_end, b) != 0) {
    free(b);
    b = NULL;
  }
  mine = b;
  return b;
}

void *weft_thread_block_take(size_t bytes) {
  int index;
  const size_t rounded = round_up(bytes, &index);
  thread_blocks_t *b = mine;
  if (weft_fault_strikes()) return NULL;
  kept_block_t *kept = b == NULL ? NULL : b->lists[index];
  if (kept == NULL) return aligned_alloc(WEFT_THREAD_BLOCK_ALIGNMENT, rounded);
  b->lists[index] = kept->next;
  b->bytes -= rounded;
  return kept;
}

void weft_thread_block_give(void *p, size_t bytes) {
  int index;
  const size_t rounded = round_up(bytes, &index);
  thread_blocks_t *b = mine;
  if (p == NULL) return;
  if (b == NULL && KEEPS) b = make_mine();
  if (b == NULL) {
    free(p);
    return;
  }
  if (b->bytes > KEPT_BYTES - rounded) give_up_all(b);
  kept_block_t *kept = p;
  kept->next = b->lists[index];
  b->lists[index] = kept;
  b->bytes += rounded;
}
