/* services/remote_collectives.h - what a worker behind a channel is asked for collectives; only for this
 * folder. */
#ifndef WEFT_SERVICES_REMOTE_COLLECTIVES_H_
#define WEFT_SERVICES_REMOTE_COLLECTIVES_H_

#include "rpc/channel.h"
#include "rpc/service.h"
#include "worker/worker_client.h"

/* As the methods of weft_worker_client_ops_t. `w` is retained until the answer. */
void weft_remote_recv_buf(weft_worker_client_t *w, weft_rpc_channel_t *channel, const weft_buf_request_t *r,
                          weft_canceller_t *canceller, weft_buf_fn *fn, void *arg);
void weft_remote_worker_complete_group(weft_worker_client_t *w, weft_rpc_channel_t *channel,
                                       const weft_group_request_t *r, weft_canceller_t *canceller,
                                       weft_group_fn *fn, void *arg);
void weft_remote_worker_complete_instance(weft_worker_client_t *w, weft_rpc_channel_t *channel,
                                          const weft_instance_request_t *r, weft_canceller_t *canceller,
                                          weft_instance_fn *fn, void *arg);

/* The other end: each answers one call from `w`. */
void weft_serve_recv_buf(weft_worker_client_t *w, weft_served_t *s);
void weft_serve_complete_group(weft_worker_client_t *w, weft_served_t *s);
void weft_serve_complete_instance(weft_worker_client_t *w, weft_served_t *s);

#endif /* WEFT_SERVICES_REMOTE_COLLECTIVES_H_ */
