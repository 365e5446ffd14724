/* resources/unbatcher.h - tensors on their way between a batch and the steps that are in it, by the number of
 * each step's request: Unbatch takes what another step has left for it, UnbatchGrad what all steps of a batch
 * have left.
 */
#ifndef WEFT_RESOURCES_UNBATCHER_H_
#define WEFT_RESOURCES_UNBATCHER_H_

#include "resources/wait_room.h"

typedef struct weft_unbatcher weft_unbatcher_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_unbatcher_type, weft_unbatch_grad_type;
WEFT_MUST_CHECK weft_status_t *weft_unbatcher_create(weft_object_t **out);

/* A tensor for the step whose request has that number. */
typedef struct weft_unbatched {
  int64_t key;
  weft_tensor_t *tensor;
} weft_unbatched_t;

/* Output 0 becomes the tensor left for `key`, at once or once it is there. If it is not there yet, the n
 * tensors, which the call retains, are left for their keys first. `timer` outlives the wait; a tensor is not
 * kept longer than the wait would be. Errors (through the call), as TensorFlow words them: ALREADY_EXISTS
 * (two waits, or two tensors, of one key), DEADLINE_EXCEEDED (after timeout_micros), CANCELLED. */
void weft_unbatcher_take(weft_unbatcher_t *u, const weft_resource_call_t *call, int64_t key,
                         const weft_unbatched_t *left, int n, int64_t timeout_micros, weft_timer_t *timer);
/* Leaves `tensor`, which is retained, for `key`. Errors: INVALID_ARGUMENT (there is one), RESOURCE_EXHAUSTED.
 */
WEFT_MUST_CHECK weft_status_t *weft_unbatcher_leave(weft_unbatcher_t *u, int64_t key, weft_tensor_t *tensor);
/* Output 0 becomes the rows of the tensors left for the n keys, in their order, once all are there. Errors
 * (through the call): INVALID_ARGUMENT (another wait for one of the keys; dimensions that differ), INTERNAL
 * (a key twice), CANCELLED. */
void weft_unbatcher_join(weft_unbatcher_t *u, const weft_resource_call_t *call, const int64_t *keys, int n);

#endif /* WEFT_RESOURCES_UNBATCHER_H_ */
