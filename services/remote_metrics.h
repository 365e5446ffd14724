/* services/remote_metrics.h - a task's numbers over gRPC: the service that tells them, and a call of it.
 *
 * "/weft.WorkerService/Metrics" answers an empty request with the text that `/metrics` of the task's HTTP
 * port has (base/metrics.h), so that a command needs no port but the one that the cluster's description
 * names.
 */
#ifndef WEFT_SERVICES_REMOTE_METRICS_H_
#define WEFT_SERVICES_REMOTE_METRICS_H_

#include "rpc/channel.h"
#include "rpc/server.h"

/* Appends the numbers. On a thread of the server; must not block. */
typedef void weft_write_metrics_fn(void *arg, weft_strbuf_t *out);
typedef struct weft_metrics_service weft_metrics_service_t;
/* Registers the method on `server`, before that starts. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_metrics_service_create(weft_rpc_server_t *server,
                                                           weft_write_metrics_fn *write, void *arg,
                                                           weft_metrics_service_t **out);
void weft_metrics_service_destroy(weft_metrics_service_t *s); /* after the server; NULL is fine */

/* Owns `status`; `text` is lent for the call, and any bytes: a peer may send what it likes. */
typedef void weft_metrics_text_fn(void *arg, weft_status_t *status, weft_str_t text);
/* Asks the task behind `channel`. Calls fn once, on a thread of the client's. Errors: those of weft_rpc_call;
 * UNIMPLEMENTED from a server that is not Weft's. */
void weft_remote_metrics_get(weft_rpc_channel_t *channel, const weft_rpc_options_t *o,
                             weft_metrics_text_fn *fn, void *arg);

#endif /* WEFT_SERVICES_REMOTE_METRICS_H_ */
