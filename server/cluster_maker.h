/* server/cluster_maker.h - clusters that clients bring along, made of this server's worker and channels to
 * the others. */
#ifndef WEFT_SERVER_CLUSTER_MAKER_H_
#define WEFT_SERVER_CLUSTER_MAKER_H_

#include "rpc/channel.h"
#include "worker/session_cluster.h"
#include "worker/worker.h"

typedef struct weft_server_clusters { /* Thread-safe once filled. */
  weft_cluster_maker_t base;
  weft_rpc_client_t *rpc; /* borrowed */
  weft_worker_t *worker;  /* borrowed; set before the server listens */
  weft_str_t job;         /* what the server was started as; borrowed */
  int task;
  atomic_int port; /* that it listens on; 0 before it does */
} weft_server_clusters_t;

void weft_server_clusters_init(weft_server_clusters_t *c, weft_str_t job, int task, weft_rpc_client_t *rpc);

#endif /* WEFT_SERVER_CLUSTER_MAKER_H_ */
