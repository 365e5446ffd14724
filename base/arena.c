/* base/arena.c - bump allocation: aligned objects from the front of a block, texts from its back. */
#include "base/arena.h"

#include "base/alloc.h"

enum { ALIGN = 16, FIRST_BLOCK = 4096, MAX_BLOCK = 1 << 20 };

struct weft_arena_block {
  weft_arena_block_t *older;
  size_t size;
};

void weft_arena_deinit(weft_arena_t *a) {
  while (a->blocks != NULL) {
    weft_arena_block_t *older = a->blocks->older;
    weft_free(a->blocks);
    a->blocks = older;
  }
  *a = (weft_arena_t)WEFT_ARENA_INIT;
}

static bool grow(weft_arena_t *a, size_t size) {
  size_t block = a->blocks == NULL ? FIRST_BLOCK : a->blocks->size * 2;
  if (block > MAX_BLOCK) block = MAX_BLOCK;
  size_t head = (sizeof(weft_arena_block_t) + ALIGN - 1) & ~(size_t)(ALIGN - 1), need;
  if (!weft_add_size(size, head, &need)) return false;
  if (block < need) block = need;
  weft_arena_block_t *b = weft_malloc(block);
  if (b == NULL) return false;
  b->older = a->blocks;
  b->size = block;
  a->blocks = b;
  a->next = (char *)b + head;
  a->end = (char *)b + block;
  a->bytes += block;
  return true;
}

void *weft_arena_alloc(weft_arena_t *a, size_t size) {
  size_t padded;
  if (!weft_add_size(size, ALIGN - 1, &padded)) return NULL;
  padded &= ~(size_t)(ALIGN - 1);
  bool is_full = a->next == NULL || (size_t)(a->end - a->next) < padded; /* nothing also needs an address */
  if (is_full && !grow(a, padded)) return NULL;
  void *p = a->next;
  a->next += padded;
  return p;
}

void *weft_arena_calloc(weft_arena_t *a, size_t n, size_t size) {
  size_t total;
  if (!weft_mul_size(n, size, &total)) return NULL;
  void *p = weft_arena_alloc(a, total);
  if (p != NULL) memset(p, 0, total);
  return p;
}

weft_str_t weft_arena_str(weft_arena_t *a, weft_str_t s) {
  const weft_str_t none = {NULL, 0};
  size_t size;
  if (!weft_add_size(s.length, 1, &size)) return none;
  bool is_full = a->next == NULL || (size_t)(a->end - a->next) < size;
  if (is_full && !grow(a, size)) return none;
  a->end -= size;
  char *copy = a->end;
  if (s.length > 0) memcpy(copy, s.data, s.length);
  copy[s.length] = '\0';
  return weft_str_of(copy, s.length);
}
