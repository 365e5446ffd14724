/* device/loaded/loaded_device.c - what a loaded device is looked up by, and its end. */
#include "device/loaded/loaded_device.h"

#include <pthread.h>

#include "base/alloc.h"

static const weft_loaded_device_t *of(const weft_device_t *d) {
  while (d->alias_of != NULL) d = d->alias_of;
  return (const weft_loaded_device_t *)(const void *)d;
}

void *weft_loaded_device(const weft_device_t *d) { return of(d)->handle; }
weft_device_t *weft_loaded_host(const weft_device_t *d) { return of(d)->host; }

static void *close_device(void *arg) {
  weft_loaded_device_t *d = arg;
  if (d->handle != NULL) {
    weft_loaded_collectives_forget(d->handle);
    d->type->close(d->handle); /* the last callbacks of its queues, which may release memory, are over then */
  }
  weft_memory_holders_destroy(d->held);
  weft_free(d);
  return NULL;
}

void weft_loaded_device_let_go(weft_loaded_device_t *d, bool may_wait) {
  pthread_t thread;
  if (atomic_fetch_sub_explicit(&d->holders, 1, memory_order_acq_rel) != 1) return;
  if (!may_wait && pthread_create(&thread, NULL, close_device, d) == 0) {
    pthread_detach(thread);
  } else {
    (void)close_device(d);
  }
}
