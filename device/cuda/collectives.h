/* device/cuda/collectives.h - collectives between GPUs, of one process or of several.
 *
 * The memory of one card's logical devices is one: a kernel reads and writes that of all ranks, on the first
 * rank's queue. With a card for each rank they are NCCL's (device/cuda/nccl.h), each rank's part on its own
 * queue. Of some cards of which one has several ranks there are none, because NCCL refuses two ranks of one
 * card: bytes go by way of the host. With other processes they are NCCL's alone.
 */
#ifndef WEFT_DEVICE_CUDA_COLLECTIVES_H_
#define WEFT_DEVICE_CUDA_COLLECTIVES_H_

#include "device/cuda/device.h"

extern const WEFT_DeviceCollectives weft_cuda_collectives;

/* Bytes of an element; 0: not of a plain type. */
static inline size_t weft_cuda_element_bytes(int dtype) {
  static const unsigned char bytes[] = {0, 4, 8, 4, 1, 2, 1,  0, 8, 8, 1, 0,
                                        0, 0, 2, 0, 0, 2, 16, 2, 0, 0, 4, 8}; /* by TF_DataType */
  return (unsigned)dtype < sizeof bytes ? bytes[dtype] : 0;
}

#endif /* WEFT_DEVICE_CUDA_COLLECTIVES_H_ */
