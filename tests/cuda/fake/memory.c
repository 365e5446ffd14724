/* tests/cuda/fake/memory.c - device memory: first fit among allocations by address. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/fake/machine.h"

enum { GRAIN = 512, SPOILT = 0xa5 };

bool fake_memory_create(fake_device_t *d, size_t bytes) {
  d->front = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  d->back = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  d->bytes = bytes;
  return d->front != MAP_FAILED && d->back != MAP_FAILED;
}

void *fake_memory_allocate(fake_device_t *d, size_t bytes) {
  const size_t rounded = (bytes + GRAIN - 1) / GRAIN * GRAIN;
  char *at = d->front;
  fake_allocation_t **link = &d->allocations;
  while (*link != NULL && (size_t)((*link)->at - at) < rounded) {
    at = (*link)->at + ((*link)->bytes + GRAIN - 1) / GRAIN * GRAIN;
    link = &(*link)->next;
  }
  if ((size_t)(d->front + d->bytes - at) < rounded) return NULL;
  fake_allocation_t *a = calloc(1, sizeof *a);
  if (a == NULL) return NULL;
  *a = (fake_allocation_t){.next = *link, .at = at, .bytes = bytes};
  *link = a;
  d->allocated += bytes;
  fake.live.allocations++;
  fake.live.allocated_bytes += bytes;
  return at;
}

bool fake_memory_free(fake_device_t *d, void *p) {
  fake_allocation_t **link = &d->allocations;
  while (*link != NULL && (*link)->at != (char *)p) link = &(*link)->next;
  fake_allocation_t *a = *link;
  if (a == NULL) return false;
  *link = a->next;
  char *back = d->back + (a->at - d->front);
  if (a->bytes <= (size_t)64 << 20) {
    memset(back, SPOILT, a->bytes);
  } else { /* pages that were never touched stay untouched */
    (void)madvise(back, a->bytes, MADV_DONTNEED);
  }
  d->allocated -= a->bytes;
  fake.live.allocations--;
  fake.live.allocated_bytes -= a->bytes;
  free(a);
  return true;
}

fake_device_t *fake_memory_owner(const void *p) {
  const uintptr_t at = (uintptr_t)p;
  for (int i = 0; i < fake.num_devices; i++) {
    fake_device_t *d = &fake.devices[i];
    if (at >= (uintptr_t)d->front && at - (uintptr_t)d->front < d->bytes) return d;
  }
  return NULL;
}

bool fake_memory_is_valid(const void *p, size_t bytes) {
  const fake_device_t *d = fake_memory_owner(p);
  if (d == NULL) return p != NULL;
  for (const fake_allocation_t *a = d->allocations; a != NULL; a = a->next) {
    const uintptr_t at = (uintptr_t)p - (uintptr_t)a->at;
    if ((uintptr_t)p >= (uintptr_t)a->at && at < a->bytes) return bytes <= a->bytes - at;
  }
  return false;
}

bool fake_memory_is_pinned(const void *p, size_t bytes) {
  for (int i = 0; i < FAKE_PINNED_MAX; i++) {
    const uintptr_t at = (uintptr_t)p - (uintptr_t)fake.pinned[i].at;
    if (fake.pinned[i].at != NULL && (uintptr_t)p >= (uintptr_t)fake.pinned[i].at &&
        at < fake.pinned[i].bytes) {
      return bytes <= fake.pinned[i].bytes - at;
    }
  }
  return false;
}

void *fake_memory_bytes(const void *p) {
  const fake_device_t *d = fake_memory_owner(p);
  return d == NULL ? (void *)(uintptr_t)p : d->back + ((const char *)p - d->front);
}
