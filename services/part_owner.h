/* services/part_owner.h - tensors that peers on other hosts fetch in parts: the owner's end.
 *
 * RecvTensor answers with one message, which gRPC has whole before it sends any of it. So a large tensor that
 * is copied out of a device's memory, or into one, would be copied and sent one after the other. For a peer
 * that says that it takes parts, the answer only describes the tensor (weft.LocalTransport). The peer fetches
 * the parts by weft.WorkerService/RecvTensorPart, several at a time (services/part_fetch.h); each is answered
 * when the device has copied it, while the parts behind it are still under way.
 *
 * A tensor is kept until all of it was fetched, the peer wants no more of it, or no part was asked for in a
 * while: then the peer is gone. TensorFlow's peers do not say that they take parts, and never get any.
 */
#ifndef WEFT_SERVICES_PART_OWNER_H_
#define WEFT_SERVICES_PART_OWNER_H_

#include "rpc/service.h"
#include "tensor/tensor.h"

/* Smaller tensors go with the answer: more calls cost more than a copy. */
enum { WEFT_PARTS_MIN_BYTES = 4 << 20 };

typedef struct weft_part_owner weft_part_owner_t; /* Thread-safe. */

/* idle_ms: after that long without a call for one of its parts a tensor is dropped. */
WEFT_MUST_CHECK weft_status_t *weft_part_owner_create(int idle_ms, weft_part_owner_t **out);
/* Drops what is kept; when no call is served any more. NULL is fine. */
void weft_part_owner_destroy(weft_part_owner_t *o);

/* Keeps a tensor of a plain type (retained) under `id`, and begins to copy it if it lies in a device's
 * memory. Never blocks. Errors: RESOURCE_EXHAUSTED; ALREADY_EXISTS. */
WEFT_MUST_CHECK weft_status_t *weft_part_owner_keep(weft_part_owner_t *o, uint64_t id, weft_tensor_t *tensor);
/* Serves a RecvTensorPart. Fails the call with ABORTED if the tensor is not kept, INVALID_ARGUMENT if it has
 * no such part, or with what its copy failed with. */
void weft_part_owner_serve(weft_part_owner_t *o, weft_served_t *s);

#endif /* WEFT_SERVICES_PART_OWNER_H_ */
