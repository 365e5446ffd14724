/* device/cuda/device.h - a logical device: a share of a card's memory, and three queues. */
#ifndef WEFT_DEVICE_CUDA_DEVICE_H_
#define WEFT_DEVICE_CUDA_DEVICE_H_

#include "device/cuda/arena.h"
#include "device/cuda/launch.h"
#include "device/cuda/physical.h"
#include "device/cuda/queue.h"

typedef struct weft_cuda_device {
  int ordinal; /* of the logical device: GPU:<ordinal> */
  weft_cuda_physical_t *physical;
  weft_cuda_queue_t *queues[3]; /* by WEFT_QueueKind */
  weft_cuda_arena_t *arena;
  int64_t memory_limit;
  char allocator[32];
  int64_t last_report_ns; /* device.c's: when it last said that memory is used up */
} weft_cuda_device_t;

/* weft_cuda_launch() without a node: `what` stands for its name in failures. */
WEFT_Failure *weft_cuda_launch_on(weft_cuda_device_t *d, const char *what, weft_cuda_function_t *f,
                                  const weft_cuda_geometry_t *g, void **args);

/* The type "GPU". */
extern const WEFT_DeviceType weft_cuda_device_type;

#endif /* WEFT_DEVICE_CUDA_DEVICE_H_ */
