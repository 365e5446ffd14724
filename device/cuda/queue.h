/* device/cuda/queue.h - a stream with a timeline.
 *
 * Events are recorded only when something asks for a fence, and one covers all fences before it. The queue
 * keeps those that were recorded, oldest first.
 *
 * Waiters are served by a thread of the queue, which sleeps in cuEventSynchronize() for the event of the
 * smallest fence that is waited for (CU_EVENT_BLOCKING_SYNC: no processor is spent). The other two ways that
 * CUDA has are worse here: a host function (cuLaunchHostFunc) holds up the stream until it returns and is not
 * called when the stream fails, and polling costs a processor or adds a delay.
 *
 * A failure of the stream is for good. It is kept with the names of the nodes that were launched since the
 * last fence which is known to have passed, and goes on to the queues that wait for fences of this one.
 */
#ifndef WEFT_DEVICE_CUDA_QUEUE_H_
#define WEFT_DEVICE_CUDA_QUEUE_H_

#include <cuda.h>
#include <stdbool.h>

#include "base/mutex.h"
#include "weft/device.h"

typedef struct weft_cuda_queue weft_cuda_queue_t; /* Thread-safe. */

enum { WEFT_CUDA_MAX_QUEUES = 3 * 64 }; /* of a process */

/* `context` and `marked` outlive the queue; `name` ("GPU:0, compute") is copied. Errors: RESOURCE_EXHAUSTED,
 * and the driver's. */
WEFT_Failure *weft_cuda_queue_create(CUcontext context, const char *name, const volatile uint64_t *marked,
                                     weft_cuda_queue_t **out);
/* Waits for its work; all waiters are called. NULL is fine. */
void weft_cuda_queue_destroy(weft_cuda_queue_t *q);

/* WEFT_DeviceType's. */
void weft_cuda_queue_wait(void *queue, void *other, uint64_t value);
int weft_cuda_queue_has_passed(void *queue, uint64_t value);
void weft_cuda_queue_when(void *queue, WEFT_FenceWaiter *w);

/* What has passed as far as is known, without asking the driver. */
uint64_t weft_cuda_queue_passed(const weft_cuda_queue_t *q);
CUstream weft_cuda_queue_stream(const weft_cuda_queue_t *q);

/* Makes the queue's context the thread's, for work that is given to the stream. A poisoned queue takes none:
 * what the work should have waited for may not have happened. `what` is the work, for messages. */
WEFT_Failure *weft_cuda_queue_begin(weft_cuda_queue_t *q, const char *what);
/* Notes that a node is about to enqueue a kernel, without a lock. `name` is copied, the end of it if it is
 * long. */
void weft_cuda_queue_note(weft_cuda_queue_t *q, const char *name);
/* A failure for r, which a call for this queue returned; one that ends the context poisons the queue. NULL if
 * r is CUDA_SUCCESS. */
WEFT_Failure *weft_cuda_queue_check(weft_cuda_queue_t *q, CUresult r, const char *what);

/* What waits for the queue, and what comes later, fails with `failure`, which is taken over. */
void weft_cuda_queue_poison(weft_cuda_queue_t *q, WEFT_Failure *failure);

/* Calls how(arg, p) when the work that the queue has got so far is done, or when the queue ends.
 * Without memory to remember that it waits for the work. */
void weft_cuda_queue_retire(weft_cuda_queue_t *q, void (*how)(void *arg, void *p), void *arg, void *p);

/* A second stream beside the queue's, for host functions: its own so that they run while the queue's stream
 * copies. Two buffers in turn are filled and emptied; the events say when. */
typedef struct weft_cuda_side {
  weft_mutex_t mu; /* held from lock to unlock: what one copy enqueues on both streams is not mixed */
  CUstream stream;
  CUevent filled[2], emptied[2];
} weft_cuda_side_t;

/* Locks the side, which is made at the first call. The queue's context is current. Errors: the driver's, and
 * then nothing is locked. */
CUresult weft_cuda_queue_side_lock(weft_cuda_queue_t *q, weft_cuda_side_t **out);
void weft_cuda_queue_side_unlock(weft_cuda_side_t *side);

/* A host function of the queue is about to touch memory that it does not own. False: the queue is poisoned,
 * and the memory may be gone. Between begin (true) and end waiters do not learn of a failure. */
bool weft_cuda_queue_move_begin(weft_cuda_queue_t *q);
void weft_cuda_queue_move_end(weft_cuda_queue_t *q);

enum { WEFT_CUDA_NOTE_BYTES = 96 }; /* of a node's name */

/* What a thread gives to a queue while it captures (device/cuda/capture.h). */
typedef struct weft_cuda_recording {
  CUstream stream;                                              /* where it goes */
  const char *refused;                                          /* what it may not have had; NULL: nothing */
  char first[WEFT_CUDA_NOTE_BYTES], last[WEFT_CUDA_NOTE_BYTES]; /* nodes that were noted; "": none */
  struct cuda_retired *kept; /* what was retired: the recorded work uses it */
} weft_cuda_recording_t;

/* What the calling thread gives to `q` goes to `r`, of which only the stream is set, and what it retires
 * stays. False: the thread records already. */
bool weft_cuda_queue_record(weft_cuda_queue_t *q, weft_cuda_recording_t *r);
/* No more. NULL: the thread does not record for `q`. */
weft_cuda_recording_t *weft_cuda_queue_stop_recording(weft_cuda_queue_t *q);
/* Destroys the stream, if it is there, and gives back what was kept. */
void weft_cuda_recording_deinit(weft_cuda_recording_t *r);

#endif /* WEFT_DEVICE_CUDA_QUEUE_H_ */
