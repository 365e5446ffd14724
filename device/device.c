/* device/device.c - what all devices have in common. */
#include "device/device.h"

#include "base/alloc.h"
#include "device/holds.h"

weft_status_t *weft_device_init(weft_device_t *d, const weft_device_spec_t *spec) {
  char *name = weft_strndup(spec->name.data == NULL ? "" : spec->name.data, spec->name.length);
  weft_memory_accounts_t *memory = weft_memory_accounts_create(d->allocator);
  if (name == NULL || memory == NULL) {
    weft_free(name);
    weft_memory_accounts_release(memory);
    return WEFT_NO_MEMORY("creating device '%.*s'", WEFT_STR_ARGS(spec->name));
  }
  d->name = weft_str_of(name, spec->name.length);
  d->type = d->driver->type;
  if (d->physical == NULL) d->physical = "";
  d->incarnation = spec->incarnation;
  d->memory = memory;
  d->pool = spec->pool;
  d->resources = spec->resources;
  return NULL;
}

void weft_device_deinit(weft_device_t *d) {
  weft_memory_accounts_release(d->memory);
  weft_free((void *)(uintptr_t)d->name.data);
}

weft_status_t *weft_device_alias(const weft_device_t *of, const weft_device_spec_t *spec,
                                 weft_device_t **out) {
  weft_device_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return WEFT_NO_MEMORY("creating device '%.*s'", WEFT_STR_ARGS(spec->name));
  *d = *of;
  d->alias_of = of;
  d->holds = 0;
  weft_status_t *s = weft_device_init(d, spec);
  if (s != NULL) {
    weft_free(d);
    return s;
  }
  *out = d;
  return NULL;
}

void weft_device_destroy(weft_device_t *d) {
  if (d == NULL) return;
  weft_device_wait_for_holds(d);
  if (d->alias_of == NULL) {
    d->driver->destroy(d);
    return;
  }
  weft_device_deinit(d);
  weft_free(d);
}
