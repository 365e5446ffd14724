/* tests/cuda/fake/memory.c - device memory: first fit among allocations by address. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/fake/machine.h"

enum { GRAIN = 512, SPOILT = 0xa5, PAGE = 4096 };

bool fake_memory_create(fake_device_t *d, size_t bytes) {
  const size_t opened = FAKE_MAX_OPENED * sizeof *d->opened;
  d->file = memfd_create("weft-fake-cuda", MFD_CLOEXEC);
  if (d->file < 0 || ftruncate(d->file, (off_t)(bytes + opened)) != 0) return false;
  d->front = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  d->back = mmap(NULL, bytes + opened, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, d->file, 0);
  d->bytes = bytes;
  if (d->front == MAP_FAILED || d->back == MAP_FAILED) return false;
  d->opened = (fake_opened_t *)(void *)(d->back + bytes);
  return true;
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
  *a = (fake_allocation_t){.next = *link, .at = at, .bytes = bytes, .serial = ++d->num_allocations};
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
  if (fake_is_open_elsewhere(d, a->serial)) fake_fault("memory was freed that another process has open");
  *link = a->next;
  char *back = d->back + (a->at - d->front);
  if (a->bytes <= (size_t)64 << 20) {
    memset(back, SPOILT, a->bytes);
  } else { /* pages that were never touched stay untouched */
    (void)madvise(back, a->bytes / PAGE * PAGE, MADV_REMOVE);
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
  const fake_import_t *import = fake_import_of(p);
  return import == NULL ? NULL : &fake.devices[import->device];
}

bool fake_memory_is_valid(const void *p, size_t bytes) {
  const fake_device_t *d = fake_memory_owner(p);
  if (d == NULL) return p != NULL;
  const fake_import_t *import = fake_import_of(p);
  if (import != NULL) return bytes <= import->bytes - (size_t)((const char *)p - import->front);
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
  const fake_import_t *import = fake_import_of(p);
  if (import != NULL) return import->back + ((const char *)p - import->front);
  const fake_device_t *d = fake_memory_owner(p);
  return d == NULL ? (void *)(uintptr_t)p : d->back + ((const char *)p - d->front);
}
