/* device/loaded/loaded_device.h - inside device/loaded/: what a loaded device is made of. */
#ifndef WEFT_DEVICE_LOADED_LOADED_DEVICE_H_
#define WEFT_DEVICE_LOADED_LOADED_DEVICE_H_

#include "device/joint.h"
#include "device/loaded/loaded.h"
#include "device/peer_memory.h"
#include "tensor/memory_holders.h"

typedef struct weft_loaded_device weft_loaded_device_t;

struct weft_loaded_driver {
  weft_device_driver_t base; /* first */
  WEFT_DeviceType type;      /* zero behind what the library has */
};

typedef struct weft_loaded_queue {
  weft_queue_t base; /* first */
  const WEFT_DeviceType *type;
  void *handle;
} weft_loaded_queue_t;

typedef struct weft_loaded_allocator {
  weft_allocator_t base; /* first */
  weft_loaded_device_t *device;
} weft_loaded_allocator_t;

/* Host memory that the library gave may outlive the device, as the result of a step that a client keeps: then
 * the library's device is closed with the last block. */
struct weft_loaded_device {
  weft_device_t base; /* first */
  const WEFT_DeviceType *type;
  void *handle;
  weft_memory_space_t space;
  weft_loaded_allocator_t memory, pinned;
  weft_memory_holders_t *held;   /* of its memory; owned; NULL while the device is made */
  weft_loaded_queue_t queues[3]; /* by WEFT_QueueKind */
  weft_device_t *host;           /* owned */
  atomic_llong holders;          /* the device, and each block of pinned memory */
};

/* Fills the queue of that kind. Errors: the library's. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_queue_init(weft_loaded_device_t *d, WEFT_QueueKind kind);
void weft_loaded_memory_init(weft_loaded_device_t *d, const char *name);
/* What the library says of its memory: d->holders'. */
void weft_loaded_memory_state(void *device, weft_memory_state_t *out);
/* Gives up one hold; the last closes the library's device and frees `d`. may_wait: not on a thread that the
 * close would wait for, as a callback of a queue is; else it is closed on a thread of its own. */
void weft_loaded_device_let_go(weft_loaded_device_t *d, bool may_wait);

/* The driver's: collectives of `type`, and the end of those of a device that is about to be closed, which
 * waits for their work. */
WEFT_MUST_CHECK weft_status_t *weft_loaded_collective(const WEFT_Collective *what,
                                                      const weft_device_part_t *parts, int n);
void weft_loaded_collectives_forget(const void *handle);
/* Its device's queue waits until the input is there, and the output's memory not used any more. */
void weft_loaded_wait_for_part(const weft_device_part_t *p);

/* The driver's, of a type that has collectives with other processes. */
extern const weft_device_joint_t weft_loaded_joint;

/* The driver's, of a type that shares memory. */
extern const weft_device_sharing_t weft_loaded_sharing;

#endif /* WEFT_DEVICE_LOADED_LOADED_DEVICE_H_ */
