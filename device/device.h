/* device/device.h - something that computes: memory, queues, threads.
 *
 * The host's CPU computes when a kernel runs, in memory that all threads read: it has no queue, and its
 * tensors have no fence. Other devices have memory of their own (`space`) and queues: their kernels enqueue
 * work (device/queue.h), and tensors go from memory to memory by weft_tensor_at() (device/transfer.h).
 *
 * A type of device is a driver. The CPU's is always there; others are registered at start.
 */
#ifndef WEFT_DEVICE_DEVICE_H_
#define WEFT_DEVICE_DEVICE_H_

#include <stdatomic.h>

#include "base/thread_pool.h"
#include "device/device_options.h"
#include "tensor/memory_accounts.h"
#include "tensor/tensor.h"

typedef struct weft_device weft_device_t;
typedef struct weft_queue weft_queue_t;                       /* device/queue.h */
typedef struct weft_resource_manager weft_resource_manager_t; /* resources/resource.h */

/* What is particular to one device of a driver. */
typedef struct weft_device_spec {
  weft_str_t name; /* "/job:worker/replica:0/task:0/device:CPU:0"; copied */
  uint64_t incarnation;
  weft_thread_pool_t *pool;                       /* borrowed; must outlive the device */
  weft_resource_manager_t *resources;             /* likewise; may be NULL */
  const weft_accelerator_options_t *accelerators; /* what its number counts in; borrowed; NULL: all zero */
} weft_device_spec_t;

/* A rank's part in a collective between devices of one driver, by rank. */
typedef struct weft_device_part {
  weft_device_t *device;
  const weft_tensor_t *input; /* NULL: it only receives */
  weft_tensor_t *output;      /* new, or of the input's bytes; gets its fence */
} weft_device_part_t;
typedef struct WEFT_Collective WEFT_Collective;           /* weft/device.h */
typedef struct weft_device_joint weft_device_joint_t;     /* device/joint.h */
typedef struct weft_device_sharing weft_device_sharing_t; /* device/peer_memory.h */

/* A driver's own struct may begin with one: that of a device library does (device/loaded/loaded.h). */
typedef struct weft_device_driver weft_device_driver_t;
struct weft_device_driver {
  const char *type; /* "CPU", "GPU" */
  /* How many a task has that asks for these (NULL: all zero). Errors: INVALID_ARGUMENT for options that name
   * devices which do not exist; else there are none, and why: UNAVAILABLE. */
  weft_status_t *(*count)(const weft_device_driver_t *self, const weft_accelerator_options_t *options,
                          int *out);
  /* Device number `ordinal` of this machine. Errors: UNAVAILABLE, RESOURCE_EXHAUSTED. */
  weft_status_t *(*create)(const weft_device_driver_t *self, const weft_device_spec_t *spec, int ordinal,
                           weft_device_t **out);
  void (*destroy)(weft_device_t *d); /* ends its queues' work and frees it */
  /* May a copy queue of `to` read the memory of `from`, both the driver's? NULL: never. Where it may not,
   * bytes go by way of the host. */
  bool (*reaches)(const weft_device_t *from, const weft_device_t *to);
  /* Enqueues a collective on the compute queues of n devices. What they get later finds the outputs made and
   * the inputs not used any more. NULL: never. Errors: UNIMPLEMENTED, not between these or not of this type,
   * and nothing has happened; the devices'. */
  weft_status_t *(*collective)(const WEFT_Collective *what, const weft_device_part_t *parts, int n);
  const weft_device_joint_t *joint;     /* device/joint.h; NULL: no collectives with other processes */
  const weft_device_sharing_t *sharing; /* device/peer_memory.h; NULL: memory is the process's own */
};
/* How many a task has, unless it is told; 0 where the driver cannot say. */
int weft_device_count(const weft_device_driver_t *driver);

extern const weft_device_driver_t weft_cpu_driver;

enum { WEFT_MAX_DRIVERS = 8 };
/* Adds a driver, which is constant, to those that tasks have devices of. A node that may run on several types
 * goes to the one that was registered last. Before the first task is made; not thread-safe. Errors:
 * ALREADY_EXISTS for a type that is there, RESOURCE_EXHAUSTED for more than WEFT_MAX_DRIVERS. */
WEFT_MUST_CHECK weft_status_t *weft_device_register(const weft_device_driver_t *driver);
/* All drivers, the CPU's first; the list ends with NULL. */
const weft_device_driver_t *const *weft_device_drivers(void);
/* The driver whose devices placement prefers to the host's: the last one that has any. NULL: none has. */
const weft_device_driver_t *weft_device_accelerator(void);
/* The index of a type in that list, or -1. */
int weft_device_driver_index(weft_str_t type);

/* What a device's kernels have counted since it was made, for metrics. Thread-safe. */
typedef struct weft_device_counts {
  atomic_llong input_waited_ns;   /* by steps, for elements of iterators */
  atomic_llong input_elements;    /* that they got */
  atomic_llong input_ahead_bytes; /* in elements that were made ahead, now */
} weft_device_counts_t;

/* Immutable after creation, but the resources and the counts. Thread-safe. A driver's own device begins with
 * one. */
struct weft_device {
  const weft_device_driver_t *driver;
  weft_str_t name;  /* '\0'-ended, owned */
  const char *type; /* the driver's */
  int ordinal;
  uint64_t incarnation;                 /* random, new at each start of the process */
  int64_t memory_limit;                 /* bytes */
  const char *physical;                 /* what it is, as TensorFlow's physical_device_desc; "": not said */
  int numa_node;                        /* that it is close to; -1: not known */
  const weft_memory_space_t *space;     /* where its kernels read and write; NULL: the host's memory */
  weft_allocator_t *allocator;          /* of that memory */
  weft_memory_accounts_t *memory;       /* the same by what it is for: kernels allocate through these */
  weft_allocator_t *host_allocator;     /* host memory that the device reaches fast */
  weft_queue_t *compute;                /* where kernels enqueue; NULL: they compute at once */
  weft_queue_t *copies_in, *copies_out; /* into its memory, and to the host's; NULL where `space` is */
  weft_thread_pool_t *pool;             /* borrowed: runs nodes and parallel_for */
  weft_resource_manager_t *resources;   /* borrowed from the worker: variables, queues, ... */
  const weft_device_t *alias_of;        /* NULL: not an alias */
  weft_device_t *const *siblings;       /* num_siblings; the devices of its task, this one too; borrowed */
  int num_siblings;
  int holds;                   /* holds.c's */
  weft_device_counts_t counts; /* see weft_device_counts() */
};
/* Those of the device itself, where `d` is an alias: a session's end does not lose them. */
static inline weft_device_counts_t *weft_device_counts(weft_device_t *d) {
  while (d->alias_of != NULL) d = (weft_device_t *)(uintptr_t)d->alias_of;
  return &d->counts;
}

/* The fields that are the same for all drivers: name, incarnation, pool and resources from `spec`, accounts
 * over d->allocator, which the driver has set. Errors: RESOURCE_EXHAUSTED, with nothing to free. */
WEFT_MUST_CHECK weft_status_t *weft_device_init(weft_device_t *d, const weft_device_spec_t *spec);
void weft_device_deinit(weft_device_t *d);
/* The same device under another name and with other resources, for a session that isolates its own. Shares
 * memory and queues with `of`, which must outlive it; has accounts of its own. */
WEFT_MUST_CHECK weft_status_t *weft_device_alias(const weft_device_t *of, const weft_device_spec_t *spec,
                                                 weft_device_t **out);
/* The CPU as a device. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_device_create(weft_str_t name, uint64_t incarnation,
                                                      weft_thread_pool_t *pool,
                                                      weft_resource_manager_t *resources,
                                                      weft_device_t **out);
void weft_device_destroy(weft_device_t *d); /* waits for what holds it (device/holds.h). NULL is fine */

#endif /* WEFT_DEVICE_DEVICE_H_ */
