/* tensor/cpu_allocator.c - host memory with a cache of large blocks.
 *
 * Blocks of LARGE bytes and more are rounded up to an eighth of their power of
 * two and kept, up to CACHE_BYTES in all, in a list per size. Locking: `mu` is a
 * leaf; the system is asked outside it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "tensor/allocator.h"

enum { LARGE = 256 << 10, SIZES = 512 };
#define CACHE_BYTES ((size_t)256 << 20)

typedef struct free_block {
  struct free_block *next;
} free_block_t;

typedef struct cpu_allocator {
  weft_allocator_t base;
  weft_mutex_t mu;
  free_block_t *lists[SIZES]; /* guarded by mu */
  size_t cached;              /* guarded by mu */
} cpu_allocator_t;

/* Rounds up to a size class; false when the block is too small or too large to keep. */
static bool class_of(size_t bytes, size_t *rounded, int *index) {
  if (bytes < LARGE || bytes > CACHE_BYTES / 2) return false;
  int log2 = 63 - __builtin_clzl(bytes);
  size_t step = (size_t)1 << (log2 - 3);
  *rounded = (bytes + step - 1) & ~(step - 1);
  log2 = 63 - __builtin_clzl(*rounded);
  *index = log2 * 8 + (int)((*rounded >> (log2 - 3)) & 7);
  return *index < SIZES;
}

static void *allocate(weft_allocator_t *base, size_t bytes, weft_fence_t *after) {
  (void)after; /* the host has no queue */
  cpu_allocator_t *a = (cpu_allocator_t *)(void *)base;
  size_t rounded = bytes;
  int index;
  if (class_of(bytes, &rounded, &index)) {
    weft_mutex_lock(&a->mu);
    free_block_t *b = a->lists[index];
    if (b != NULL) {
      a->lists[index] = b->next;
      a->cached -= rounded;
    }
    weft_mutex_unlock(&a->mu);
    if (b != NULL) return b;
  }
  return weft_aligned_alloc(WEFT_TENSOR_ALIGNMENT, rounded);
}

static void deallocate(weft_allocator_t *base, void *p, size_t bytes) {
  cpu_allocator_t *a = (cpu_allocator_t *)(void *)base;
  size_t rounded;
  int index;
  if (p != NULL && class_of(bytes, &rounded, &index)) {
    free_block_t *b = p;
    weft_mutex_lock(&a->mu);
    bool keep = a->cached + rounded <= CACHE_BYTES;
    if (keep) {
      b->next = a->lists[index];
      a->lists[index] = b;
      a->cached += rounded;
    }
    weft_mutex_unlock(&a->mu);
    if (keep) return;
  }
  weft_free(p);
}

weft_allocator_t *weft_cpu_allocator(void) {
  static cpu_allocator_t allocator = {
      .base = {.name = "cpu", .allocate = allocate, .deallocate = deallocate},
      .mu = WEFT_MUTEX_INITIALIZER,
  };
  return &allocator.base;
}
