/* device/cuda/copies.h - copies between memories, on a queue.
 *
 * The driver copies between a device and pinned host memory by itself. With pageable memory it may wait for
 * the stream, which no thread of Weft does: such bytes go by way of pinned buffers. A few go into one at
 * once. Many go in pieces through two buffers in turn: the device copies one piece while the host moves the
 * next. The host's halves are host functions on a stream of their own, so a thread of the driver moves the
 * bytes, and events order the two streams. No thread of Weft takes part.
 */
#ifndef WEFT_DEVICE_CUDA_COPIES_H_
#define WEFT_DEVICE_CUDA_COPIES_H_

#include "device/cuda/queue.h"

/* From the host's memory to a device's. The bytes stay until the copy is done. */
WEFT_Failure *weft_cuda_copy_in(weft_cuda_queue_t *q, const void *from, void *to, size_t bytes);
/* The same for few bytes, of which the caller may dispose at once. */
WEFT_Failure *weft_cuda_copy_in_now(weft_cuda_queue_t *q, const void *from, void *to, size_t bytes);
/* From a device's memory to the host's. */
WEFT_Failure *weft_cuda_copy_out(weft_cuda_queue_t *q, const void *from, void *to, size_t bytes);
/* Within a device, or between two: `from_context` is that of `from`. */
WEFT_Failure *weft_cuda_copy_across(weft_cuda_queue_t *q, CUcontext from_context, const void *from,
                                    CUcontext to_context, void *to, size_t bytes);

#endif /* WEFT_DEVICE_CUDA_COPIES_H_ */
