/* tests/device/late/late_memory.c - memory that the host cannot touch, given out in the order of a queue.
 *
 * Two mappings of one size: `front`, without access, whose addresses tensors have, and `back`, with the
 * bytes. A freed block is overwritten in the order of the compute queue, and goes on its size's list with
 * the mark behind that; it is given out again when there has been such a mark, for a wait for one that is
 * still to come would let the compute queue wait for itself. A write on another queue waits for it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/device/late/late.h"

enum { NUM_CLASSES = 32, SMALLEST = 256 };
static const size_t ARENA_BYTES = (size_t)1 << 30;

typedef struct block {
  struct block *next;
  size_t at;
  uint64_t after;
} block_t;

struct weft_late_memory {
  char *front, *back;
  pthread_mutex_t mu;
  size_t used;                /* guarded by mu */
  block_t *free[NUM_CLASSES]; /* guarded by mu */
};

static int class_of(size_t bytes, size_t *rounded) {
  int c = 0;
  *rounded = SMALLEST;
  while (*rounded < bytes && c + 1 < NUM_CLASSES) {
    *rounded *= 2;
    c++;
  }
  return c;
}

void *weft_late_memory_allocate(weft_late_memory_t *m, weft_late_queue_t *compute, size_t bytes,
                                uint64_t *after) {
  size_t rounded, at = ARENA_BYTES;
  const int c = class_of(bytes, &rounded);
  pthread_mutex_lock(&m->mu);
  const uint64_t marked = weft_late_queue_marked(compute);
  block_t **place = &m->free[c];
  while (*place != NULL && (*place)->after > marked) place = &(*place)->next;
  block_t *b = *place;
  if (b != NULL) {
    *place = b->next;
    at = b->at;
    *after = b->after;
  } else if (rounded <= ARENA_BYTES - m->used) {
    at = m->used;
    m->used += rounded;
  }
  pthread_mutex_unlock(&m->mu);
  free(b);
  return at < ARENA_BYTES ? m->front + at : NULL;
}

typedef struct spoil {
  char *at;
  size_t bytes;
} spoil_t;

static WEFT_Failure *spoil(void *arg, const WEFT_Failure *poison) {
  const spoil_t *s = arg;
  if (poison == NULL) memset(s->at, 0xa5, s->bytes);
  free(arg);
  return NULL;
}

void weft_late_memory_deallocate(weft_late_memory_t *m, weft_late_queue_t *compute, void *p, size_t bytes) {
  size_t rounded;
  const int c = class_of(bytes, &rounded);
  spoil_t *s = calloc(1, sizeof *s); /* freeing cannot fail */
  block_t *b = calloc(1, sizeof *b);
  if (s == NULL || b == NULL) abort();
  *s = (spoil_t){m->back + ((char *)p - m->front), bytes};
  *b = (block_t){.at = (size_t)((char *)p - m->front),
                 .after = weft_late_enqueue_always(compute, spoil, s) + 1};
  pthread_mutex_lock(&m->mu);
  b->next = m->free[c];
  m->free[c] = b;
  pthread_mutex_unlock(&m->mu);
}

weft_late_memory_t *weft_late_memory_create(void) {
  weft_late_memory_t *m = calloc(1, sizeof *m);
  if (m == NULL) return NULL;
  pthread_mutex_init(&m->mu, NULL);
  m->front = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  m->back =
      mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m->front != MAP_FAILED && m->back != MAP_FAILED) return m;
  weft_late_memory_destroy(m);
  return NULL;
}

void weft_late_memory_destroy(weft_late_memory_t *m) {
  if (m->front != MAP_FAILED) munmap(m->front, ARENA_BYTES);
  if (m->back != MAP_FAILED) munmap(m->back, ARENA_BYTES);
  for (int c = 0; c < NUM_CLASSES; c++) {
    for (block_t *b = m->free[c], *next; b != NULL; b = next) {
      next = b->next;
      free(b);
    }
  }
  pthread_mutex_destroy(&m->mu);
  free(m);
}

void *weft_late_memory_bytes(const weft_late_memory_t *m, void *p) {
  const uintptr_t at = (uintptr_t)p - (uintptr_t)m->front;
  return p != NULL && at < ARENA_BYTES ? m->back + at : p;
}
