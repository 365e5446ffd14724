/* tests/device/late/late_memory.c - memory that the host cannot touch, given out in the order of a queue.
 *
 * Two mappings of one size: `front`, without access, whose addresses tensors have, and `back`, with the
 * bytes. A freed block goes on its size's list with the fence behind the work that uses it, and is the next
 * to be given out; a write on another queue waits for that fence. In the order of the compute queue it
 * is overwritten first.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "tests/device/late/late.h"

enum { NUM_CLASSES = 32, SMALLEST = 256 };
static const size_t ARENA_BYTES = (size_t)1 << 30;

typedef struct block {
  struct block *next;
  size_t at;
  weft_fence_t after;
} block_t;

struct weft_late_memory {
  weft_allocator_t allocator; /* first */
  weft_memory_space_t space;
  char *front, *back;
  weft_mutex_t mu;
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

static void *allocate(weft_allocator_t *base, size_t bytes, weft_fence_t *after) {
  weft_late_memory_t *m = (weft_late_memory_t *)(void *)base;
  size_t rounded, at = ARENA_BYTES;
  const int c = class_of(bytes, &rounded);
  weft_mutex_lock(&m->mu);
  block_t *b = m->free[c];
  if (b != NULL) {
    m->free[c] = b->next;
    at = b->at;
    *after = b->after;
  } else if (rounded <= ARENA_BYTES - m->used) {
    at = m->used;
    m->used += rounded;
  }
  weft_mutex_unlock(&m->mu);
  weft_free(b);
  return at < ARENA_BYTES ? m->front + at : NULL;
}

typedef struct spoil {
  char *at;
  size_t bytes;
} spoil_t;

static weft_status_t *spoil(void *arg, const weft_status_t *poison) {
  const spoil_t *s = arg;
  if (poison == NULL) memset(s->at, 0xa5, s->bytes);
  weft_free(arg);
  return NULL;
}

static void deallocate(weft_allocator_t *base, void *p, size_t bytes) {
  weft_late_memory_t *m = (weft_late_memory_t *)(void *)base;
  if (p == NULL) return;
  weft_queue_t *q = m->space.device->compute;
  size_t rounded;
  const int c = class_of(bytes, &rounded);
  spoil_t *s = calloc(1, sizeof *s); /* freeing cannot fail: none of the allocations that tests let fail */
  block_t *b = calloc(1, sizeof *b);
  if (s == NULL || b == NULL) abort();
  *s = (spoil_t){m->back + ((char *)p - m->front), bytes};
  if (!weft_late_enqueue_always(q, spoil, s)) abort();
  *b = (block_t){.at = (size_t)((char *)p - m->front), .after = weft_queue_mark(q)};
  weft_mutex_lock(&m->mu);
  b->next = m->free[c];
  m->free[c] = b;
  weft_mutex_unlock(&m->mu);
}

weft_status_t *weft_late_memory_create(weft_device_t *d, weft_late_memory_t **out) {
  weft_late_memory_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("a late device");
  weft_mutex_init(&m->mu);
  m->allocator =
      (weft_allocator_t){.name = "late", .space = &m->space, .allocate = allocate, .deallocate = deallocate};
  m->space.device = d;
  m->front = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  m->back =
      mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m->front == MAP_FAILED || m->back == MAP_FAILED) {
    weft_late_memory_destroy(m);
    return WEFT_NO_MEMORY("a late device");
  }
  *out = m;
  return NULL;
}

void weft_late_memory_destroy(weft_late_memory_t *m) {
  if (m == NULL) return;
  if (m->front != MAP_FAILED) munmap(m->front, ARENA_BYTES);
  if (m->back != MAP_FAILED) munmap(m->back, ARENA_BYTES);
  for (int c = 0; c < NUM_CLASSES; c++) {
    for (block_t *b = m->free[c], *next; b != NULL; b = next) {
      next = b->next;
      weft_free(b);
    }
  }
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

weft_allocator_t *weft_late_memory_allocator(weft_late_memory_t *m) { return &m->allocator; }

void *weft_late_memory_bytes(const weft_late_memory_t *m, void *p) {
  const uintptr_t at = (uintptr_t)p - (uintptr_t)m->front;
  return p != NULL && at < ARENA_BYTES ? m->back + at : p;
}
