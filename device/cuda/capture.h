/* device/cuda/capture.h - work that a thread has recorded instead of run, and its replay.
 *
 * While a thread captures on a queue, what it gives to that queue goes to a stream of the capture and becomes
 * a graph of CUDA. The queue's own stream goes on for all other threads, and fences are recorded there. So
 * the mode is thread-local: only calls of the capturing thread can spoil the capture.
 *
 * What a capture forbids: a wait for another queue, which would be one for an event from outside; taking
 * memory from the driver or giving it back; loading modules. Any of it makes the capture fail, and then
 * nothing of it has run.
 *
 * Source: CUDA C++ Programming Guide, "CUDA Graphs", "Creating a Graph Using Stream Capture".
 */
#ifndef WEFT_DEVICE_CUDA_CAPTURE_H_
#define WEFT_DEVICE_CUDA_CAPTURE_H_

#include "device/cuda/queue.h"

/* WEFT_DeviceType's. */
WEFT_Failure *weft_cuda_capture_begin(void *queue);
WEFT_Failure *weft_cuda_capture_end(void *queue, void **out_graph);
WEFT_Failure *weft_cuda_graph_replay(void *queue, void *graph);
void weft_cuda_graph_destroy(void *graph);

#endif /* WEFT_DEVICE_CUDA_CAPTURE_H_ */
