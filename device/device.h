/* device/device.h - something that computes: memory, an order of execution, threads.
 *
 * The interface is shaped for streams. On a stream device (CUDA) a kernel has
 * "computed" when its work is enqueued; events order what follows on other
 * streams and on the host. A device without streams (CPU) has a NULL stream and
 * computes at once; all event operations are then trivial.
 */
#ifndef WEFT_DEVICE_DEVICE_H_
#define WEFT_DEVICE_DEVICE_H_

#include "base/thread_pool.h"
#include "tensor/memory_accounts.h"
#include "tensor/tensor.h"

typedef struct weft_device weft_device_t;
typedef struct weft_stream weft_stream_t; /* opaque, the device's */
typedef struct weft_event weft_event_t;   /* opaque, the device's */
typedef struct weft_resource_manager weft_resource_manager_t; /* kernels/resource.h */

typedef void weft_device_done_fn(void *arg, weft_status_t *status); /* owns status */

typedef struct weft_device_ops {
  weft_status_t *(*stream_create)(weft_device_t *d, weft_stream_t **out);
  void (*stream_destroy)(weft_device_t *d, weft_stream_t *s);
  weft_status_t *(*event_record)(weft_device_t *d, weft_stream_t *s, weft_event_t **out); /* after all enqueued so far */
  weft_status_t *(*stream_wait)(weft_device_t *d, weft_stream_t *s, weft_event_t *e);     /* later work waits for e */
  void (*event_then)(weft_device_t *d, weft_event_t *e, weft_device_done_fn *fn, void *arg); /* calls back when e has passed */
  void (*event_destroy)(weft_device_t *d, weft_event_t *e);
  /* Copies between this device's memory and the host's; `done` when the bytes are there. Tensors are retained meanwhile. */
  void (*copy_to_host)(weft_device_t *d, weft_stream_t *s, weft_tensor_t *from, weft_tensor_t *to,
                       weft_device_done_fn *done, void *arg);
  void (*copy_from_host)(weft_device_t *d, weft_stream_t *s, weft_tensor_t *from, weft_tensor_t *to,
                         weft_device_done_fn *done, void *arg);
  void (*destroy)(weft_device_t *d);
} weft_device_ops_t;

/* Immutable after creation, but the resources. Thread-safe. */
struct weft_device {
  const weft_device_ops_t *ops;
  weft_str_t name;       /* "/job:worker/replica:0/task:0/device:CPU:0"; '\0'-ended, owned */
  const char *type;      /* "CPU", "GPU" */
  uint64_t incarnation;  /* random, new at each start of the process */
  int64_t memory_limit;  /* bytes */
  weft_allocator_t *allocator;      /* of its own memory */
  weft_memory_accounts_t *memory;   /* the same by what it is for: kernels allocate through these */
  weft_allocator_t *host_allocator; /* memory the host and the device reach fast */
  weft_stream_t *stream; /* the compute stream; NULL on the CPU */
  weft_thread_pool_t *pool;         /* borrowed: runs nodes and parallel_for */
  weft_resource_manager_t *resources; /* borrowed from the worker: variables, queues, ... */
};

/* The CPU as a device. `name` is copied; `pool` and `resources` (may be NULL) are borrowed and must outlive it. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_device_create(weft_str_t name, uint64_t incarnation, weft_thread_pool_t *pool,
                                                      weft_resource_manager_t *resources, weft_device_t **out);
void weft_device_destroy(weft_device_t *d); /* NULL is fine */

#endif /* WEFT_DEVICE_DEVICE_H_ */
