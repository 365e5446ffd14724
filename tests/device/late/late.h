/* tests/device/late/late.h - a device whose work is done late, and whose memory the host cannot touch.
 *
 * A second device type, "LATE", for tests: what a CUDA device demands of the runtime, on any machine.
 *
 *   memory   pointers into pages without access, so that the host faults on them; the bytes lie elsewhere,
 *            where only the queues' work finds them (late_memory.c). Blocks are given out again at once,
 *            last freed first, and are overwritten when they are freed, in the order of the compute queue
 *   queues   three threads (compute, copies in, copies out) that begin each piece of work after a random
 *            delay (late_queue.c), so that what is not ordered by a fence happens out of order
 *   kernels  some 40 ops, computed by the CPU's loops on the bytes behind the pointers (late_kernels.c)
 *
 * A mutation leaves out one of the waits that the runtime asks for. Tests show that each of them is needed.
 */
#ifndef WEFT_TESTS_DEVICE_LATE_LATE_H_
#define WEFT_TESTS_DEVICE_LATE_LATE_H_

#include "device/device.h"
#include "device/queue.h"
#include "kernels/kernel.h"

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
} weft_late_mutation_t;

typedef struct weft_late_options {
  int num_devices;  /* of each task */
  int max_delay_us; /* before a piece of work; 0: none */
  uint64_t seed;
  bool by_host; /* no device reads the memory of another */
  weft_late_mutation_t mutation;
} weft_late_options_t;
/* For devices made from now on. Not thread-safe. */
void weft_late_configure(const weft_late_options_t *o);
const weft_late_options_t *weft_late_options(void);

extern const weft_device_driver_t weft_late_driver;
const weft_kernel_table_t *weft_late_kernels(void);

/* ---- for late_kernels.c and for kernels of tests ---- */

/* Work: runs on the queue's thread. `poison` NULL: do it, and return what failed; else only free `arg`,
 * return NULL. */
typedef weft_status_t *weft_late_work_fn(void *arg, const weft_status_t *poison);
/* Errors: RESOURCE_EXHAUSTED, with `arg` still the caller's. */
WEFT_MUST_CHECK weft_status_t *weft_late_enqueue(weft_queue_t *q, weft_late_work_fn *fn, void *arg);
/* The same for what cannot fail, as freeing memory cannot; false without memory. */
bool weft_late_enqueue_always(weft_queue_t *q, weft_late_work_fn *fn, void *arg);
/* The bytes behind a pointer of the device's memory; for work on a queue only. Host pointers stay as they
 * are. */
void *weft_late_bytes(const weft_device_t *d, void *p);

/* A device of the host, on which the CPU's kernels compute for `d`. */
weft_device_t *weft_late_host(const weft_device_t *d);

/* ---- inside ---- */

typedef struct weft_late_memory weft_late_memory_t;
WEFT_MUST_CHECK weft_status_t *weft_late_memory_create(weft_device_t *d, weft_late_memory_t **out);
void weft_late_memory_destroy(weft_late_memory_t *m);
weft_allocator_t *weft_late_memory_allocator(weft_late_memory_t *m);
void *weft_late_memory_bytes(const weft_late_memory_t *m, void *p);
WEFT_MUST_CHECK weft_status_t *weft_late_queue_create(weft_device_t *d, const char *name, uint64_t seed,
                                                      weft_queue_t **out);
void weft_late_queue_stop(
    weft_queue_t *base); /* after all its work; its fences can still be asked for. NULL is fine */
void weft_late_queue_destroy(weft_queue_t *base); /* of a stopped one. NULL is fine */

#endif /* WEFT_TESTS_DEVICE_LATE_LATE_H_ */
