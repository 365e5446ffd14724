/* rpc/arguments.h - the settings of gRPC that every connection of ours has; only for this folder. */
#ifndef WEFT_RPC_ARGUMENTS_H_
#define WEFT_RPC_ARGUMENTS_H_

#include <grpc/grpc.h>

/* The trailer of a failure that a server of ours has answered; without it, the failure may be that of the
 * connection. */
#define WEFT_RPC_ANSWERED "weft-answered"

/* Tables of (name, value), read top to bottom; both constant. */
const grpc_channel_args *weft_rpc_channel_arguments(void);
const grpc_channel_args *weft_rpc_server_arguments(void);

#endif /* WEFT_RPC_ARGUMENTS_H_ */
