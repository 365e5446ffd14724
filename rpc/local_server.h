/* rpc/local_server.h - serves a server's methods to processes of its host, past gRPC; only for this folder.
 *
 * Callers learn the name of its socket over gRPC (weft_local_server_introduce()), so they know that it is
 * this server; both ends then check that the other one is a process of their own user.
 */
#ifndef WEFT_RPC_LOCAL_SERVER_H_
#define WEFT_RPC_LOCAL_SERVER_H_

#include "rpc/call.h"
#include "rpc/local_conn.h"

/* A method that every server has: a caller on this host asks for the name. Request: the caller's host
 * (rpc/local_link.h) behind the version of what is spoken. Answer: the name; empty: not for this caller. */
#define WEFT_LOCAL_INTRODUCE "/weft.LocalService/Introduce"
#define WEFT_LOCAL_VERSION "3 "

typedef struct weft_local_server weft_local_server_t; /* Thread-safe. */

/* `intake`, whose methods it serves, outlives it. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_local_server_create(weft_rpc_intake_t *intake, weft_rpc_loop_t *loop,
                                                        weft_local_server_t **out);
/* A handler of WEFT_LOCAL_INTRODUCE; `arg` is the server. Listens from the first caller of this host on. */
void weft_local_server_introduce(void *arg, weft_rpc_call_t *call);
/* Takes no more connections; new calls are refused as soon as the intake is closed. */
void weft_local_server_stop(weft_local_server_t *s);
void weft_local_server_cancel(weft_local_server_t *s); /* all calls that are being served */
/* When no call is being served: breaks the connections and waits until they have closed. NULL is fine. */
void weft_local_server_destroy(weft_local_server_t *s);

#endif /* WEFT_RPC_LOCAL_SERVER_H_ */
