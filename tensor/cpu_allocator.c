/* tensor/cpu_allocator.c - host memory with a cache of large blocks.
 *
 * Blocks of LARGE bytes and more are rounded up to an eighth of their power of two. A freed one is kept for a
 * block of the same size; blocks of HUGE bytes and more are pages of their own (base/pages.h), smaller ones
 * come from the heap. Blocks of less than LARGE bytes are those of base/thread_blocks.h.
 *
 * Kept are at most CACHE_BYTES, and for at most KEEP_NS while blocks are freed: what was freed first goes
 * first. Without that order the sizes of a phase that has ended would fill the cache for good, and each block
 * of the next would be mapped, faulted in and unmapped in each step.
 *
 * Locking: `mu` is a leaf; the system is asked outside it.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/pages.h"
#include "base/thread_blocks.h"
#include "tensor/allocator.h"

enum { LARGE = WEFT_THREAD_BLOCK_LARGEST, SIZES = 512 };
#define HUGE_BYTES WEFT_HUGE_PAGE
#define CACHE_BYTES ((size_t)256 << 20)
#define KEEP_NS ((int64_t)10 * 1000 * 1000 * 1000)

/* Written into the block itself. */
typedef struct free_block {
  struct free_block *next, *previous; /* of its size; the one freed last is the list's first */
  struct free_block *newer, *older;   /* of all */
  size_t bytes;                       /* rounded */
  int index;                          /* of its list */
  int64_t freed_ns;
} free_block_t;

typedef struct cpu_allocator {
  weft_allocator_t base;
  weft_mutex_t mu;
  free_block_t *lists[SIZES];    /* guarded by mu */
  free_block_t *newest, *oldest; /* guarded by mu */
  size_t cached;                 /* guarded by mu */
} cpu_allocator_t;

/* Rounds up to a size class; false when the block is too large to keep. */
static bool class_of(size_t bytes, size_t *rounded, int *index) {
  if (bytes > CACHE_BYTES / 2) return false;
  int log2 = 63 - __builtin_clzl(bytes);
  size_t step = (size_t)1 << (log2 - 3);
  *rounded = (bytes + step - 1) & ~(step - 1);
  log2 = 63 - __builtin_clzl(*rounded);
  *index = log2 * 8 + (int)((*rounded >> (log2 - 3)) & 7);
  return *index < SIZES;
}

static void *ask_system(size_t bytes) {
  return bytes >= HUGE_BYTES ? weft_pages_map(bytes) : weft_aligned_alloc(WEFT_TENSOR_ALIGNMENT, bytes);
}

static void give_back(void *p, size_t bytes) {
  if (bytes >= HUGE_BYTES) {
    weft_pages_unmap(p, bytes);
  } else {
    weft_free(p);
  }
}

static void put_locked(cpu_allocator_t *a, free_block_t *b) WEFT_REQUIRES(a->mu) {
  b->previous = NULL;
  b->next = a->lists[b->index];
  if (b->next != NULL) b->next->previous = b;
  a->lists[b->index] = b;
  b->newer = NULL;
  b->older = a->newest;
  *(b->older != NULL ? &b->older->newer : &a->oldest) = b;
  a->newest = b;
  a->cached += b->bytes;
}

static void take_locked(cpu_allocator_t *a, free_block_t *b) WEFT_REQUIRES(a->mu) {
  *(b->previous != NULL ? &b->previous->next : &a->lists[b->index]) = b->next;
  if (b->next != NULL) b->next->previous = b->previous;
  *(b->newer != NULL ? &b->newer->older : &a->newest) = b->older;
  *(b->older != NULL ? &b->older->newer : &a->oldest) = b->newer;
  a->cached -= b->bytes;
}

/* Takes out what is too old or too much; a list by `next`. */
static free_block_t *evict_locked(cpu_allocator_t *a, int64_t now_ns) WEFT_REQUIRES(a->mu) {
  free_block_t *evicted = NULL;
  while (a->oldest != NULL && (a->cached > CACHE_BYTES || now_ns - a->oldest->freed_ns > KEEP_NS)) {
    free_block_t *b = a->oldest;
    take_locked(a, b);
    b->next = evicted;
    evicted = b;
  }
  return evicted;
}

static void *allocate(weft_allocator_t *base, size_t bytes, weft_fence_t *after) {
  (void)after; /* the host has no queue */
  cpu_allocator_t *a = (cpu_allocator_t *)(void *)base;
  size_t rounded = bytes;
  int index;
  if (bytes < LARGE) return weft_thread_block_take(bytes);
  if (class_of(bytes, &rounded, &index)) {
    weft_mutex_lock(&a->mu);
    free_block_t *b = a->lists[index];
    if (b != NULL) take_locked(a, b);
    weft_mutex_unlock(&a->mu);
    if (b != NULL) return b;
  }
  return ask_system(rounded);
}

static void deallocate(weft_allocator_t *base, void *p, size_t bytes) {
  cpu_allocator_t *a = (cpu_allocator_t *)(void *)base;
  size_t rounded = bytes;
  int index;
  if (p == NULL) return;
  if (bytes < LARGE) {
    weft_thread_block_give(p, bytes);
    return;
  }
  if (!class_of(bytes, &rounded, &index)) {
    give_back(p, rounded);
    return;
  }
  free_block_t *b = p, *evicted;
  *b = (free_block_t){.bytes = rounded, .index = index, .freed_ns = weft_clock_ns()};
  weft_mutex_lock(&a->mu);
  put_locked(a, b);
  evicted = evict_locked(a, b->freed_ns);
  weft_mutex_unlock(&a->mu);
  while (evicted != NULL) {
    b = evicted;
    evicted = b->next;
    give_back(b, b->bytes);
  }
}

weft_allocator_t *weft_cpu_allocator(void) {
  static cpu_allocator_t allocator = {
      .base = {.name = "cpu", .allocate = allocate, .deallocate = deallocate},
      .mu = WEFT_MUTEX_INITIALIZER,
  };
  return &allocator.base;
}
