/* services/remote_master.h - a master behind gRPC: the client side, and the service that answers it. */
#ifndef WEFT_SERVICES_REMOTE_MASTER_H_
#define WEFT_SERVICES_REMOTE_MASTER_H_

#include "master/master_client.h"
#include "rpc/channel.h"
#include "rpc/server.h"

/* Weft's own method of masters: a call that lasts as long as its client; the answer has no fields. */
#define WEFT_HOLD_CLIENT_METHOD "/weft.MasterService/HoldClient"

/* Each call runs on the caller's thread, which waits, and the callback comes before it returns.
 * Calls without a session wait for the master to come up. Repeats UNAVAILABLE as TensorFlow's client does (at
 * most 10 times, reference 1.3), and reads errors from the response body. `timeout_ms` bounds every call; 0:
 * none. */
WEFT_MUST_CHECK weft_status_t *weft_remote_master_client_create(weft_rpc_channel_t *channel,
                                                                int64_t timeout_ms,
                                                                weft_master_client_t **out);
/* The same for a caller that looks after failures by itself: a call ends with UNAVAILABLE at once while the
 * master is away, and is never sent again. */
/* The same, but a session is not created where the first connection is refused: the master is known to have
 * been there. */
WEFT_MUST_CHECK weft_status_t *weft_remote_master_client_create_fail_fast(weft_rpc_channel_t *channel,
                                                                          int64_t timeout_ms,
                                                                          weft_master_client_t **out);
WEFT_MUST_CHECK weft_status_t *weft_remote_master_client_create_direct(weft_rpc_channel_t *channel,
                                                                       int64_t timeout_ms,
                                                                       weft_master_client_t **out);
/* Registers all methods of tensorflow.MasterService and of weft.MasterService on `s`, served by `m`
 * (borrowed). Every byte of a request is checked here. Feeds and fetches are decoded and encoded with at most
 * one copy. */
typedef struct weft_master_service weft_master_service_t;
WEFT_MUST_CHECK weft_status_t *weft_master_service_create(weft_master_client_t *m, weft_rpc_server_t *s,
                                                          weft_master_service_t **out);
void weft_master_service_destroy(weft_master_service_t *s); /* after the server; NULL is fine */

#endif /* WEFT_SERVICES_REMOTE_MASTER_H_ */
