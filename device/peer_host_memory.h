/* device/peer_host_memory.h - peer_memory.h for tensors that lie in the host's memory at both ends; only for
 * it.
 */
#ifndef WEFT_DEVICE_PEER_HOST_MEMORY_H_
#define WEFT_DEVICE_PEER_HOST_MEMORY_H_

#include "device/peer_memory.h"

bool weft_peer_host_identify(uint8_t out[WEFT_DEVICE_ID_BYTES]);
/* False: its bytes are no plain ones. */
bool weft_peer_host_export(const weft_tensor_t *t, WEFT_SharedMemory *out);
/* Small tensors are copied before it returns. Errors as weft_peer_memory_copy(). */
WEFT_MUST_CHECK weft_status_t *weft_peer_host_copy(const weft_peer_tensor_t *from, weft_peer_copy_fn *fn,
                                                   void *arg);

#endif /* WEFT_DEVICE_PEER_HOST_MEMORY_H_ */
