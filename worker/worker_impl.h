/* worker/worker_impl.h - the inside of a worker, shared by the files of this folder.
 *
 * Locking: worker.mu guards the session table and the count of runs; it is a
 * leaf. Steps have a table and a lock of their own (worker/step.h).
 */
#ifndef WEFT_WORKER_WORKER_IMPL_H_
#define WEFT_WORKER_WORKER_IMPL_H_

#include "base/metrics.h"
#include "collectives/negotiated/negotiators.h"
#include "collectives/remote/remote_transport.h"
#include "collectives/remote/step_sequence.h"
#include "worker/peaks.h"
#include "worker/session.h"
#include "worker/step.h"
#include "worker/step_recording.h"
#include "worker/worker.h"

/* Runs of graphs that have ended. */
typedef struct weft_run_counts {
  atomic_llong ok, cancelled, failed;
  weft_histogram_t seconds;
} weft_run_counts_t;

struct weft_worker {
  weft_str_t task; /* owned */
  weft_worker_cache_t *cache;
  weft_cluster_maker_t *clusters;
  weft_thread_pool_t *pool;
  weft_devices_t devices; /* CPU:0 first */
  weft_transfer_log_t *transfers;
  weft_step_recordings_t *recordings;
  weft_peaks_t peaks;
  weft_negotiators_t *negotiators;
  weft_step_sequence_t *sequence;
  weft_str_t leader;           /* of groups: lent by the cache, or `task` */
  weft_transport_t *transport; /* of collectives */
  weft_collectives_t *collectives;
  weft_step_table_t steps;
  weft_mutex_t mu;
  weft_cond_t idle;              /* signalled when runs falls to 0 */
  weft_map_t sessions;           /* guarded by mu: handle -> weft_worker_session_t (one reference) */
  weft_worker_session_t *legacy; /* for graphs registered without a worker session; constant */
  int runs;                      /* guarded by mu: RunGraph calls in progress */
  bool stopped;                  /* guarded by mu */
  int64_t started_micros;
  weft_run_counts_t run_counts;
};

/* *out is retained. Errors: ABORTED for an unknown handle, as TensorFlow says it. */
WEFT_MUST_CHECK weft_status_t *weft_worker_find_session(weft_worker_t *w, weft_str_t handle,
                                                        weft_worker_session_t **out);
/* Lets a reference to the session go; NULL is fine. The last one frees it: on a thread of its own where it
 * has devices of its own, because this may be the thread of a pipeline, which holds them. Does not wait. */
void weft_worker_release_session(weft_worker_t *w, weft_worker_session_t *s);
/* One more run; false once the worker stops. */
bool weft_worker_begin_run(weft_worker_t *w);
void weft_worker_also_run(weft_worker_t *w); /* one more, for a caller that already holds one */
void weft_worker_end_run(weft_worker_t *w);
/* Consumes what a run ended with. If that is an echo of the worker's own stop, returns the cause: the task
 * was shut down. */
WEFT_MUST_CHECK weft_status_t *weft_worker_blame_stop(weft_worker_t *w, weft_status_t *s);

/* worker/collectives.c: makes transport and collectives, with calls to the cluster's other tasks. */
WEFT_MUST_CHECK weft_status_t *weft_worker_create_collectives(weft_worker_t *w, weft_str_t leader,
                                                              bool only_rpc);

/* A task is lost: ends what waits for it, and has collective graphs begin anew if a group had it. */
void weft_worker_lose_member(weft_worker_t *w, weft_str_t task, const weft_status_t *why);

/* worker/worker_metrics.c: a run has ended after so long, with this status (lent). */
void weft_worker_count_run(weft_worker_t *w, int64_t ns, const weft_status_t *status);

void weft_worker_run_graph(weft_worker_t *w, const weft_run_graph_t *run, weft_canceller_t *canceller,
                           weft_run_graph_fn *fn, void *arg);

/* worker/record.c: as worker/worker_client.h's record. */
void weft_worker_record(weft_worker_t *w, const weft_record_request_t *r, weft_canceller_t *canceller,
                        weft_record_fn *fn, void *arg);

/* worker/partial_run.c: one RunGraph of a partial run. Consumes session, graph and step. */
void weft_worker_run_partial(weft_worker_t *w, weft_worker_session_t *session, weft_registered_graph_t *graph,
                             weft_worker_step_t *step, const weft_run_graph_t *run,
                             weft_canceller_t *canceller, weft_run_graph_fn *fn, void *arg);

/* worker/step_stats.c: appends serialized StepStats of the devices that did something; `p`, which was
 * recorded, tells the inputs' names. For an observer nodes have the fields of Weft's own, too
 * (worker/step_record.h). Without memory out->failed is set. */
void weft_step_stats_encode(const weft_devices_t *devices, const weft_exec_plan_t *p,
                            const weft_step_recorder_t *r, bool for_observer, weft_strbuf_t *out);

/* worker/partition_graphs.c: serialized GraphDefs, one per device that has nodes. */
typedef struct weft_partition_graphs {
  weft_arena_t arena;
  weft_str_t *defs; /* n; in `arena` */
  int n;
} weft_partition_graphs_t;
WEFT_MUST_CHECK weft_status_t *weft_partition_graphs_export(const weft_devices_t *devices,
                                                            const weft_graph_t *g,
                                                            weft_partition_graphs_t *out);
void weft_partition_graphs_deinit(weft_partition_graphs_t *p);

/* Receives the tensor of one fetch, words failures as TensorFlow's GraphMgr does. */
WEFT_MUST_CHECK weft_status_t *weft_fetch_failure(int64_t step_id, weft_str_t key, weft_status_t *cause,
                                                  bool is_dead);

#endif /* WEFT_WORKER_WORKER_IMPL_H_ */
