/* worker/worker_client.h - a worker as its master and its peers see it.
 *
 * Two backends: the worker of this process (worker/local_worker_client.c), and one behind gRPC
 * (services/remote_worker_client.c). Callers cannot tell them apart. All calls are asynchronous and end
 * exactly once, on any thread.
 */
#ifndef WEFT_WORKER_WORKER_CLIENT_H_
#define WEFT_WORKER_WORKER_CLIENT_H_

#include "base/cancellation.h"
#include "collectives/remote/peers.h"
#include "graph/graph.h"
#include "rendezvous/gather.h"
#include "tensor/tensor.h"
#include "worker/step_record.h"
#include "worker/transfer_log.h"

typedef struct weft_device_attributes {
  weft_str_t name, type, description; /* owned by the owner of the array */
  int64_t memory_limit;
  int numa_node; /* that it is close to; 0 also where that is not known, as in TensorFlow's DeviceLocality */
  uint64_t incarnation;
} weft_device_attributes_t;
typedef struct weft_device_list { /* deep copy, owned; free with weft_device_list_deinit */
  weft_arena_t arena;
  weft_device_attributes_t *devices;
  int n;
  int num_remote; /* of ListDevices without a session: so many at the end are not the master's own */
} weft_device_list_t;
void weft_device_list_deinit(weft_device_list_t *l);
WEFT_MUST_CHECK weft_status_t *weft_device_list_add(weft_device_list_t *l,
                                                    const weft_device_attributes_t *d); /* copies */

typedef struct weft_named_tensor {
  weft_str_t name;
  weft_tensor_t *tensor;
} weft_named_tensor_t;

typedef struct weft_worker_session_spec {
  weft_str_t session; /* handle */
  bool isolate;       /* isolate_session_state: the session gets resources of its own */
  weft_str_t master_task;
  int64_t master_incarnation;
  weft_str_t server_def; /* serialized ServerDef; empty: the worker's own configuration */
} weft_worker_session_spec_t;

/* What a worker may keep of a graph from run to run, where its client has a place for it. The client has it
 * forgotten before it deletes the session. */
typedef struct weft_kept_graph weft_kept_graph_t;
struct weft_kept_graph {
  void (*forget)(weft_kept_graph_t *k);
};

typedef struct weft_run_graph {
  weft_str_t session, graph_handle;
  int64_t step_id, request_id;
  const weft_named_tensor_t *sends; /* name: full rendezvous key; lent until done */
  int num_sends;
  const weft_str_t *recv_keys; /* lent until done */
  int num_recvs;
  bool is_partial, is_last_partial;
  bool record_timeline, record_partition_graphs;
  _Atomic(weft_kept_graph_t *) *kept; /* of the graph; NULL: nothing is to be kept */
} weft_run_graph_t;

typedef struct weft_run_graph_result {
  weft_tensor_t **recvs; /* num_recvs references, in recv_keys' order; owned by the callee, array lent */
  int num_recvs;
  weft_str_t step_stats;              /* serialized StepStats or empty; lent */
  const weft_str_t *partition_graphs; /* serialized GraphDefs; lent */
  int num_partition_graphs;
  bool ends_itself; /* the worker forgets the step without a cleanup_graph, once its peers have all tensors */
} weft_run_graph_result_t;

/* Callbacks own `status`. */
typedef void weft_done_fn(void *arg, weft_status_t *status);
typedef void weft_devices_fn(void *arg, weft_status_t *status, const weft_device_list_t *devices); /* lent */
typedef void weft_text_fn(void *arg, weft_status_t *status, weft_str_t text);                      /* lent */
typedef void weft_run_graph_fn(void *arg, weft_status_t *status,
                               weft_run_graph_result_t *result); /* result NULL on failure */

typedef struct weft_worker_client weft_worker_client_t; /* Thread-safe. Refcounted. */
typedef struct weft_worker_client_ops {
  void (*get_status)(weft_worker_client_t *w, weft_canceller_t *canceller, weft_devices_fn *fn,
                     void *arg); /* waits for the worker to come up */
  void (*create_session)(weft_worker_client_t *w, const weft_worker_session_spec_t *spec, weft_done_fn *fn,
                         void *arg);
  void (*delete_session)(weft_worker_client_t *w, weft_str_t session, weft_done_fn *fn,
                         void *arg); /* 10 s at most */
  /* Gives the worker a partition; fn gets its graph handle. `graph` (consumed) has devices assigned; the
   * worker keeps it beside its plan if steps are to record it (record_partition_graphs). */
  void (*register_graph)(weft_worker_client_t *w, weft_str_t session, weft_graph_t *graph, bool keeps_graph,
                         weft_text_fn *fn, void *arg);
  void (*deregister_graph)(weft_worker_client_t *w, weft_str_t session, weft_str_t graph_handle,
                           weft_done_fn *fn, void *arg);
  void (*run_graph)(weft_worker_client_t *w, const weft_run_graph_t *run, weft_canceller_t *canceller,
                    weft_run_graph_fn *fn, void *arg);
  void (*cleanup_graph)(weft_worker_client_t *w, int64_t step_id, weft_done_fn *fn, void *arg);
  void (*cleanup_all)(weft_worker_client_t *w, const weft_str_t *containers, int n, weft_done_fn *fn,
                      void *arg);
  /* `fn` may get a tensor in a device's memory, with its fence, from a worker of this process. */
  void (*recv_tensor)(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *canceller,
                      weft_recv_fn *fn, void *arg);
  /* Receives those of several keys that are there (rendezvous/gather.h). `keys` are lent until fn is called.
   * UNIMPLEMENTED: the worker answers receives of one key only, as TensorFlow's do. */
  void (*recv_tensors)(weft_worker_client_t *w, int64_t step_id, const weft_key_t *keys, int n,
                       weft_canceller_t *canceller, weft_gather_fn *fn, void *arg);
  /* Logging and Tracing: `request` and the answer are serialized messages. */
  void (*logging)(weft_worker_client_t *w, weft_str_t request, weft_text_fn *fn, void *arg);
  /* The bytes that the worker offers under a key for a collective; fetched once. */
  void (*recv_buf)(weft_worker_client_t *w, const weft_buf_request_t *r, weft_canceller_t *canceller,
                   weft_buf_fn *fn, void *arg);
  /* Of a group's leader: waits until all members have come. */
  void (*complete_group)(weft_worker_client_t *w, const weft_group_request_t *r, weft_canceller_t *canceller,
                         weft_group_fn *fn, void *arg);
  void (*complete_instance)(weft_worker_client_t *w, const weft_instance_request_t *r,
                            weft_canceller_t *canceller, weft_instance_fn *fn, void *arg);
  /* Of the cluster's leader: the ids of the next steps of these collective graphs. */
  void (*get_step_sequence)(weft_worker_client_t *w, const int64_t *graph_keys, int n, weft_step_ids_fn *fn,
                            void *arg);
  /* A step of a collective graph is over: the leader's own worker counts on. Of other workers: nothing
   * happens. */
  void (*retire_step)(weft_worker_client_t *w, int64_t graph_key, int64_t step_id);
  /* For observers: what steps did at this worker. `r` is lent until this returns. A canceller that is
   * cancelled ends the observer's recording. Errors: worker/step_recording.h's. */
  void (*record)(weft_worker_client_t *w, const weft_record_request_t *r, weft_canceller_t *canceller,
                 weft_record_fn *fn, void *arg);
  void (*destroy)(weft_worker_client_t *w);
} weft_worker_client_ops_t;

struct weft_worker_client {
  const weft_worker_client_ops_t *ops;
  atomic_int refs;
  weft_str_t task; /* "/job:worker/replica:0/task:0"; owned by the implementation */
  weft_transfer_log_t
      *transfers; /* borrowed: fetches over a network are noted here; may be NULL; set before use */
  struct weft_link_counters
      *counters;        /* the same for bytes and messages by link; collectives/link_counters.h */
  weft_str_t seen_from; /* borrowed: the task that fetches, for the counters */
};
weft_worker_client_t *weft_worker_client_retain(weft_worker_client_t *w);
void weft_worker_client_release(weft_worker_client_t *w); /* NULL is fine */

/* Where clients of the tasks of a cluster come from. Thread-safe. */
typedef struct weft_worker_cache weft_worker_cache_t;
struct weft_worker_cache {
  /* Retained, or NULL if the cluster has no such task. */
  weft_worker_client_t *(*find)(weft_worker_cache_t *c, weft_str_t task);
  /* All tasks of the cluster, "/job:x/replica:0/task:n", in order of job then task; lent, constant. */
  const weft_str_t *(*tasks)(weft_worker_cache_t *c, int *out_n);
  /* UNAVAILABLE, owned, if the task is known to be lost; else NULL. A NULL function: losses are not known
   * here. */
  weft_status_t *(*lost)(weft_worker_cache_t *c, weft_str_t task);
  void (*destroy)(weft_worker_cache_t *c);
};

#endif /* WEFT_WORKER_WORKER_CLIENT_H_ */
