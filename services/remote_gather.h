/* services/remote_gather.h - receives of several tensors in one call (rendezvous/gather.h); only for this
 * folder. */
#ifndef WEFT_SERVICES_REMOTE_GATHER_H_
#define WEFT_SERVICES_REMOTE_GATHER_H_

#include "rpc/channel.h"
#include "rpc/service.h"
#include "worker/worker_client.h"

/* As the method recv_tensors of weft_worker_client_ops_t. `w` is retained until the answer. */
void weft_remote_recv_tensors(weft_worker_client_t *w, weft_rpc_channel_t *channel, int64_t step_id,
                              const weft_key_t *keys, int n, weft_canceller_t *canceller, weft_gather_fn *fn,
                              void *arg);

/* The other end: answers one call from `w`. */
void weft_serve_recv_tensors(weft_worker_client_t *w, weft_served_t *s);

#endif /* WEFT_SERVICES_REMOTE_GATHER_H_ */
