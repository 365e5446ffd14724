/* services/remote_worker.h - workers behind gRPC: the client side, and the service that answers it. */
#ifndef WEFT_SERVICES_REMOTE_WORKER_H_
#define WEFT_SERVICES_REMOTE_WORKER_H_

#include "rpc/channel.h"
#include "rpc/server.h"
#include "worker/worker_client.h"

/* A worker behind `channel` (retained), known as `task` (copied). */
WEFT_MUST_CHECK weft_status_t *weft_remote_worker_client_create(weft_rpc_channel_t *channel, weft_str_t task,
                                                                weft_worker_client_t **out);
/* Registers all methods of tensorflow.WorkerService on `s`, served by `w` (the local worker's client;
 * borrowed). Checks every byte of each request here. Ids of requests seen twice are refused with ABORTED. */
typedef struct weft_worker_service weft_worker_service_t;
WEFT_MUST_CHECK weft_status_t *weft_worker_service_create(weft_worker_client_t *w, weft_rpc_server_t *s,
                                                          weft_worker_service_t **out);
void weft_worker_service_destroy(weft_worker_service_t *s); /* after the server; NULL is fine */

#endif /* WEFT_SERVICES_REMOTE_WORKER_H_ */
