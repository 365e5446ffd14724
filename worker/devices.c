/* worker/devices.c - makes devices by number, or after those of another set. */
#include "worker/devices.h"

#include "base/alloc.h"
#include "base/random.h"
#include "device/device_name.h"
#include "kernels/resource.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a task's devices"); }

static weft_str_t behind_task(weft_str_t device) {
  size_t task = weft_device_task_part(device).length;
  return weft_str_of(device.data + task, device.length - task);
}

void weft_devices_deinit(weft_devices_t *d) {
  for (int i = 0; d->all != NULL && i < d->n; i++) weft_device_destroy(d->all[i]);
  for (int i = 0; d->resources != NULL && i < d->n; i++) weft_resource_manager_destroy(d->resources[i]);
  weft_free(d->all);
  weft_free(d->resources);
  *d = (weft_devices_t){NULL, 0, NULL};
}

/* Room for `n`, and resources if `has_resources`. */
static weft_status_t *allocate(weft_str_t task, int n, bool has_resources, weft_devices_t *d) {
  weft_device_name_t parsed;
  WEFT_RETURN_IF_ERROR(weft_device_name_parse(task, &parsed));
  d->all = weft_calloc((size_t)n, sizeof *d->all);
  if (d->all == NULL) return no_memory();
  d->n = n;
  if (!has_resources) return NULL;
  d->resources = weft_calloc((size_t)n, sizeof *d->resources);
  if (d->resources == NULL) return no_memory();
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(weft_resource_manager_create_for(parsed.job, &d->resources[i]));
  return NULL;
}

static weft_status_t *add(weft_devices_t *d, int i, weft_str_t task, weft_str_t local, uint64_t incarnation,
                          weft_thread_pool_t *pool, weft_resource_manager_t *resources) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_append(&name, task);
  weft_strbuf_append(&name, local);
  weft_status_t *s = name.failed ? no_memory() : NULL;
  if (s == NULL) {
    s = weft_cpu_device_create(weft_str_of(name.data, name.length), incarnation, pool,
                               d->resources != NULL ? d->resources[i] : resources, &d->all[i]);
  }
  weft_strbuf_deinit(&name);
  return s;
}

weft_status_t *weft_devices_create(weft_str_t task, int n, weft_thread_pool_t *pool, weft_devices_t *out) {
  weft_devices_t d = {NULL, 0, NULL};
  if (n > WEFT_MAX_CPUS) return WEFT_ERROR(INVALID_ARGUMENT, "a task of %d CPU devices; at most %d", n, WEFT_MAX_CPUS);
  weft_status_t *s = allocate(task, n, true, &d);
  for (int i = 0; s == NULL && i < n; i++) {
    weft_strbuf_t local = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&local, "/device:CPU:%d", i);
    s = local.failed ? no_memory() : add(&d, i, task, weft_str_of(local.data, local.length), weft_random_id(), pool, NULL);
    weft_strbuf_deinit(&local);
  }
  if (s != NULL) {
    weft_devices_deinit(&d);
    return s;
  }
  *out = d;
  return NULL;
}

weft_status_t *weft_devices_rename(const weft_devices_t *of, weft_str_t task, bool isolate, weft_devices_t *out) {
  weft_devices_t d = {NULL, 0, NULL};
  weft_status_t *s = allocate(task, of->n, isolate, &d);
  for (int i = 0; s == NULL && i < of->n; i++) {
    const weft_device_t *from = of->all[i];
    s = add(&d, i, task, behind_task(from->name), from->incarnation, from->pool, from->resources);
  }
  if (s != NULL) {
    weft_devices_deinit(&d);
    return s;
  }
  *out = d;
  return NULL;
}

weft_device_t *weft_devices_find(const weft_devices_t *d, weft_str_t name) {
  weft_str_t local = behind_task(name);
  for (int i = 0; i < d->n; i++) {
    if (weft_str_eq(behind_task(d->all[i]->name), local)) return d->all[i];
  }
  return NULL;
}
