/* device/peer_memory.h - tensors that another process of this host reads where they lie.
 *
 * The owner exports a tensor when the work that makes it is done, and keeps it until the reader is done. The
 * reader opens the memory that the tensor lies in, which is slow and happens once, and copies from there with
 * its own device's queue for copies in. Bytes never pass through the host. What lies in the host's memory is
 * copied from there to the host's, on several threads if it is large (base/process_memory.h). Owner and
 * reader hear of each other by other means (services/): nothing here waits for another process.
 */
#ifndef WEFT_DEVICE_PEER_MEMORY_H_
#define WEFT_DEVICE_PEER_MEMORY_H_

#include "device/device.h"
#include "weft/device.h"

/* A driver's; as WEFT_DeviceSharing of weft/device.h. */
struct weft_device_sharing {
  weft_status_t *(*identify)(const weft_device_t *d, uint8_t *out);
  weft_status_t *(*export_memory)(const weft_device_t *d, const void *p, const uint8_t *reader,
                                  WEFT_SharedMemory *out);
  weft_status_t *(*import_memory)(const weft_device_t *d, const uint8_t *handle, const void **out_at,
                                  size_t *out_bytes);
  void (*forget_memory)(const weft_device_t *d, const void *at);
};

#define WEFT_PEER_HOST "CPU" /* the type of a reader that copies to the host's memory */

/* What `space` (NULL: the host's memory) is for other processes of the host. False: it reads no memory of
 * theirs. */
bool weft_peer_memory_identify(const weft_memory_space_t *space, uint8_t out[WEFT_DEVICE_ID_BYTES]);

/* How a device of that type (WEFT_PEER_HOST: the host), which is `reader` in its process (any bytes), reads
 * `t`, whose fence has passed. The caller holds `t` until it has. False: it cannot. Thread-safe. */
bool weft_peer_memory_export(const weft_tensor_t *t, weft_str_t type, weft_str_t reader,
                             WEFT_SharedMemory *out);

/* Where a tensor lies in another process's memory; all of it comes from there, and is checked. */
typedef struct weft_peer_tensor {
  weft_dtype_t dtype;
  weft_shape_t shape;
  const uint8_t *handle; /* WEFT_MEMORY_HANDLE_BYTES */
  uint64_t offset;
  int64_t pid; /* of the process, as the kernel says; needed for the host's memory only */
} weft_peer_tensor_t;

/* Called once, on any thread, when the peer's memory is not read any more, under no lock. Owns `status`, or
 * what poisoned the queue, and one reference to `tensor`. */
typedef void weft_peer_copy_fn(void *arg, weft_status_t *status, weft_tensor_t *tensor);

/* Copies it to a new tensor in `space` (NULL: the host's memory), whose device stays until fn is called.
 * `peer`, not 0, names the other process for weft_peer_memory_forget(). Does not wait for the device. Errors,
 * and then fn is not called: INVALID_ARGUMENT for bytes outside of the memory, RESOURCE_EXHAUSTED, the
 * driver's; of the host's memory PERMISSION_DENIED and UNAVAILABLE, of which fn may get the latter, too.
 * Thread-safe. */
WEFT_MUST_CHECK weft_status_t *weft_peer_memory_copy(uint64_t peer, const weft_peer_tensor_t *from,
                                                     const weft_memory_space_t *space, weft_peer_copy_fn *fn,
                                                     void *arg);
/* Closes what was opened of that process, what is still read when that is done. A copy that was begun at the
 * same time may leave its memory open: then once more. Thread-safe. */
void weft_peer_memory_forget(uint64_t peer);
/* The same for all that `d` has opened, which is about to be destroyed. */
void weft_peer_memory_end(const weft_device_t *d);

#endif /* WEFT_DEVICE_PEER_MEMORY_H_ */
