/* tests/device/test_devices.c - see test_devices.h. */
#include "tests/device/test_devices.h"

#include <stdio.h>
#include <stdlib.h>

static void add(test_devices_t *d, const weft_device_driver_t *driver, int ordinal, weft_thread_pool_t *pool,
                weft_resource_manager_t *resources) {
  char name[64];
  snprintf(name, sizeof name, "/job:localhost/replica:0/task:0/device:%s:%d", driver->type, ordinal);
  const weft_device_spec_t spec = {
      .name = weft_str(name), .incarnation = 1, .pool = pool, .resources = resources};
  weft_status_t *s = driver->create(driver, &spec, ordinal, &d->all[d->n]);
  if (s == NULL) {
    d->n++;
    return;
  }
  fprintf(stderr, "a device for tests: %s\n", weft_status_message(s));
  exit(2);
}

void test_devices_init(test_devices_t *d, weft_thread_pool_t *pool, weft_resource_manager_t *resources) {
  const weft_device_driver_t *const *drivers = weft_device_drivers();
  d->n = 0;
  for (int k = 0; drivers[k] != NULL; k++) {
    for (int i = 0; i < weft_device_count(drivers[k]) && d->n < TEST_MAX_DEVICES; i++)
      add(d, drivers[k], i, pool, resources);
  }
}

void test_devices_deinit(test_devices_t *d) {
  for (int i = 0; i < d->n; i++) weft_device_destroy(d->all[i]);
}

static bool is_own(const weft_node_t *n, const weft_kernel_table_t *own) {
  return own != NULL && weft_kernel_table_find(own, n->op->name, n->attrs, n->num_attrs) != NULL;
}

void test_devices_place(const test_devices_t *d, weft_graph_t *g, const weft_kernel_table_t *own) {
  for (int i = 0; i < g->num_nodes; i++) {
    weft_node_t *n = g->nodes[i];
    if (n == NULL || n->assigned_device.length > 0 || is_own(n, own)) continue;
    int best = d->n - 1;
    while (best > 0 && weft_kernel_find(d->all[best]->type, n->op->name, n->attrs, n->num_attrs) == NULL)
      best--;
    while (d->all[best]->ordinal > 0) best--;
    n->assigned_device = d->all[best]->name;
  }
}
