/* server/task.h - a worker and a master that know each other: the part of a server that needs no network. */
#ifndef WEFT_SERVER_TASK_H_
#define WEFT_SERVER_TASK_H_

#include "master/master.h"
#include "server/cluster_maker.h"
#include "worker/worker.h"

typedef struct weft_task {
  weft_worker_cache_t *cache; /* owned */
  int64_t made_micros;        /* when, since 1970 */
  weft_worker_t *worker;
  weft_worker_client_t *worker_client;
  weft_master_t *master;
  weft_master_client_t *master_client;
} weft_task_t;

/* See weft_worker_options_t, also for fields that are 0. */
typedef struct weft_task_size {
  int num_threads, num_cpus;
  const weft_accelerator_options_t *accelerators; /* borrowed by weft_task_init */
  weft_str_t collective_leader;
  bool collectives_only_rpc;
  int64_t client_grace_ms; /* see weft_master_options_t */
} weft_task_options_t;

/* Takes `cache` over in every case. `is_direct`: see weft_master_options_t. `clusters` (borrowed; gets the
 * worker) makes the clusters that clients bring along; NULL: none. On failure *out is empty. */
WEFT_MUST_CHECK weft_status_t *weft_task_init(weft_str_t name, weft_task_options_t o, bool is_direct,
                                              weft_worker_cache_t *cache, weft_server_clusters_t *clusters,
                                              weft_task_t *out);
void weft_task_stop(weft_task_t *t);   /* cancels everything; nothing new starts */
void weft_task_deinit(weft_task_t *t); /* waits for what runs */

#endif /* WEFT_SERVER_TASK_H_ */
