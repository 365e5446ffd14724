/* device/cuda/arena.c - blocks of regions, in lists by size.
 *
 * All blocks of a region are linked in the order of their addresses. Free ones are in the list of their
 * class: four classes for each power of two. Blocks in use are found by their address in a hash table of
 * chains.
 *
 * Invariants: two neighbours are never both free; a class of a bitmap is marked when its list has a block.
 *
 * Locking: `mu` is held while the source is asked, which may take the driver's locks and no other of ours.
 */
#include "device/cuda/arena.h"

#include "base/alloc.h"
#include "base/mutex.h"

enum {
  NUM_CLASSES = 4 * 40, /* up to 2^(8+40) bytes */
  NUM_CHAINS = 4096,
  MAX_SEARCHED = 32, /* blocks of a class that can have a better fit */
};
static const size_t FIRST_REGION = (size_t)2 << 20;

typedef struct cuda_block {
  struct cuda_block *before, *behind; /* of its region */
  struct cuda_block *next, *previous; /* of its class, if it is free; `next` of its chain, if not */
  struct cuda_region *region;
  char *at;
  size_t bytes;
  uint64_t after;
  bool is_free;
} cuda_block_t;

typedef struct cuda_region {
  struct cuda_region *next;
  char *at;
  size_t bytes;
  bool is_kept;
} cuda_region_t;

struct weft_cuda_arena {
  weft_cuda_arena_source_t source;
  bool grow;
  weft_mutex_t mu;
  /* guarded by mu: */
  cuda_region_t *regions;
  cuda_block_t *classes[NUM_CLASSES];
  cuda_block_t *chains[NUM_CHAINS];
  cuda_block_t *spare; /* block structs for which there is no block, by `next` */
  size_t next_region;
  weft_cuda_arena_statistics_t statistics;
};

static int class_of(size_t bytes) {
  const size_t units = bytes / WEFT_CUDA_ALIGNMENT; /* at least 1 */
  const int top = 63 - __builtin_clzll(units);
  const int quarter = top < 2 ? 0 : (int)(units >> (top - 2)) & 3;
  const int c = 4 * top + quarter;
  return c < NUM_CLASSES ? c : NUM_CLASSES - 1;
}

static size_t chain_of(const void *p) {
  return (size_t)(((uint64_t)(uintptr_t)p >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

static void enlist_locked(weft_cuda_arena_t *a, cuda_block_t *b) {
  cuda_block_t **list = &a->classes[class_of(b->bytes)];
  b->is_free = true;
  b->previous = NULL;
  b->next = *list;
  if (*list != NULL) (*list)->previous = b;
  *list = b;
}

static void unlist_locked(weft_cuda_arena_t *a, cuda_block_t *b) {
  if (b->previous != NULL) {
    b->previous->next = b->next;
  } else {
    a->classes[class_of(b->bytes)] = b->next;
  }
  if (b->next != NULL) b->next->previous = b->previous;
  b->next = b->previous = NULL;
  b->is_free = false;
}

static cuda_block_t *new_block_locked(weft_cuda_arena_t *a) {
  cuda_block_t *b = a->spare;
  if (b == NULL) return weft_calloc(1, sizeof *b);
  a->spare = b->next;
  *b = (cuda_block_t){0};
  return b;
}

static void spare_block_locked(weft_cuda_arena_t *a, cuda_block_t *b) {
  b->next = a->spare;
  a->spare = b;
}

/* The smallest of the blocks that fit, of the first class that has one. */
static cuda_block_t *best_fit_locked(weft_cuda_arena_t *a, size_t bytes) {
  for (int c = class_of(bytes); c < NUM_CLASSES; c++) {
    cuda_block_t *best = NULL;
    int searched = 0;
    for (cuda_block_t *b = a->classes[c]; b != NULL; b = b->next) {
      if (b->bytes >= bytes && (best == NULL || b->bytes < best->bytes)) best = b;
      if (best != NULL && (best->bytes == bytes || ++searched == MAX_SEARCHED)) break;
    }
    if (best != NULL) return best;
  }
  return NULL;
}

static bool add_region_locked(weft_cuda_arena_t *a, size_t bytes) {
  cuda_region_t *r = weft_calloc(1, sizeof *r);
  cuda_block_t *b = new_block_locked(a);
  void *p = r != NULL && b != NULL ? a->source.get(a->source.arg, bytes) : NULL;
  if (p == NULL) {
    weft_free(r);
    if (b != NULL) spare_block_locked(a, b);
    return false;
  }
  *r = (cuda_region_t){.next = a->regions, .at = p, .bytes = bytes};
  a->regions = r;
  a->statistics.reserved += bytes;
  *b = (cuda_block_t){.region = r, .at = p, .bytes = bytes};
  enlist_locked(a, b);
  return true;
}

/* Another region with room for `bytes`: the usual size of one, or as much as there is. */
static bool extend_locked(weft_cuda_arena_t *a, size_t bytes) {
  const size_t left = a->statistics.limit - a->statistics.reserved;
  if (bytes > left) return false;
  size_t wanted = a->grow ? a->next_region : left;
  while (wanted < bytes) wanted *= 2;
  if (wanted > left) wanted = left;
  for (;;) { /* a tenth less each time, as TensorFlow */
    if (add_region_locked(a, wanted)) {
      if (a->next_region < wanted * 2) a->next_region = wanted * 2;
      return true;
    }
    if (wanted == bytes) return false;
    wanted = wanted / 10 * 9 / WEFT_CUDA_ALIGNMENT * WEFT_CUDA_ALIGNMENT;
    if (wanted < bytes) wanted = bytes;
  }
}

/* Gives back regions that are free as a whole and that no work uses any more. */
static bool shrink_locked(weft_cuda_arena_t *a) {
  const uint64_t passed = a->source.passed(a->source.arg);
  bool gave = false;
  for (int c = 0; c < NUM_CLASSES; c++) {
    for (cuda_block_t *b = a->classes[c], *next; b != NULL; b = next) {
      next = b->next;
      cuda_region_t *r = b->region;
      if (b->bytes != r->bytes || b->after > passed || r->is_kept) continue;
      unlist_locked(a, b);
      spare_block_locked(a, b);
      for (cuda_region_t **at = &a->regions; *at != NULL; at = &(*at)->next) {
        if (*at == r) {
          *at = r->next;
          break;
        }
      }
      a->source.give_back(a->source.arg, r->at, r->bytes);
      a->statistics.reserved -= r->bytes;
      weft_free(r);
      gave = true;
    }
  }
  return gave;
}

/* What `b` has beyond `bytes` becomes a free block. */
static void split_locked(weft_cuda_arena_t *a, cuda_block_t *b, size_t bytes) {
  cuda_block_t *rest = b->bytes > bytes ? new_block_locked(a) : NULL;
  if (rest == NULL) return; /* without memory for it the block stays larger */
  *rest = (cuda_block_t){.before = b,
                         .behind = b->behind,
                         .region = b->region,
                         .at = b->at + bytes,
                         .bytes = b->bytes - bytes,
                         .after = b->after};
  if (b->behind != NULL) b->behind->before = rest;
  b->behind = rest;
  b->bytes = bytes;
  enlist_locked(a, rest);
}

weft_cuda_arena_t *weft_cuda_arena_create(const weft_cuda_arena_source_t *source, size_t limit, bool grow) {
  weft_cuda_arena_t *a = weft_calloc(1, sizeof *a);
  if (a == NULL) return NULL;
  weft_mutex_init(&a->mu);
  a->source = *source;
  a->grow = grow;
  a->next_region = FIRST_REGION;
  a->statistics.limit = limit / WEFT_CUDA_ALIGNMENT * WEFT_CUDA_ALIGNMENT;
  return a;
}

void weft_cuda_arena_destroy(weft_cuda_arena_t *a) {
  if (a == NULL) return;
  for (int c = 0; c < NUM_CLASSES + NUM_CHAINS + 1; c++) {
    cuda_block_t *b = c < NUM_CLASSES                ? a->classes[c]
                      : c < NUM_CLASSES + NUM_CHAINS ? a->chains[c - NUM_CLASSES]
                                                     : a->spare;
    for (cuda_block_t *next; b != NULL; b = next) {
      next = b->next;
      weft_free(b);
    }
  }
  for (cuda_region_t *r = a->regions, *next; r != NULL; r = next) {
    next = r->next;
    a->source.give_back(a->source.arg, r->at, r->bytes);
    weft_free(r);
  }
  weft_mutex_deinit(&a->mu);
  weft_free(a);
}

void *weft_cuda_arena_allocate(weft_cuda_arena_t *a, size_t bytes, uint64_t *after) {
  if (bytes > SIZE_MAX - WEFT_CUDA_ALIGNMENT) return NULL;
  size_t rounded = (bytes + WEFT_CUDA_ALIGNMENT - 1) / WEFT_CUDA_ALIGNMENT * WEFT_CUDA_ALIGNMENT;
  if (rounded == 0) rounded = WEFT_CUDA_ALIGNMENT;
  void *p = NULL;
  weft_mutex_lock(&a->mu);
  cuda_block_t *b = best_fit_locked(a, rounded);
  if (b == NULL && (extend_locked(a, rounded) || (shrink_locked(a) && extend_locked(a, rounded)))) {
    b = best_fit_locked(a, rounded);
  }
  if (b != NULL) {
    unlist_locked(a, b);
    split_locked(a, b, rounded);
    cuda_block_t **chain = &a->chains[chain_of(b->at)];
    b->next = *chain;
    *chain = b;
    p = b->at;
    *after = b->after > a->source.passed(a->source.arg) ? b->after : 0;
    weft_cuda_arena_statistics_t *s = &a->statistics;
    s->in_use += b->bytes;
    s->num_in_use++;
    s->num_allocations++;
    if (s->peak < s->in_use) s->peak = s->in_use;
  }
  weft_mutex_unlock(&a->mu);
  return p;
}

/* `b` takes in its free neighbour `other`, which lies behind it. */
static void join_locked(weft_cuda_arena_t *a, cuda_block_t *b, cuda_block_t *other) {
  b->bytes += other->bytes;
  if (b->after < other->after) b->after = other->after;
  b->behind = other->behind;
  if (b->behind != NULL) b->behind->before = b;
  spare_block_locked(a, other);
}

void weft_cuda_arena_free(weft_cuda_arena_t *a, void *p, uint64_t used) {
  if (p == NULL) return;
  weft_mutex_lock(&a->mu);
  cuda_block_t **at = &a->chains[chain_of(p)];
  while (*at != NULL && (*at)->at != p) at = &(*at)->next;
  cuda_block_t *b = *at;
  if (b != NULL) {
    *at = b->next;
    b->next = NULL;
    a->statistics.in_use -= b->bytes;
    a->statistics.num_in_use--;
    if (b->after < used) b->after = used;
    if (b->behind != NULL && b->behind->is_free) {
      unlist_locked(a, b->behind);
      join_locked(a, b, b->behind);
    }
    if (b->before != NULL && b->before->is_free) {
      cuda_block_t *before = b->before;
      unlist_locked(a, before);
      join_locked(a, before, b);
      b = before;
    }
    enlist_locked(a, b);
  }
  weft_mutex_unlock(&a->mu);
}

/* NULL: the address is of no region. */
static cuda_region_t *region_of_locked(weft_cuda_arena_t *a, const void *p) {
  cuda_region_t *r = a->regions;
  while (r != NULL && ((uintptr_t)p < (uintptr_t)r->at || (uintptr_t)p - (uintptr_t)r->at >= r->bytes))
    r = r->next;
  return r;
}

bool weft_cuda_arena_has(weft_cuda_arena_t *a, const void *p) {
  weft_mutex_lock(&a->mu);
  const bool has = region_of_locked(a, p) != NULL;
  weft_mutex_unlock(&a->mu);
  return has;
}

bool weft_cuda_arena_keep_region(weft_cuda_arena_t *a, const void *p, void **out_at, size_t *out_bytes) {
  weft_mutex_lock(&a->mu);
  cuda_region_t *r = region_of_locked(a, p);
  if (r != NULL) {
    r->is_kept = true;
    *out_at = r->at;
    *out_bytes = r->bytes;
  }
  weft_mutex_unlock(&a->mu);
  return r != NULL;
}

void weft_cuda_arena_statistics(weft_cuda_arena_t *a, weft_cuda_arena_statistics_t *out) {
  weft_mutex_lock(&a->mu);
  *out = a->statistics;
  out->largest_free = 0;
  for (int c = NUM_CLASSES - 1; c >= 0 && out->largest_free == 0; c--) {
    for (const cuda_block_t *b = a->classes[c]; b != NULL; b = b->next) {
      if (b->bytes > out->largest_free) out->largest_free = b->bytes;
    }
  }
  weft_mutex_unlock(&a->mu);
}
