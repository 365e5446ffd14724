/* device/cuda/nccl.h - collectives between cards, by NCCL.
 *
 * The library is opened for the first communicator: WEFT_NCCL names it, else it is libnccl.so.2, of the
 * loader's path or of /usr/local/cuda. WEFT_NCCL=0: it is not used.
 */
#ifndef WEFT_DEVICE_CUDA_NCCL_H_
#define WEFT_DEVICE_CUDA_NCCL_H_

#include "device/cuda/device.h"

typedef struct weft_cuda_nccl weft_cuda_nccl_t; /* Thread-safe. A communicator of some devices */

/* All devices are of different cards. Takes long. Errors: UNIMPLEMENTED if it is not to be used; UNAVAILABLE
 * where there is no NCCL; INTERNAL, the library's. */
WEFT_Failure *weft_cuda_nccl_create(weft_cuda_device_t *const *devices, int n, weft_cuda_nccl_t **out);
/* Out of processes that need not be this one. out_id NULL: only whether there is NCCL. Errors: as above. */
WEFT_Failure *weft_cuda_nccl_unique_id(unsigned char *out_id);
/* A communicator of n ranks, of which devices[i] is rank ranks[i]. Does not wait for the others: enqueuing
 * does, until weft_cuda_nccl_abort(), which then poisons no queue. Errors: as above. */
WEFT_Failure *weft_cuda_nccl_join(weft_cuda_device_t *const *devices, const int *ranks, int num_own, int n,
                                  const unsigned char *id, weft_cuda_nccl_t **out);
void weft_cuda_nccl_destroy(weft_cuda_nccl_t *c); /* its work is done, or it was aborted. NULL is fine */
/* Enqueues each rank's part on its compute queue. All queues get the collectives of all communicators in one
 * order. Errors: UNIMPLEMENTED, with nothing enqueued; a queue's; INTERNAL, the library's, after which the
 * communicator is aborted; ABORTED, of one with other processes. */
WEFT_Failure *weft_cuda_nccl_enqueue(weft_cuda_nccl_t *c, const WEFT_Collective *what,
                                     const WEFT_CollectiveRank *ranks);
/* Poisons the queues with copies of `why`, then ends the work that waits on the devices. */
void weft_cuda_nccl_abort(weft_cuda_nccl_t *c, const WEFT_Failure *why);

#endif /* WEFT_DEVICE_CUDA_NCCL_H_ */
