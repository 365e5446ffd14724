/* base/pages.c - see the header. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

/* In whole pages of the system, which are no larger than a huge page. */
static size_t whole_pages(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) & ~(page - 1);
}

void *weft_pages_map(size_t bytes) {
  size_t room;
  if (weft_fault_strikes() || !weft_add_size(bytes, 2 * WEFT_HUGE_PAGE, &room)) return NULL;
  const size_t whole = whole_pages(bytes);
  char *p = mmap(NULL, whole + WEFT_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  /* What lies before the boundary and behind the block goes back. */
  const size_t before = -(uintptr_t)p & (WEFT_HUGE_PAGE - 1);
  if (before > 0) (void)munmap(p, before);
  p += before;
  (void)munmap(p + whole, WEFT_HUGE_PAGE - before);
  (void)madvise(p, bytes & ~(WEFT_HUGE_PAGE - 1), MADV_HUGEPAGE); /* refused: the pages are ordinary ones */
  return p;
}

void weft_pages_unmap(void *p, size_t bytes) {
  if (p != NULL) (void)munmap(p, whole_pages(bytes));
}
