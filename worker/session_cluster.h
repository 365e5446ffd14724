/* worker/session_cluster.h - a cluster that a client brings along (ConfigProto.cluster_def), as one of its
 * tasks sees it.
 *
 * A server knows its own cluster from its start. A client may name another one
 * for its session alone, in which the same servers go by other names. Masters
 * and workers ask the server, which knows addresses and channels, for such a
 * cluster through the interface below, and keep it as long as the session.
 */
#ifndef WEFT_WORKER_SESSION_CLUSTER_H_
#define WEFT_WORKER_SESSION_CLUSTER_H_

#include "worker/worker_client.h"

/* Empty (all NULL): the server's own cluster. */
typedef struct weft_session_cluster {
  weft_worker_cache_t *cache; /* owned */
  char *task;                 /* owned: what this process is called there, "/job:x/replica:0/task:n" */
} weft_session_cluster_t;
void weft_session_cluster_deinit(weft_session_cluster_t *c);

typedef struct weft_cluster_maker weft_cluster_maker_t; /* Thread-safe. Lives as long as the server. */
struct weft_cluster_maker {
  /* For a master, from a serialized ClusterDef. The master finds itself by `target`, the address its client
   * called. Errors: INVALID_ARGUMENT, as TensorFlow words it, if it is not in the cluster, is in it twice, or
   * goes there by the job and index that it was started with. */
  weft_status_t *(*for_master)(weft_cluster_maker_t *m, weft_str_t cluster_def, weft_str_t target,
                               weft_session_cluster_t *out);
  /* For a worker, from a serialized ServerDef; *out stays empty if that holds no cluster. */
  weft_status_t *(*for_worker)(weft_cluster_maker_t *m, weft_str_t server_def, weft_session_cluster_t *out);
};

#endif /* WEFT_WORKER_SESSION_CLUSTER_H_ */
