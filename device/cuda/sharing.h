/* device/cuda/sharing.h - memory of a GPU that other processes of the host read by themselves: CUDA IPC.
 *
 * What is exported is a region of the arena, which is memory of cuMemAlloc(): one handle for all tensors in
 * it, so that the reader opens it once. No interprocess event is exported: the work that fills a tensor is
 * done before its reader hears of it (docs/decisions/0018).
 */
#ifndef WEFT_DEVICE_CUDA_SHARING_H_
#define WEFT_DEVICE_CUDA_SHARING_H_

#include "weft/device.h"

extern const WEFT_DeviceSharing weft_cuda_sharing;

#endif /* WEFT_DEVICE_CUDA_SHARING_H_ */
