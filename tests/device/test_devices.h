/* tests/device/test_devices.h - the devices of a task, for tests that compile plans themselves.
 *
 * As many of each driver as it counts: one of the host's, and in the _late programs (tools/defs.bzl) a LATE
 * one, to which nodes are moved that have a kernel there.
 */
#ifndef WEFT_TESTS_DEVICE_TEST_DEVICES_H_
#define WEFT_TESTS_DEVICE_TEST_DEVICES_H_

#include "device/device.h"
#include "executor/executor.h"

enum { TEST_MAX_DEVICES = 8 };

typedef struct test_devices {
  weft_device_t *all[TEST_MAX_DEVICES]; /* all[0] is the host's */
  int n;
} test_devices_t;

/* Ends the program if a device cannot be made. */
void test_devices_init(test_devices_t *d, weft_thread_pool_t *pool, weft_resource_manager_t *resources);
void test_devices_deinit(test_devices_t *d);
/* Assigns each node of `g` that has no device to the first device of the last type that has a kernel for it,
 * but ops of `own` (may be NULL), which stay with the host. */
void test_devices_place(const test_devices_t *d, weft_graph_t *g, const weft_kernel_table_t *own);

#endif /* WEFT_TESTS_DEVICE_TEST_DEVICES_H_ */
