/* membership/remote/remote_keeper.h - the record behind gRPC: the client side, and the service that answers
 * it. */
#ifndef WEFT_MEMBERSHIP_REMOTE_REMOTE_KEEPER_H_
#define WEFT_MEMBERSHIP_REMOTE_REMOTE_KEEPER_H_

#include "membership/keeper_client.h"
#include "rpc/channel.h"
#include "rpc/server.h"

/* The keeper behind `channel` (retained). Beats and watches fail at once while it is away; keys and values
 * wait for it to come up: as long as the call itself may wait, and 30 s beyond. */
WEFT_MUST_CHECK weft_status_t *weft_remote_keeper_client_create(weft_rpc_channel_t *channel,
                                                                weft_keeper_client_t **out);

/* Registers weft.MembershipService on `s`, served by `k` (borrowed; it must outlive the server's start).
 * Checks every byte of each request. A watch whose caller goes away tells the keeper so. */
WEFT_MUST_CHECK weft_status_t *weft_membership_service_register(weft_keeper_t *k, weft_rpc_server_t *s);

#endif /* WEFT_MEMBERSHIP_REMOTE_REMOTE_KEEPER_H_ */
