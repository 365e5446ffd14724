/* services/part_fetch.h - a tensor that a peer on another host keeps, fetched in parts: the receiver's end.
 *
 * The counterpart of services/part_owner.h. A few calls for parts are under way at a time: while the owner's
 * device copies one, another is on the network, and what has come is copied to the receiver's device.
 */
#ifndef WEFT_SERVICES_PART_FETCH_H_
#define WEFT_SERVICES_PART_FETCH_H_

#include "device/transfer.h"
#include "rpc/channel.h"
#include "services/messages.h"

enum { WEFT_FETCH_WINDOW = 4 }; /* calls under way: two that are sent, one that is copied, one in reserve */

/* Fetches the tensor that the peer keeps under `id` and describes in `place`, into `space` (NULL: the host's
 * memory; its device stays until the fetch is done). fn(arg, status, tensor) is called once, on any thread:
 * with one reference, whose fence may not have passed yet, or with a status. `channel` is retained,
 * `canceller` (NULL is fine) lent until then. Never blocks. Errors: those of the calls; INVALID_ARGUMENT if
 * the peer's parts are none; RESOURCE_EXHAUSTED. */
void weft_part_fetch(weft_rpc_channel_t *channel, int64_t id, const weft_local_transport_msg_t *place,
                     const weft_memory_space_t *space, weft_canceller_t *canceller, weft_transfer_fn *fn,
                     void *arg);

#endif /* WEFT_SERVICES_PART_FETCH_H_ */
