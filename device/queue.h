/* device/queue.h - work in order on a device, and the fences that others wait at.
 *
 * A kernel of a device with queues has "computed" when its work is enqueued. weft_queue_mark() then gives a
 * fence behind all that the queue has got so far; marking costs one addition, and nothing is recorded until
 * the fence is asked for. Work is ordered
 *
 *   on one queue          by the order of enqueueing
 *   between two queues    by weft_queue_wait(): later work of the one begins when the fence of the other has
 *                         passed
 *   with the host         by weft_fence_then(): a callback when the fence has passed. No thread waits
 *
 * Work that fails poisons its timeline: each fence behind it ends with the failure's status, for good, and
 * so do the queues that wait for such a fence. Kernels find what is wrong with their arguments before they
 * enqueue; what fails later is a fault of the device.
 *
 * Source of the form: timeline semaphores of Vulkan and IREE.
 */
#ifndef WEFT_DEVICE_QUEUE_H_
#define WEFT_DEVICE_QUEUE_H_

#include <stdatomic.h>

#include "base/status.h"
#include "tensor/tensor.h"
#include "weft/device.h"

typedef struct weft_queue weft_queue_t;

/* Called once, on any thread, under no lock. Owns `status`: NULL, or what poisoned the timeline. */
typedef void weft_fence_fn(void *arg, weft_status_t *status);

/* A place in the list of those that wait for a fence. The caller's memory, so that waiting cannot fail; it
 * must stay until `fn` is called. */
typedef struct weft_fence_waiter {
  WEFT_FenceWaiter link; /* first; the driver's, with the fence's value */
  weft_fence_fn *fn;
  void *arg;
} weft_fence_waiter_t;

/* What a device's driver implements. All are thread-safe and none blocks on the device. */
typedef struct weft_queue_ops {
  /* Work enqueued from now on begins after `f`, a fence of another queue of any device of the same driver. */
  void (*wait)(weft_queue_t *q, weft_fence_t f);
  bool (*has_passed)(weft_queue_t *q,
                     uint64_t value); /* false, too, if the timeline is poisoned before `value` */
  void (*then)(weft_queue_t *q,
               weft_fence_waiter_t *w); /* calls back when w->link.value has passed, at once if it has */
  /* Enqueues a copy of from's bytes to `to`, of the same size. One of them lies in the memory of the queue's
   * device, the other in the host's or, for `from`, in that of a device which the driver's reaches(). Both
   * must stay, and keep their bytes, until it is done. */
  weft_status_t *(*copy)(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to);
  /* Recordings; NULL, all four, where the device has none. From begin to end the calling thread's work is
   * recorded instead of run; what a recording may not have makes its end fail, and nothing of it has run.
   * replay() enqueues all of it as one piece of work, on the same addresses; destroy() may be called while
   * replays are under way. Source: include/weft/device.h, capture_begin and those behind it. */
  weft_status_t *(*record_begin)(weft_queue_t *q);
  weft_status_t *(*record_end)(weft_queue_t *q, void **out_recording);
  weft_status_t *(*replay)(weft_queue_t *q, void *recording);
  void (*recording_destroy)(weft_queue_t *q, void *recording);
} weft_queue_ops_t;

/* Thread-safe. Lives as long as its device; a driver's own queue begins with one. */
struct weft_queue {
  const weft_queue_ops_t *ops;
  struct weft_device *device; /* lent */
  const char *name;           /* "compute", "copies in": for messages */
  atomic_ullong last;         /* the last value that was marked */
};

/* The fence behind all that was enqueued on `q` by this thread before. */
static inline weft_fence_t weft_queue_mark(weft_queue_t *q) {
  return (weft_fence_t){q, atomic_fetch_add_explicit(&q->last, 1, memory_order_acq_rel) + 1};
}
/* Nothing to do for a fence of the queue's own, or one that has passed. */
static inline void weft_queue_wait(weft_queue_t *q, weft_fence_t f) {
  if (f.queue != NULL && f.queue != q) q->ops->wait(q, f);
}
static inline bool weft_fence_has_passed(weft_fence_t f) {
  return f.queue == NULL || f.queue->ops->has_passed(f.queue, f.value);
}
/* Calls fn(arg, status) when `f` has passed; for {NULL, 0} at once. */
static inline void weft_fence_then(weft_fence_t f, weft_fence_waiter_t *w, weft_fence_fn *fn, void *arg) {
  *w = (weft_fence_waiter_t){.link.value = f.value, .fn = fn, .arg = arg};
  if (f.queue == NULL) {
    fn(arg, NULL);
  } else {
    f.queue->ops->then(f.queue, w);
  }
}

#endif /* WEFT_DEVICE_QUEUE_H_ */
