/* device/cuda/card_collectives.h - collectives between the logical devices of one card, by kernels of our
 * own. */
#ifndef WEFT_DEVICE_CUDA_CARD_COLLECTIVES_H_
#define WEFT_DEVICE_CUDA_CARD_COLLECTIVES_H_

#include "device/cuda/device.h"

/* Enqueues on the compute queue of devices[0], of n (at most WEFT_CUDA_RANKS). Errors: UNIMPLEMENTED for a
 * type that is not reduced, with nothing enqueued; the driver's. */
WEFT_Failure *weft_cuda_card_collective(weft_cuda_device_t *const *devices, int n,
                                        const WEFT_Collective *what, const WEFT_CollectiveRank *ranks);

#endif /* WEFT_DEVICE_CUDA_CARD_COLLECTIVES_H_ */
