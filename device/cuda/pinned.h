/* device/cuda/pinned.h - host memory that devices read and write by themselves.
 *
 * One cache for the process: such memory is good for all devices, and taking it from the system costs about
 * as much as copying it.
 */
#ifndef WEFT_DEVICE_CUDA_PINNED_H_
#define WEFT_DEVICE_CUDA_PINNED_H_

#include <stdbool.h>
#include <stddef.h>

/* Counted: the memory goes back with the last device. False: no memory. */
bool weft_cuda_pinned_retain(void);
void weft_cuda_pinned_release(void); /* a context has to be current */

/* NULL: there is none. A context has to be current. Thread-safe. */
void *weft_cuda_pinned_allocate(size_t bytes);
void weft_cuda_pinned_free(void *arg, void *p); /* `arg` is not used: for weft_cuda_queue_retire() */
bool weft_cuda_is_pinned(const void *p);        /* is it such memory? */

#endif /* WEFT_DEVICE_CUDA_PINNED_H_ */
