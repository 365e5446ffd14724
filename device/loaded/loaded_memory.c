/* device/loaded/loaded_memory.c - the allocators of a loaded device.
 *
 * Its own memory is given back in the order of the compute queue: the library gets a mark behind the work
 * that the queue has got so far. Host memory has no order: the copies that use it hold its tensors.
 */
#include "device/loaded/loaded_device.h"

static weft_loaded_device_t *device_of(weft_allocator_t *a) {
  return ((weft_loaded_allocator_t *)(void *)a)->device;
}

static void *allocate(weft_allocator_t *self, size_t bytes, weft_fence_t *after) {
  weft_loaded_device_t *d = device_of(self);
  uint64_t value = 0;
  void *p = d->type->allocate(d->handle, bytes, &value);
  if (p == NULL) return NULL;
  if (!weft_memory_holders_add(d->held, p, bytes)) {
    d->type->deallocate(d->handle, p, bytes, value);
    return NULL;
  }
  if (value != 0) *after = (weft_fence_t){d->base.compute, value};
  return p;
}

static void deallocate(weft_allocator_t *self, void *p, size_t bytes) {
  weft_loaded_device_t *d = device_of(self);
  if (p == NULL) return;
  weft_memory_holders_remove(d->held, p);
  d->type->deallocate(d->handle, p, bytes, weft_queue_mark(d->base.compute).value);
}

void weft_loaded_memory_state(void *device, weft_memory_state_t *out) {
  const weft_loaded_device_t *d = device;
  WEFT_DeviceMemory m = {.size = sizeof m, .largest_free = -1};
  if (d->type->memory != NULL) d->type->memory(d->handle, &m);
  *out = (weft_memory_state_t){.limit = d->base.memory_limit, .largest_free = m.largest_free};
}

static void *host_allocate(weft_allocator_t *self, size_t bytes, weft_fence_t *after) {
  (void)after;
  weft_loaded_device_t *d = device_of(self);
  void *p = d->type->host_allocate(d->handle, bytes);
  if (p != NULL) atomic_fetch_add_explicit(&d->holders, 1, memory_order_relaxed);
  return p;
}

static void host_deallocate(weft_allocator_t *self, void *p, size_t bytes) {
  weft_loaded_device_t *d = device_of(self);
  if (p == NULL) return;
  d->type->host_deallocate(d->handle, p, bytes);
  weft_loaded_device_let_go(d, false);
}

void weft_loaded_memory_init(weft_loaded_device_t *d, const char *name) {
  d->space.device = &d->base;
  d->memory = (weft_loaded_allocator_t){
      .base = {.name = name, .space = &d->space, .allocate = allocate, .deallocate = deallocate},
      .device = d};
  d->pinned = (weft_loaded_allocator_t){
      .base = {.name = "pinned", .allocate = host_allocate, .deallocate = host_deallocate}, .device = d};
  d->base.space = &d->space;
  d->base.allocator = &d->memory.base;
  d->base.host_allocator = d->type->host_allocate != NULL ? &d->pinned.base : weft_cpu_allocator();
}
