/* worker/devices.c - makes devices by number, or after those of another set. */
#include "worker/devices.h"

#include "base/alloc.h"
#include "base/random.h"
#include "device/device_name.h"
#include "device/holds.h"
#include "kernels/kernel.h"
#include "kernels/loaded/library.h"
#include "resources/resource.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a task's devices"); }

static weft_str_t behind_task(weft_str_t device) {
  size_t task = weft_device_task_part(device).length;
  return weft_str_of(device.data + task, device.length - task);
}

void weft_devices_deinit(weft_devices_t *d) {
  /* What works behind the resources of one device may call a function on another, and look up resources
   * there, until it has ended: all end before anything goes. */
  for (int i = 0; d->resources != NULL && i < d->n; i++) {
    if (d->resources[i] != NULL) weft_resource_manager_clear(d->resources[i]);
  }
  for (int i = 0; d->all != NULL && i < d->n; i++) {
    if (d->all[i] != NULL) weft_device_wait_for_holds(d->all[i]);
  }
  /* Then what lies in the devices' memories. */
  for (int i = 0; d->resources != NULL && i < d->n; i++) weft_resource_manager_destroy(d->resources[i]);
  for (int i = 0; d->all != NULL && i < d->n; i++) weft_device_destroy(d->all[i]);
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
  for (int i = 0; i < n; i++)
    WEFT_RETURN_IF_ERROR(weft_resource_manager_create_for(parsed.job, &d->resources[i]));
  return NULL;
}

/* Device number `ordinal` of a driver as number `i`. */
static weft_status_t *add(weft_devices_t *d, int i, weft_str_t task, const weft_device_driver_t *driver,
                          int ordinal, const weft_accelerator_options_t *accelerators,
                          weft_thread_pool_t *pool) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s/device:%s:%d", WEFT_STR_ARGS(task), driver->type, ordinal);
  const weft_device_spec_t spec = {.name = weft_str_of(name.data, name.length),
                                   .incarnation = weft_random_id(),
                                   .pool = pool,
                                   .resources = d->resources[i],
                                   .accelerators = accelerators};
  weft_status_t *s = name.failed ? no_memory() : driver->create(driver, &spec, ordinal, &d->all[i]);
  weft_strbuf_deinit(&name);
  return s;
}

static weft_status_t *add_alias(weft_devices_t *d, int i, weft_str_t task, const weft_device_t *of) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_append(&name, task);
  weft_strbuf_append(&name, behind_task(of->name));
  const weft_device_spec_t spec = {.name = weft_str_of(name.data, name.length),
                                   .incarnation = of->incarnation,
                                   .pool = of->pool,
                                   .resources = d->resources != NULL ? d->resources[i] : of->resources};
  weft_status_t *s = name.failed ? no_memory() : weft_device_alias(of, &spec, &d->all[i]);
  weft_strbuf_deinit(&name);
  return s;
}

/* How many devices of that type a task has. */
static weft_status_t *count(const weft_device_driver_t *driver, int num_cpus,
                            const weft_accelerator_options_t *o, int *out) {
  const bool is_limited = o != NULL && o->is_limited && strcmp(driver->type, "GPU") == 0;
  *out = driver == &weft_cpu_driver ? num_cpus : weft_device_count(driver);
  if (driver == &weft_cpu_driver || o == NULL || *out == 0) return NULL;
  if (is_limited && o->max_devices == 0) {
    *out = 0;
    return NULL;
  }
  if (o->wrong[0] != '\0') return WEFT_ERROR(INVALID_ARGUMENT, "%s", o->wrong);
  WEFT_RETURN_IF_ERROR(driver->count(driver, o, out));
  if (is_limited && *out > o->max_devices) *out = o->max_devices;
  return NULL;
}

static void introduce(const weft_devices_t *d) {
  for (int i = 0; i < d->n; i++) {
    d->all[i]->siblings = d->all;
    d->all[i]->num_siblings = d->n;
  }
}

weft_status_t *weft_devices_create(weft_str_t task, int num_cpus,
                                   const weft_accelerator_options_t *accelerators, weft_thread_pool_t *pool,
                                   weft_devices_t *out) {
  weft_devices_t d = {NULL, 0, NULL};
  const weft_device_driver_t *const *drivers = weft_device_drivers();
  int counts[WEFT_MAX_DRIVERS], n = 0, at = 0;
  weft_device_libraries_load();
  if (num_cpus > WEFT_MAX_CPUS)
    return WEFT_ERROR(INVALID_ARGUMENT, "a task of %d CPU devices; at most %d", num_cpus, WEFT_MAX_CPUS);
  for (int k = 0; drivers[k] != NULL; k++) {
    WEFT_RETURN_IF_ERROR(count(drivers[k], num_cpus, accelerators, &counts[k]));
    n += counts[k];
  }
  weft_status_t *s = allocate(task, n, true, &d);
  for (int k = 0; s == NULL && drivers[k] != NULL; k++) {
    for (int i = 0; s == NULL && i < counts[k]; i++)
      s = add(&d, at++, task, drivers[k], i, accelerators, pool);
  }
  if (s != NULL) {
    weft_devices_deinit(&d);
    return s;
  }
  introduce(&d);
  *out = d;
  return NULL;
}

weft_status_t *weft_devices_rename(const weft_devices_t *of, weft_str_t task, bool isolate,
                                   weft_devices_t *out) {
  weft_devices_t d = {NULL, 0, NULL};
  weft_status_t *s = allocate(task, of->n, isolate, &d);
  for (int i = 0; s == NULL && i < of->n; i++) s = add_alias(&d, i, task, of->all[i]);
  if (s != NULL) {
    weft_devices_deinit(&d);
    return s;
  }
  introduce(&d);
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

uint32_t weft_devices_supporting(const weft_node_t *n) {
  if ((n->flags & WEFT_OP_UNREGISTERED) != 0) return 0;
  if (n->function != NULL) return ~0u;
  const weft_device_driver_t *const *drivers = weft_device_drivers();
  uint32_t types = 0;
  for (int i = 0; drivers[i] != NULL; i++) {
    if (weft_kernel_find(drivers[i]->type, n->op->name, n->attrs, n->num_attrs) != NULL)
      types |= UINT32_C(1) << i;
  }
  return types;
}

weft_status_t *weft_devices_missing(const weft_node_t *n) {
  return weft_kernel_missing(n->op, n->name, n->attrs, n->num_attrs);
}
