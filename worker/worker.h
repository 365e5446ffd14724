/* worker/worker.h - a task of the cluster: its devices, resources, registered graphs and running steps.
 *
 * Source: TensorFlow's Worker, GraphMgr and SessionMgr as restated in the reference, 1.6, 3.6-3.10.
 */
#ifndef WEFT_WORKER_WORKER_H_
#define WEFT_WORKER_WORKER_H_

#include "device/device_options.h"
#include "worker/devices.h"
#include "worker/session_cluster.h"

typedef struct weft_worker weft_worker_t; /* Thread-safe. */

typedef struct weft_worker_options {
  weft_str_t task;                                /* "/job:worker/replica:0/task:0"; copied */
  int num_threads;                                /* of the compute pool; 0: as many as processors */
  int num_cpus;                                   /* devices CPU:0 .. CPU:n-1, all on that pool; 0: one */
  const weft_accelerator_options_t *accelerators; /* borrowed by weft_worker_create; NULL: all */
  weft_worker_cache_t *cache; /* how to reach other tasks; borrowed; NULL: there are none (a local session) */
  weft_str_t collective_leader;   /* the task that keeps the book of groups; empty: chief's or worker's first,
                                     else the first */
  bool collectives_only_rpc;      /* no links between the tasks of one host */
  weft_cluster_maker_t *clusters; /* for sessions with a cluster of their own; borrowed; NULL: none such */
} weft_worker_options_t;

WEFT_MUST_CHECK weft_status_t *weft_worker_create(const weft_worker_options_t *o, weft_worker_t **out);
/* Cancels all steps and waits for them. NULL is fine. */
void weft_worker_destroy(weft_worker_t *w);
/* Cancels all steps and makes new ones fail with UNAVAILABLE: the first half of a server's stop. */
void weft_worker_stop(weft_worker_t *w);
weft_str_t weft_worker_task(const weft_worker_t *w);
weft_device_t *weft_worker_device(weft_worker_t *w);               /* the CPU:0; lent */
const weft_devices_t *weft_worker_devices(const weft_worker_t *w); /* all; lent */
weft_str_t weft_worker_leader(const weft_worker_t *w);             /* of collectives; lent */
weft_transfer_log_t *weft_worker_transfers(
    weft_worker_t *w); /* the log of tensors that clients of its peers fetched; lent */

struct weft_collectives *weft_worker_collectives(weft_worker_t *w); /* lent */
struct weft_link_counters *weft_worker_counters(
    weft_worker_t *w); /* what the collectives have fetched; lent */

/* Appends the task's numbers in Prometheus's text format: runs, waits for input, memory, bytes between tasks.
 */
void weft_worker_write_metrics(weft_worker_t *w, weft_strbuf_t *out);

/* Announces to the other tasks that the worker is being stopped, before missing heartbeats make it look lost.
 */
void weft_worker_leave(weft_worker_t *w);

/* Another task of the cluster is lost: resources of all sessions that wait for it fail. */
void weft_worker_task_lost(weft_worker_t *w, weft_str_t task, const weft_status_t *why);
/* The task is alive with this incarnation. If it differs from that of the lost process, groups with it can be
 * formed again. */
void weft_worker_task_returned(weft_worker_t *w, weft_str_t task, uint64_t incarnation);

/* The worker as a client in its own process: no copies, no threads between. Retains nothing: destroy it
 * first. */
WEFT_MUST_CHECK weft_status_t *weft_local_worker_client_create(weft_worker_t *w, weft_worker_client_t **out);
/* The same, under the name (copied) that the worker has in a session's own cluster. */
WEFT_MUST_CHECK weft_status_t *weft_local_worker_client_create_as(weft_worker_t *w, weft_str_t task,
                                                                  weft_worker_client_t **out);

#endif /* WEFT_WORKER_WORKER_H_ */
