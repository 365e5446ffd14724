/* tests/device/late/late.h - a device whose work is done late, and whose memory the host cannot touch.
 *
 * A device library (include/weft/device.h) of the type "LATE", for tests: what a CUDA device demands of the
 * runtime, on any machine. It uses nothing of Weft but that header, and is loaded as libweft_late.so or
 * linked into a test.
 *
 *   memory   pointers into pages without access, so that the host faults on them; the bytes lie elsewhere,
 *            where only the queues' work finds them (late_memory.c). Blocks are given out again as soon as
 *            they may be, last freed first, and are overwritten when they are freed, in the order of the
 *            compute queue
 *   queues   three threads (compute, copies in, copies out) that begin each piece of work after a random
 *            delay (late_queue.c), so that what is not ordered by a fence happens out of order
 *   kernels  some 40 ops, computed by the CPU's kernels on the bytes behind the pointers (late_kernels.c)
 *   collectives  of some types, on the first rank's queue (late_collectives.c)
 *
 * A mutation leaves out one of the waits that the runtime asks for. Tests show that each of them is needed.
 */
#ifndef WEFT_TESTS_DEVICE_LATE_LATE_H_
#define WEFT_TESTS_DEVICE_LATE_LATE_H_

#include <stdbool.h>

#include "weft/device.h"

typedef enum weft_late_mutation {
  WEFT_LATE_NOTHING,
  WEFT_LATE_COMPUTE_BEFORE_COPY_IN, /* compute does not wait for copies to the device */
  WEFT_LATE_COPY_OUT_BEFORE_COMPUTE,
  WEFT_LATE_COPY_IN_BEFORE_COMPUTE, /* into memory that the compute queue still uses */
  WEFT_LATE_COPY_IN_BEFORE_PEER,    /* copies do not wait for the computations of the device they copy from */
  WEFT_LATE_HOST_BEFORE_COPY_OUT,   /* a callback at once, as if the copy to the host were done */
  WEFT_LATE_HOST_BEFORE_COPY_IN,    /* likewise; then the source, of the host or a device, goes before it was
                                       read */
  WEFT_LATE_HOST_BEFORE_PEER_COPY,  /* likewise, of copies between devices */
  WEFT_LATE_HOST_BEFORE_COMPUTE,    /* likewise, at the end of a step */
  WEFT_LATE_FIRST_BEFORE_OTHERS,    /* a collective does not wait for the computations of the other ranks */
  WEFT_LATE_OTHERS_BEFORE_FIRST,    /* nor they for the collective */
} weft_late_mutation_t;

typedef struct weft_late_options {
  int num_devices;  /* of each task; the environment variable WEFT_LATE_DEVICES says another number */
  int max_delay_us; /* before a piece of work; 0: none */
  uint64_t seed;
  bool by_host; /* no device reads the memory of another, and there are no collectives */
  weft_late_mutation_t mutation;
} weft_late_options_t;
/* For devices made from now on. Not thread-safe. */
void weft_late_configure(const weft_late_options_t *o);
const weft_late_options_t *weft_late_options(void);

/* The library's entry, as WEFT_OpenDeviceLibrary. */
WEFT_OpenDeviceLibraryFn weft_late_open;

/* ---- for late_kernels.c and for kernels of tests ---- */

typedef struct weft_late_device weft_late_device_t;
typedef struct weft_late_queue weft_late_queue_t;

/* Work: runs on the queue's thread. `poison` NULL: do it, and return what failed; else only free `arg`,
 * return NULL. */
typedef WEFT_Failure *weft_late_work_fn(void *arg, const WEFT_Failure *poison);
/* Failures: RESOURCE_EXHAUSTED, with `arg` still the caller's. */
WEFT_Failure *weft_late_enqueue(weft_late_queue_t *q, weft_late_work_fn *fn, void *arg);
/* The bytes behind a pointer of the device's memory; for work on a queue only. Host pointers stay as they
 * are. */
void *weft_late_bytes(const weft_late_device_t *d, void *p);

/* ---- inside ---- */

enum { /* of TF_Code */
       WEFT_LATE_INVALID_ARGUMENT = 3,
       WEFT_LATE_RESOURCE_EXHAUSTED = 8,
       WEFT_LATE_UNIMPLEMENTED = 12
};

extern const WEFT_DeviceHost *weft_late_host;                    /* set by weft_late_open() */
extern const WEFT_DeviceKernel weft_late_kernels[];              /* late_kernels.c */
int weft_late_may_link(const char *op, int operand, int result); /* likewise */
extern const WEFT_DeviceType weft_late_type;                     /* late_device.c */
extern const WEFT_DeviceCollectives weft_late_collectives;       /* late_collectives.c */
weft_late_queue_t *weft_late_compute(const weft_late_device_t *d);
int weft_late_ordinal(const weft_late_device_t *d);

typedef struct weft_late_memory weft_late_memory_t;
weft_late_memory_t *weft_late_memory_create(void); /* NULL: no memory */
void weft_late_memory_destroy(weft_late_memory_t *m);
/* `compute`: the queue in whose order blocks are given back. */
void *weft_late_memory_allocate(weft_late_memory_t *m, weft_late_queue_t *compute, size_t bytes,
                                uint64_t *after);
void weft_late_memory_deallocate(weft_late_memory_t *m, weft_late_queue_t *compute, void *p, size_t bytes);
void *weft_late_memory_bytes(const weft_late_memory_t *m, void *p);

/* NULL: no thread or no memory. */
weft_late_queue_t *weft_late_queue_create(weft_late_device_t *d, WEFT_QueueKind kind, uint64_t seed,
                                          const volatile uint64_t *marked);
/* After all its work; its fences can still be asked for. NULL is fine. */
void weft_late_queue_stop(weft_late_queue_t *q);
void weft_late_queue_destroy(weft_late_queue_t *q); /* of a stopped one. NULL is fine */
uint64_t weft_late_queue_marked(const weft_late_queue_t *q);
/* Enqueues what cannot fail, as freeing memory cannot; returns the work's place in the timeline. */
uint64_t weft_late_enqueue_always(weft_late_queue_t *q, weft_late_work_fn *fn, void *arg);
/* The members of WEFT_DeviceType. */
void weft_late_queue_wait(void *queue, void *other, uint64_t value);
int weft_late_queue_has_passed(void *queue, uint64_t value);
void weft_late_queue_when(void *queue, WEFT_FenceWaiter *w);
WEFT_Failure *weft_late_queue_copy(void *queue, void *from_device, const void *from, void *to_device,
                                   void *to, size_t bytes);

#endif /* WEFT_TESTS_DEVICE_LATE_LATE_H_ */
