/* device/loaded/loaded.h - the devices of a device library (include/weft/device.h) as devices of Weft.
 *
 * A library's type of device becomes a driver (device/device.h). Each of its devices gets an allocator of its
 * memory, an allocator of host memory that it reaches fast, and three queues. What the library says in its
 * own terms is translated and nothing else:
 *
 *   WEFT_Failure           is a weft_status_t
 *   WEFT_FenceWaiter       begins a weft_fence_waiter_t
 *   a mark of a timeline   is the value of a fence of that queue
 */
#ifndef WEFT_DEVICE_LOADED_LOADED_H_
#define WEFT_DEVICE_LOADED_LOADED_H_

#include "device/device.h"
#include "device/queue.h"
#include "weft/device.h"

static inline weft_status_t *weft_status_of_failure(WEFT_Failure *f) { return (weft_status_t *)(void *)f; }
static inline WEFT_Failure *weft_failure_of_status(weft_status_t *s) { return (WEFT_Failure *)(void *)s; }

typedef struct weft_loaded_driver weft_loaded_driver_t; /* Thread-safe. Lives as long as the process. */

/* A driver of the devices of `type`, of which members beyond type->size are taken to be zero; its functions
 * and texts must live as long as the process. Errors: INVALID_ARGUMENT for a type that lacks a name or a
 * function, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_driver_create(const WEFT_DeviceType *type,
                                                         weft_loaded_driver_t **out);
/* Of one that was not registered. NULL is fine. */
void weft_loaded_driver_destroy(weft_loaded_driver_t *d);
const weft_device_driver_t *weft_loaded_driver_base(const weft_loaded_driver_t *d); /* lent */
/* Asks the library for the number of its devices. Errors: the library's. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_driver_count(const weft_loaded_driver_t *d, int *out);

/* The library's device behind a device of a loaded driver, or behind an alias of one. */
void *weft_loaded_device(const weft_device_t *d);
/* The library's queue behind one of its queues. */
void *weft_loaded_queue(const weft_queue_t *q);
/* A device of the host, on which the CPU's kernels compute for `d`. Lent. */
weft_device_t *weft_loaded_host(const weft_device_t *d);
/* Enqueues a copy of from's bytes to `to` on the compute queue of `d`; both lie in d's memory. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_copy(const weft_device_t *d, const weft_tensor_t *from,
                                                weft_tensor_t *to);

#endif /* WEFT_DEVICE_LOADED_LOADED_H_ */
