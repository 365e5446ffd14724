/* rpc/local_peer.h - what a channel knows of a server that may be on this host; only for this folder.
 *
 * States:
 *   unknown --a few calls were answered over gRPC--> asking      weft_local_peer_wants_name(): once
 *   asking  --weft_local_peer_named()--> near or far             near: it has told the name of its socket
 *   near    --its socket is gone--> unknown, or far if it was never reached
 *   far     --the connection was lost--> unknown                 weft_local_peer_lost(): another may come in
 * its place
 *
 * While it is near, calls go over local connections: one for all calls that are told of their end, and one
 * for each thread that waits for its own.
 */
#ifndef WEFT_RPC_LOCAL_PEER_H_
#define WEFT_RPC_LOCAL_PEER_H_

#include "rpc/local_waiter.h"

typedef struct weft_local_peer weft_local_peer_t; /* Thread-safe. */

WEFT_MUST_CHECK weft_status_t *weft_local_peer_create(weft_local_peer_t **out);
/* Breaks the connections. No call is waited for. NULL is fine. */
void weft_local_peer_destroy(weft_local_peer_t *p);

/* A call was answered over gRPC. True: the caller is to ask for the name now. */
bool weft_local_peer_wants_name(weft_local_peer_t *p);
void weft_local_peer_named(weft_local_peer_t *p, weft_str_t name); /* copied; empty: it is not near */
void weft_local_peer_lost(weft_local_peer_t *p);
bool weft_local_peer_is_near(weft_local_peer_t *p);

/* Begins a call as weft_local_calls_start() does. False: the server is not near any more, or no memory;
 * nothing was taken. */
bool weft_local_peer_start(weft_local_peer_t *p, weft_local_loop_t *loop, const char *path,
                           weft_message_t *request, weft_canceller_t *canceller, weft_local_call_t *call);

/* Another answer to such a call is likely to come soon (weft_local_conn_expect_more()). */
void weft_local_peer_expect_more(weft_local_peer_t *p);

/* A call for which the calling thread waits; `request` is lent. False: as above, and nothing was sent.
 * CANCELLED and ENDED (with `status`) are outcomes, too. */
bool weft_local_peer_wait(weft_local_peer_t *p, const char *path, weft_message_t *request,
                          weft_canceller_t *canceller, weft_local_reply_t *out);

/* Ends the calls that began before `before_ns` with `why` (copied). */
void weft_local_peer_end(weft_local_peer_t *p, const weft_status_t *why, int64_t before_ns);

#endif /* WEFT_RPC_LOCAL_PEER_H_ */
