/* device/tensor_stream.h - a tensor's bytes on their way from a device's memory to the host's, in parts.
 *
 * All parts are copied by the device, into memory that it writes by itself, one after the other; a reader
 * takes the first ones while the others are under way. So what sends a tensor to another process sends and
 * copies at the same time.
 */
#ifndef WEFT_DEVICE_TENSOR_STREAM_H_
#define WEFT_DEVICE_TENSOR_STREAM_H_

#include "device/device.h"

typedef struct weft_tensor_stream weft_tensor_stream_t; /* Thread-safe. Counted. */

/* Begins to copy `t` (retained until that is done), which lies in a device's memory. Never waits. A copy that
 * fails later is told by await(). Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_stream_begin(weft_tensor_t *t, weft_tensor_stream_t **out);
/* As many bytes as the tensor has; those that are there may be read. Lent by the stream. */
const void *weft_tensor_stream_data(const weft_tensor_stream_t *s);
/* Waits until more than the first `at` bytes are there, of which there are more. Returns how many are there
 * from the first on; 0: they will never be. For threads of their own; not for those that run kernels. */
size_t weft_tensor_stream_await(weft_tensor_stream_t *s, size_t at);

/* A place in the list of those that wait for bytes: the caller's memory, until `fn` is called. */
typedef struct weft_stream_waiter {
  struct weft_stream_waiter *next;
  size_t end;
  void (*fn)(void *arg, weft_status_t *status);
  void *arg;
} weft_stream_waiter_t;
/* Calls fn(arg, status) once, under no lock, before the return or later on a thread of the device's: NULL
 * when the first `end` bytes are there, of which there are as many; else (owned) why they will never be. The
 * caller holds the stream until then. Never blocks. */
void weft_tensor_stream_then(weft_tensor_stream_t *s, size_t end, weft_stream_waiter_t *w,
                             void (*fn)(void *arg, weft_status_t *status), void *arg);
void weft_tensor_stream_release(weft_tensor_stream_t *s);

#endif /* WEFT_DEVICE_TENSOR_STREAM_H_ */
