/* services/local_transfer.h - receives the large tensors of one peer past gRPC, if the peer is on this host.
 *
 * A RecvTensor still is an RPC: its answer says that the tensor comes over the
 * local link (rpc/local_link.h), under the request's id. Link and answer come on
 * two threads, in any order; a receive is done when both are there. Where there
 * is no link, the answer holds the tensor, as always.
 *
 * A tensor of middle size is copied by its owner into memory that both ends of the link share
 * (rpc/local_room.h), and used there. The answer may come before the copy is made: the receiver looks for its
 * end for a moment, and is then told of it over the link.
 *
 * A larger tensor that the receiver can read where it lies does not move until the receiver copies it
 * (device/peer_memory.h): the host's memory for the host's, a device's for that of another device that can
 * read it. The answer says where it lies, and the link is how the receiver gives it back. A receiver that
 * cannot read it asks for its bytes on the link, and does not offer to read the peer's memory again.
 */
#ifndef WEFT_SERVICES_LOCAL_TRANSFER_H_
#define WEFT_SERVICES_LOCAL_TRANSFER_H_

#include "services/local_transport.h"
#include "worker/worker_client.h"

enum {
  WEFT_LOCAL_ROOM_MIN_BYTES = 32 << 10, /* a tensor that is smaller goes with the answer */
  /* The answer goes before the copy of a tensor of at least this size: the copy takes as long as the answer.
   */
  WEFT_LOCAL_ROOM_EARLY_BYTES = 256 << 10,
  /* Tensors smaller than this are not lent and not sent over the link: a hand-over to another thread costs
   * more than a copy. */
  WEFT_LOCAL_TRANSFER_MIN_BYTES = 256 << 10
};

typedef struct weft_local_transfers weft_local_transfers_t; /* Thread-safe. */

/* `task` (of the peer; for messages) must outlive it. */
WEFT_MUST_CHECK weft_status_t *weft_local_transfers_create(weft_str_t task, weft_local_transfers_t **out);
/* Breaks the link; no receive may be awaited any more. NULL is fine. */
void weft_local_transfers_destroy(weft_local_transfers_t *t);

/* Announces a receive under `id` of a tensor that is wanted in `space` (NULL: the host's memory; its device
 * stays until the receive is done), and appends what goes into the request's transport_options, which
 * names no host if there can be no link. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_local_transfers_expect(weft_local_transfers_t *t, int64_t id,
                                                           const weft_memory_space_t *space,
                                                           weft_strbuf_t *options);
/* The answer is there, and it is another: the tensor itself, or a failure. After that the peer may still lend
 * the tensor: it is given back. */
void weft_local_transfers_forget(weft_local_transfers_t *t, int64_t id, bool has_failed);
/* The answer is there, and says where the tensor lies in the peer's memory. Await comes next. */
void weft_local_transfers_import(weft_local_transfers_t *t, int64_t id, const weft_local_transport_msg_t *m);
/* The answer is there, and says that the tensor is in the room. True: *out is owned by the caller, and uses
 * its bytes there; or *out_status is INTERNAL, there is no such place, or RESOURCE_EXHAUSTED. False: the
 * owner still copies it. Await comes next. */
bool weft_local_transfers_take(weft_local_transfers_t *t, int64_t id, const weft_local_transport_msg_t *m,
                               weft_status_t **out_status, weft_tensor_t **out);
/* The answer is there, and says that the tensor is on the link, or it is imported, or still copied. fn is
 * called once, perhaps before this returns, with the tensor, in the memory where it is wanted and with its
 * fence; CANCELLED; UNAVAILABLE if the link breaks. */
void weft_local_transfers_await(weft_local_transfers_t *t, int64_t id, weft_canceller_t *canceller,
                                weft_recv_fn *fn, void *arg);
/* The peer listens at `name`: connects, if there is no link yet. */
void weft_local_transfers_offer(weft_local_transfers_t *t, weft_str_t name);

#endif /* WEFT_SERVICES_LOCAL_TRANSFER_H_ */
