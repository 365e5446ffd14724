/* tensor/cpu_allocator.c - host memory with a cache of large blocks.
 *
 * Blocks of LARGE bytes and more are rounded up to an eighth of their power of two. A freed one is kept for a
 * block of the same size; blocks of HUGE bytes and more are pages of their own (base/pages.h), smaller ones
 * come from the heap. Blocks of less than LARGE bytes are those of base/thread_blocks.h.
 *
 * Kept are at most as many bytes as were in use together within the last KEEP_NS and are not now, or
 * CACHE_BYTES if that is more, and each for at most KEEP_NS while blocks are freed: what was freed first goes
 * first. So a step that repeats finds all of its blocks, and a process never has CACHE_BYTES more than a step
 * of its takes. Without that order the sizes of a phase that has ended would fill the cache for good, and
 * each block of the next would be mapped, faulted in and unmapped in each step.
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
  size_t cached, in_use;         /* guarded by mu; rounded bytes */
  size_t most, most_before; /* guarded by mu; in use together: in this window of KEEP_NS, and in the last */
  int64_t window_ns;        /* guarded by mu; when this one began */
} cpu_allocator_t;

/* Rounds up to a size class; false: no block is so large. */
static bool class_of(size_t bytes, size_t *rounded, int *index) {
  if (bytes > SIZE_MAX / 4) return false;
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

/* How much may be kept beside what is in use. */
static size_t limit_locked(const cpu_allocator_t *a) WEFT_REQUIRES(a->mu) {
  const size_t most = a->most > a->most_before ? a->most : a->most_before;
  return most > a->in_use && most - a->in_use > CACHE_BYTES ? most - a->in_use : CACHE_BYTES;
}

/* Takes out what is too much, or was freed before `since_ns`; a list by `next`. */
static free_block_t *evict_locked(cpu_allocator_t *a, int64_t since_ns) WEFT_REQUIRES(a->mu) {
  const size_t limit = limit_locked(a);
  free_block_t *evicted = NULL;
  while (a->oldest != NULL && (a->cached > limit || a->oldest->freed_ns < since_ns)) {
    free_block_t *b = a->oldest;
    take_locked(a, b);
    b->next = evicted;
    evicted = b;
  }
  return evicted;
}

static void give_back_all(free_block_t *evicted) {
  while (evicted != NULL) {
    free_block_t *b = evicted;
    evicted = b->next;
    give_back(b, b->bytes);
  }
}

static void begin_window_locked(cpu_allocator_t *a, int64_t now_ns) WEFT_REQUIRES(a->mu) {
  if (now_ns - a->window_ns <= KEEP_NS) return;
  a->most_before = now_ns - a->window_ns <= 2 * KEEP_NS ? a->most : a->in_use;
  a->most = a->in_use;
  a->window_ns = now_ns;
}

/* A kept block of that size, or NULL; then *evicted makes room for a new one. */
static free_block_t *take_kept(cpu_allocator_t *a, size_t rounded, int index, free_block_t **evicted) {
  weft_mutex_lock(&a->mu);
  free_block_t *b = a->lists[index];
  a->in_use += rounded;
  if (a->in_use > a->most) a->most = a->in_use;
  if (b != NULL) {
    take_locked(a, b);
  } else {
    *evicted = evict_locked(a, INT64_MIN);
  }
  weft_mutex_unlock(&a->mu);
  return b;
}

static void forget(cpu_allocator_t *a, size_t rounded) {
  weft_mutex_lock(&a->mu);
  a->in_use -= rounded;
  weft_mutex_unlock(&a->mu);
}

static void *allocate(weft_allocator_t *base, size_t bytes, weft_fence_t *after) {
  (void)after; /* the host has no queue */
  cpu_allocator_t *a = (cpu_allocator_t *)(void *)base;
  size_t rounded = bytes;
  int index;
  free_block_t *evicted = NULL;
  if (bytes < LARGE) return weft_thread_block_take(bytes);
  if (!class_of(bytes, &rounded, &index)) return NULL;
  void *p = take_kept(a, rounded, index, &evicted);
  if (p != NULL) return p;
  give_back_all(evicted);
  p = ask_system(rounded);
  if (p == NULL) forget(a, rounded);
  return p;
}

static void deallocate(weft_allocator_t *base, void *p, size_t bytes) {
  cpu_allocator_t *a = (cpu_allocator_t *)(void *)base;
  size_t rounded = bytes;
  int index = 0;
  if (p == NULL) return;
  if (bytes < LARGE) {
    weft_thread_block_give(p, bytes);
    return;
  }
  (void)class_of(bytes, &rounded, &index); /* it was allocated: it has one */
  free_block_t *b = p, *evicted;
  *b = (free_block_t){.bytes = rounded, .index = index, .freed_ns = weft_clock_ns()};
  weft_mutex_lock(&a->mu);
  begin_window_locked(a, b->freed_ns);
  a->in_use -= rounded;
  put_locked(a, b);
  evicted = evict_locked(a, b->freed_ns - KEEP_NS);
  weft_mutex_unlock(&a->mu);
  give_back_all(evicted);
}

weft_allocator_t *weft_cpu_allocator(void) {
  static cpu_allocator_t allocator = {
      .base = {.name = "cpu", .allocate = allocate, .deallocate = deallocate},
      .mu = WEFT_MUTEX_INITIALIZER,
  };
  return &allocator.base;
}
