/* base/alloc.c - malloc with a fault injector in front. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

static atomic_long until_fault = -1;
static atomic_bool fired;

void weft_fault_arm(long nth) {
  atomic_store(&fired, false);
  atomic_store(&until_fault, nth);
}

bool weft_fault_fired(void) { return atomic_load(&fired); }

bool weft_fault_strikes(void) {
  /* Relaxed: outside tests the counter never changes, and this is a hot path. */
  if (atomic_load_explicit(&until_fault, memory_order_relaxed) < 0) return false;
  if (atomic_fetch_sub(&until_fault, 1) != 0) return false;
  atomic_store(&fired, true);
  return true;
}

bool weft_mul_size(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

bool weft_add_size(size_t a, size_t b, size_t *out) {
  size_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

/* glibc keeps small blocks for each thread, without a lock, for malloc alone. */
enum { MALLOC_IS_FASTER = 1024 };

void *weft_calloc(size_t n, size_t size) {
  size_t total;
  if (n == 0 || size == 0) n = size = 1;
  if (weft_fault_strikes()) return NULL;
  if (!weft_mul_size(n, size, &total) || total > MALLOC_IS_FASTER) return calloc(n, size);
  void *p = malloc(total);
  __asm__("" : "+r"(p)); /* else the compiler makes a calloc of the two */
  return p == NULL ? NULL : memset(p, 0, total);
}

void *weft_malloc(size_t size) { return weft_fault_strikes() ? NULL : malloc(size > 0 ? size : 1); }

void *weft_realloc(void *p, size_t n, size_t size) {
  size_t total;
  if (!weft_mul_size(n, size, &total) || weft_fault_strikes()) return NULL;
  return realloc(p, total > 0 ? total : 1);
}

void *weft_aligned_alloc(size_t alignment, size_t size) {
  size_t padded;
  if (weft_fault_strikes() || !weft_add_size(size, alignment - 1, &padded)) return NULL;
  padded &= ~(alignment - 1);
  return aligned_alloc(alignment, padded > 0 ? padded : alignment);
}

char *weft_strndup(const char *text, size_t length) {
  size_t size;
  char *copy = weft_add_size(length, 1, &size) ? weft_malloc(size) : NULL;
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

char *weft_strdup(const char *text) { return weft_strndup(text, strlen(text)); }

void weft_free(void *p) { free(p); }
