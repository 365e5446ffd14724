/* worker/session.h - what a worker keeps for one session: its graphs, its kernels' state, perhaps resources
 * of its own.
 *
 * Locking: a session's `mu` guards its graph table and is a leaf.
 */
#ifndef WEFT_WORKER_SESSION_H_
#define WEFT_WORKER_SESSION_H_

#include "executor/executor.h"
#include "rendezvous/remote/remote_rendezvous.h"
#include "worker/client_edges.h"
#include "worker/devices.h"
#include "worker/session_cluster.h"

/* A registered partition. Refcounted: a running step holds one. */
typedef struct weft_registered_graph {
  atomic_int refs;
  weft_str_t handle;   /* owned */
  weft_graph_t *graph; /* owned; NULL: not kept */
  weft_exec_plan_t *plan;
  weft_receive_lists_t *receives; /* what each step receives from other tasks; NULL: nothing */
  bool is_plain; /* no node waits for others but by _Recv, calls a function, or sends to no receiver */
  atomic_llong last_run_ns;               /* how long the last step took; large before the first */
  _Atomic(weft_client_places_t *) places; /* owned; of the first step that had any */
} weft_registered_graph_t;

typedef struct weft_worker_session { /* Thread-safe. Refcounted. */
  atomic_int refs;
  atomic_bool is_deleted; /* no run may begin any more, also where the session is at hand */
  weft_str_t handle;      /* owned */
  weft_str_t master_task; /* owned */
  int64_t master_incarnation;
  int64_t losses; /* of collective groups when it began (weft_collectives_losses) */
  weft_op_segment_t *segment;
  weft_session_cluster_t cluster; /* empty: the worker's own */
  const weft_devices_t *devices;  /* the worker's, or own_devices */
  weft_devices_t own_devices;     /* of an isolated session, or one with a cluster of its own */
  weft_mutex_t mu;
  weft_map_t graphs;   /* guarded by mu: handle -> weft_registered_graph_t (one reference) */
  uint64_t next_graph; /* guarded by mu */
  /* Called when the session is freed, its resources included; set before the session is published. `handle`
   * is lent. */
  void (*ended)(void *arg, weft_str_t handle);
  void *ended_arg;
} weft_worker_session_t;

/* `shared` are the worker's devices; an isolated session gets some of its own with resources of their own,
 * and one with a cluster of its own (`cluster`; consumed) some that are named as the task is there. */
WEFT_MUST_CHECK weft_status_t *weft_worker_session_create(const weft_worker_session_spec_t *spec,
                                                          const weft_devices_t *shared,
                                                          weft_session_cluster_t *cluster,
                                                          weft_worker_session_t **out);
weft_worker_session_t *weft_worker_session_retain(weft_worker_session_t *s);
/* True: that was the last reference, and the caller frees the session. */
WEFT_MUST_CHECK bool weft_worker_session_unref(weft_worker_session_t *s);
/* Waits for what holds the session's own devices (device/holds.h), so not on a thread that may be one. */
void weft_worker_session_free(weft_worker_session_t *s);

/* Compiles `graph` (consumed), and keeps it as it is, too, if keeps_graph: for steps that record partition
 * graphs. *out_handle is lent while the graph is registered. */
WEFT_MUST_CHECK weft_status_t *weft_worker_session_register(weft_worker_session_t *s, weft_graph_t *graph,
                                                            bool keeps_graph, weft_str_t *out_handle);
/* Errors: ABORTED if there is none such (as TensorFlow says: the worker may have been restarted). */
WEFT_MUST_CHECK weft_status_t *weft_worker_session_deregister(weft_worker_session_t *s, weft_str_t handle);
WEFT_MUST_CHECK weft_status_t *weft_worker_session_find(weft_worker_session_t *s, weft_str_t handle,
                                                        weft_registered_graph_t **out); /* retained */
weft_registered_graph_t *weft_registered_graph_retain(weft_registered_graph_t *g);
void weft_registered_graph_release(weft_registered_graph_t *g); /* NULL is fine */

#endif /* WEFT_WORKER_SESSION_H_ */
