/* device/transfer.h - a tensor's value in the memory where it is wanted. */
#ifndef WEFT_DEVICE_TRANSFER_H_
#define WEFT_DEVICE_TRANSFER_H_

#include "device/device.h"

/* Owns `status` and one reference to `tensor` (NULL on failure). Called once, on any thread, under no lock.
 */
typedef void weft_transfer_fn(void *arg, weft_status_t *status, weft_tensor_t *tensor);

/* Hands `fn` the value of `t` in `space`:
 *   NULL, the host's memory   a tensor whose bytes may be read at once: `t` itself, after its fence, or a
 *                             copy
 *   a device's memory         `t` itself, or a copy whose fence may not have passed yet
 * `t` is retained until its bytes are not needed any more. Strings, handles and variants always lie in the
 * host's memory and stay there. Never blocks: `fn` may be called before the return or later. Errors:
 * RESOURCE_EXHAUSTED; what poisoned the queue that makes `t`. */
void weft_tensor_at(weft_tensor_t *t, const weft_memory_space_t *space, weft_transfer_fn *fn, void *arg);
/* The same for n tensors at once, some of which may be NULL and stay so. `fn` gets references of its own and
 * the array, which it frees with weft_tensors_free(); both are there after a failure, too. Errors: the first
 * one. */
typedef void weft_transfers_fn(void *arg, weft_status_t *status, weft_tensor_t **tensors, int64_t n);
void weft_tensors_at(weft_tensor_t *const *t, int64_t n, const weft_memory_space_t *space,
                     weft_transfers_fn *fn, void *arg);
void weft_tensors_free(weft_tensor_t **tensors, int64_t n); /* NULL is fine */
/* weft_tensor_at() for callers that have nothing else to do; waits. *out is owned. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_at_sync(weft_tensor_t *t, const weft_memory_space_t *space,
                                                   weft_tensor_t **out);

#endif /* WEFT_DEVICE_TRANSFER_H_ */
