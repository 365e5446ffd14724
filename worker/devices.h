/* worker/devices.h - the devices that a task offers, or that a session calls its own.
 *
 * Each has a name, an incarnation and resources of its own: a variable of one
 * name on two devices is two variables. All compute on one pool.
 */
#ifndef WEFT_WORKER_DEVICES_H_
#define WEFT_WORKER_DEVICES_H_

#include "device/device.h"
#include "graph/graph.h"

enum { WEFT_MAX_CPUS = 4096 };

typedef struct weft_devices { /* Immutable once filled. */
  weft_device_t **all;        /* n; in order of their numbers; owned */
  int n;
  weft_resource_manager_t **resources; /* n; owned; NULL: the devices use those of others */
} weft_devices_t;

/* "<task>/device:CPU:0" .. "CPU:<num_cpus-1>", then of the other drivers' devices those that `accelerators`
 * ask for (NULL: all), on `pool` (borrowed). On failure *out is empty. Device libraries are loaded by the
 * first call in a process. Errors: INVALID_ARGUMENT for a bad name, for num_cpus over WEFT_MAX_CPUS, and for
 * wrong options where there are accelerators; RESOURCE_EXHAUSTED; what a driver says of a device. A driver
 * that cannot say how many it has, has none. */
WEFT_MUST_CHECK weft_status_t *weft_devices_create(weft_str_t task, int num_cpus,
                                                   const weft_accelerator_options_t *accelerators,
                                                   weft_thread_pool_t *pool, weft_devices_t *out);
/* The same devices under `task`'s name, with their incarnations; with resources of their own if `isolate`,
 * else with those of `of`, which must then outlive them. */
WEFT_MUST_CHECK weft_status_t *weft_devices_rename(const weft_devices_t *of, weft_str_t task, bool isolate,
                                                   weft_devices_t *out);
void weft_devices_deinit(weft_devices_t *d);
/* The one whose name ends as `name` does behind the task: a session's own cluster may call the task by
 * another name. NULL if there is none. */
weft_device_t *weft_devices_find(const weft_devices_t *d, weft_str_t name);
/* What masters ask about kernels (master/master.h). A function's call is lowered before it runs: all device
 * types have one. */
uint32_t weft_devices_supporting(const weft_node_t *n);
WEFT_MUST_CHECK weft_status_t *weft_devices_missing(const weft_node_t *n);

#endif /* WEFT_WORKER_DEVICES_H_ */
