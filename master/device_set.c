/* master/device_set.c - devices in order of preference (reference 3.3). */
#include "master/device_set.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "device/device.h"

static uint32_t type_bit(weft_str_t type) {
  const int i = weft_device_driver_index(type);
  return i < 0 ? 0 : UINT32_C(1) << i;
}

/* Copies `d`, named as a device of `task`. */
static weft_status_t *add_as(weft_device_set_t *s, weft_str_t task, const weft_device_attributes_t *d) {
  weft_str_t was = weft_device_task_part(d->name);
  weft_device_attributes_t named = *d;
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_append(&name, task);
  weft_strbuf_append(&name, weft_str_of(d->name.data + was.length, d->name.length - was.length));
  named.name = weft_str_of(name.data, name.length);
  bool known = false;
  for (int k = 0; k < s->list.n && !known; k++) known = weft_str_eq(s->list.devices[k].name, named.name);
  weft_status_t *status = name.failed ? WEFT_NO_MEMORY("a session's devices") : NULL;
  if (status == NULL && !known) status = weft_device_list_add(&s->list, &named);
  weft_strbuf_deinit(&name);
  return status;
}

weft_status_t *weft_device_set_add(weft_device_set_t *s, weft_str_t task,
                                   const weft_device_list_t *reported) {
  for (int i = 0; i < reported->n; i++) {
    weft_device_name_t name;
    WEFT_RETURN_IF_ERROR(weft_device_name_parse(reported->devices[i].name, &name));
    if (!weft_device_name_is_full(&name)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "a worker reported the device '%.*s', whose name is not complete",
                        WEFT_STR_ARGS(reported->devices[i].name));
    }
    WEFT_RETURN_IF_ERROR(add_as(s, task, &reported->devices[i]));
  }
  return NULL;
}

static int by_preference(const void *a, const void *b) {
  const weft_session_device_t *x = a, *y = b;
  if (x->type_bit != y->type_bit) return x->type_bit > y->type_bit ? -1 : 1;
  if (x->is_local != y->is_local) return x->is_local ? -1 : 1;
  return weft_str_compare(x->attributes.name, y->attributes.name);
}

weft_status_t *weft_device_set_finish(weft_device_set_t *s, weft_str_t master_task) {
  s->devices = weft_calloc((size_t)s->list.n, sizeof *s->devices);
  if (s->devices == NULL) return WEFT_NO_MEMORY("a session's devices");
  for (int i = 0; i < s->list.n; i++) {
    weft_session_device_t *d = &s->devices[i];
    d->attributes = s->list.devices[i];
    WEFT_RETURN_IF_ERROR(weft_device_name_parse(d->attributes.name, &d->name));
    d->task = weft_device_task_part(d->attributes.name);
    d->type_bit = type_bit(d->attributes.type);
    d->is_local = weft_str_eq(d->task, master_task);
  }
  s->n = s->list.n;
  qsort(s->devices, (size_t)s->n, sizeof *s->devices, by_preference);
  for (int i = 0; i < s->n; i++) {
    weft_session_device_t *d = &s->devices[i];
    WEFT_RETURN_IF_ERROR(weft_map_put(&s->by_name, d->attributes.name, d, NULL));
    if (s->client == NULL && d->is_local && d->type_bit == WEFT_HOST_TYPE) s->client = d;
  }
  if (s->client == NULL)
    return WEFT_ERROR(INTERNAL, "the master's task %.*s has no CPU", WEFT_STR_ARGS(master_task));
  return NULL;
}

void weft_device_set_deinit(weft_device_set_t *s) {
  weft_map_deinit(&s->by_name);
  weft_free(s->devices);
  weft_device_list_deinit(&s->list);
  *s = (weft_device_set_t){.list = {.arena = WEFT_ARENA_INIT}};
}

const weft_session_device_t *weft_device_set_find(const weft_device_set_t *s, weft_str_t full_name) {
  return weft_map_get(&s->by_name, full_name);
}

const weft_session_device_t *weft_device_set_choose(const weft_device_set_t *s,
                                                    const weft_device_name_t *pattern, uint32_t types) {
  for (int i = 0; i < s->n; i++) {
    const weft_session_device_t *d = &s->devices[i];
    if ((d->type_bit & types) != 0 && weft_device_name_matches(pattern, &d->name)) return d;
  }
  return NULL;
}

void weft_device_set_list(const weft_device_set_t *s, weft_name_list_t *out) {
  const weft_session_device_t *last = NULL;
  for (int i = 0; i < s->n && !weft_name_list_is_full(out); i++) { /* by name, as TensorFlow lists them */
    const weft_session_device_t *next = NULL;
    for (int k = 0; k < s->n; k++) {
      const weft_session_device_t *d = &s->devices[k];
      bool is_behind = last == NULL || weft_str_compare(d->attributes.name, last->attributes.name) > 0;
      if (is_behind && (next == NULL || weft_str_compare(d->attributes.name, next->attributes.name) < 0))
        next = d;
    }
    weft_name_list_add(out, "%.*s", WEFT_STR_ARGS(next->attributes.name));
    last = next;
  }
  out->n = s->n;
}
