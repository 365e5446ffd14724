/* services/remote_coordination.h - the coordination service over gRPC: the client, and the adapter
 * that answers it. */
#ifndef WEFT_SERVICES_REMOTE_COORDINATION_H_
#define WEFT_SERVICES_REMOTE_COORDINATION_H_

#include "membership/coordination_client.h"
#include "rpc/channel.h"
#include "rpc/server.h"

/* The service behind `channel` (retained). Beats and watches fail at once while it does not answer; requests
 * for keys and values wait for it to start: as long as the request itself may wait, and 30 s beyond. */
WEFT_MUST_CHECK weft_status_t *weft_remote_coordination_client_create(weft_rpc_channel_t *channel,
                                                                      weft_coordination_client_t **out);

/* Registers weft.MembershipService on `server`, answered by `service` (borrowed; it must outlive the server's
 * start). Checks every byte of each request. The canceller of a watch fires when its caller's connection
 * breaks. */
WEFT_MUST_CHECK weft_status_t *weft_membership_service_register(weft_coordination_t *service,
                                                                weft_rpc_server_t *server);

#endif /* WEFT_SERVICES_REMOTE_COORDINATION_H_ */
