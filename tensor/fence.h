/* tensor/fence.h - where bytes lie, and after which work they may be touched.
 *
 * A memory space is the host's memory, or memory that only a device can reach. Work on a device is enqueued
 * on a queue (device/queue.h), and each queue has a timeline, a counter that only grows. A fence is a point
 * on a timeline: it has passed when all work that was enqueued before it is done. Source of the form:
 * timeline semaphores of Vulkan and IREE.
 *
 * Both stand here and not in device/ because a tensor carries them; nothing below device/ does anything with
 * them.
 */
#ifndef WEFT_TENSOR_FENCE_H_
#define WEFT_TENSOR_FENCE_H_

#include <stdint.h>

struct weft_device; /* device/device.h */
struct weft_queue;  /* device/queue.h */

/* Memory that the host cannot touch. The host's own memory has none: NULL. Constant; lives as long as its
 * device. */
typedef struct weft_memory_space {
  struct weft_device *device; /* lent; which copies between this memory and the host's */
} weft_memory_space_t;

/* {NULL, 0}: passed. A plain value. */
typedef struct weft_fence {
  struct weft_queue *queue; /* lent: it lives as long as its device */
  uint64_t value;
} weft_fence_t;

/* The value of the fence of a kernel's output between its allocation and the end of the kernel, when the
 * executor replaces it. */
#define WEFT_FENCE_PENDING UINT64_MAX

#endif /* WEFT_TENSOR_FENCE_H_ */
