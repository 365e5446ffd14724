/* device/cuda/collectives.h - collectives between GPUs of one process.
 *
 *   of one card           the logical devices' memory is one: a kernel reads and writes that of all ranks, on
 * the first rank's queue of a card each        NCCL (device/cuda/nccl.h), each rank's part on its own queue
 *   of some cards, of which one has several   none: NCCL refuses two ranks of one card. By way of the host
 */
#ifndef WEFT_DEVICE_CUDA_COLLECTIVES_H_
#define WEFT_DEVICE_CUDA_COLLECTIVES_H_

#include "device/cuda/device.h"

extern const WEFT_DeviceCollectives weft_cuda_collectives;

/* Bytes of an element; 0: not of a plain type. */
size_t weft_cuda_element_bytes(int dtype);

#endif /* WEFT_DEVICE_CUDA_COLLECTIVES_H_ */
