/* server/worker_cache.h - clients of all tasks of a cluster: this process's own worker, the others over gRPC.
 */
#ifndef WEFT_SERVER_WORKER_CACHE_H_
#define WEFT_SERVER_WORKER_CACHE_H_

#include "rpc/channel.h"
#include "server/cluster.h"
#include "worker/worker_client.h"

/* One task alone, served by `local` (set later with weft_worker_cache_set_local): a local session. */
WEFT_MUST_CHECK weft_status_t *weft_worker_cache_create_local(weft_str_t task, weft_worker_cache_t **out);
/* All tasks of `cluster`; those but `own_task` are reached through `rpc`, connected at first use. */
WEFT_MUST_CHECK weft_status_t *weft_worker_cache_create(const weft_cluster_t *cluster, weft_str_t own_task,
                                                        weft_rpc_client_t *rpc, weft_worker_cache_t **out);
/* Clients made from now on tell `l` and `counters` (borrowed) what they fetch. */
void weft_worker_cache_set_log(weft_worker_cache_t *base, weft_transfer_log_t *l,
                               struct weft_link_counters *counters);
/* The task is known to be gone or to hang: calls to it end as weft_rpc_channel_end_calls says ... */
void weft_worker_cache_end_calls(weft_worker_cache_t *c, weft_str_t task, const weft_status_t *why,
                                 int64_t min_age_ms);
/* ... and are refused, or not any more, as weft_rpc_channel_refuse says. */
void weft_worker_cache_refuse(weft_worker_cache_t *c, weft_str_t task, const weft_status_t *why);
/* Whether the task is known to be lost: `why` (copied), or NULL. Sessions are not created on a lost one. */
void weft_worker_cache_set_lost(weft_worker_cache_t *base, weft_str_t task, const weft_status_t *why);
void weft_worker_cache_set_local(weft_worker_cache_t *base,
                                 weft_worker_client_t *local); /* retained; before the first find */

#endif /* WEFT_SERVER_WORKER_CACHE_H_ */
