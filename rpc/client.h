/* rpc/client.h - what a server and the channels of a process share; only for this folder. */
#ifndef WEFT_RPC_CLIENT_H_
#define WEFT_RPC_CLIENT_H_

#include "rpc/channel.h"
#include "rpc/loop.h"

weft_rpc_loop_t *weft_rpc_client_loop(weft_rpc_client_t *c); /* lent */

/* A completion queue at which one thread waits for one call; kept for the next one when given back. */
grpc_completion_queue *weft_rpc_client_take_queue(weft_rpc_client_t *c);
void weft_rpc_client_give_queue(weft_rpc_client_t *c, grpc_completion_queue *queue);
weft_canceller_t *weft_rpc_client_stopper(weft_rpc_client_t *c); /* lent; cancelled by weft_rpc_client_stop */
/* Calls in flight, which destroy waits for. */
void weft_rpc_client_enter(weft_rpc_client_t *c);
void weft_rpc_client_leave(weft_rpc_client_t *c);

#endif /* WEFT_RPC_CLIENT_H_ */
