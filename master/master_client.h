/* master/master_client.h - a master as a client sees it: in this process, or behind gRPC.
 *
 * Requests are plain structs whose texts and tensors are lent for the call. All
 * calls are asynchronous and end exactly once; callbacks own `status`.
 */
#ifndef WEFT_MASTER_MASTER_CLIENT_H_
#define WEFT_MASTER_MASTER_CLIENT_H_

#include "worker/worker_client.h"

typedef struct weft_step_options { /* RunOptions, as far as it is honoured */
  int trace_level;
  int64_t timeout_ms;
  bool output_partition_graphs;
  int64_t collective_graph_key; /* experimental; 0: none */
  weft_str_t debug_options;     /* serialized DebugOptions, lent; empty: nothing is watched */
} weft_step_options_t;

typedef struct weft_create_session {
  weft_str_t graph_def; /* serialized */
  weft_str_t config;    /* serialized ConfigProto */
  weft_str_t target;
  weft_str_t client; /* of HoldClient: the session ends with it; empty: it outlives its client */
} weft_create_session_t;

/* See master/clients.h. */
typedef struct weft_hold_client {
  weft_str_t client; /* an id that no other client has, in words for messages */
  weft_str_t peer;   /* where the call is from */
} weft_hold_client_t;

typedef struct weft_extend_session {
  weft_str_t session, graph_def;
  int64_t current_version;
} weft_extend_session_t;

typedef struct weft_run_step {
  weft_str_t session, partial_run_handle;
  const weft_named_tensor_t *feeds; /* name "node:index"; tensors lent until the callback */
  int num_feeds;
  const weft_str_t *fetches;
  int num_fetches;
  const weft_str_t *targets;
  int num_targets;
  weft_step_options_t options;
  int64_t request_id; /* 0: not checked for repetition */
} weft_run_step_t;

typedef struct weft_run_step_result {
  weft_tensor_t **fetches; /* references in the order asked for; owned by the callee, array lent */
  int num_fetches;
  weft_str_t metadata; /* serialized RunMetadata, or empty; lent */
} weft_run_step_result_t;

typedef struct weft_partial_run_setup {
  weft_str_t session;
  const weft_str_t *feeds, *fetches, *targets;
  int num_feeds, num_fetches, num_targets;
  int64_t request_id;
} weft_partial_run_setup_t;

typedef struct weft_make_callable {
  weft_str_t session;
  const weft_str_t *feeds, *fetches, *targets;
  int num_feeds, num_fetches, num_targets;
  weft_step_options_t options;
  int num_connections; /* tensor_connection: from, to */
  const weft_str_t *connections_from, *connections_to;
  bool has_device_options; /* feed_devices or fetch_devices given: UNIMPLEMENTED for remote sessions */
  int64_t request_id;
} weft_make_callable_t;

typedef struct weft_run_callable {
  weft_str_t session;
  int64_t handle, request_id;
  weft_tensor_t *const *feeds; /* in the callable's order */
  int num_feeds;
} weft_run_callable_t;

typedef void weft_session_fn(void *arg, weft_status_t *status, weft_str_t session, int64_t graph_version);
typedef void weft_number_fn(void *arg, weft_status_t *status, int64_t number);
typedef void weft_run_step_fn(void *arg, weft_status_t *status,
                              weft_run_step_result_t *result); /* NULL on failure */

typedef struct weft_master_client weft_master_client_t; /* Thread-safe. Refcounted. */
typedef struct weft_master_client_ops {
  void (*create_session)(weft_master_client_t *m, const weft_create_session_t *r, weft_canceller_t *c,
                         weft_session_fn *fn, void *arg);
  void (*extend_session)(weft_master_client_t *m, const weft_extend_session_t *r, weft_canceller_t *c,
                         weft_number_fn *fn, void *arg); /* the new version */
  void (*run_step)(weft_master_client_t *m, const weft_run_step_t *r, weft_canceller_t *c,
                   weft_run_step_fn *fn, void *arg);
  void (*partial_run_setup)(weft_master_client_t *m, const weft_partial_run_setup_t *r, weft_canceller_t *c,
                            weft_text_fn *fn, void *arg); /* the handle */
  void (*make_callable)(weft_master_client_t *m, const weft_make_callable_t *r, weft_canceller_t *c,
                        weft_number_fn *fn, void *arg);
  void (*run_callable)(weft_master_client_t *m, const weft_run_callable_t *r, weft_canceller_t *c,
                       weft_run_step_fn *fn, void *arg);
  void (*release_callable)(weft_master_client_t *m, weft_str_t session, int64_t handle, weft_done_fn *fn,
                           void *arg);
  void (*close_session)(weft_master_client_t *m, weft_str_t session, weft_done_fn *fn, void *arg);
  void (*list_devices)(weft_master_client_t *m, weft_str_t session, weft_canceller_t *c, weft_devices_fn *fn,
                       void *arg);
  /* Ends when the client lets go: when `c` is cancelled. Texts are lent for the call alone. */
  void (*hold_client)(weft_master_client_t *m, const weft_hold_client_t *r, weft_canceller_t *c,
                      weft_done_fn *fn, void *arg);
  void (*reset)(weft_master_client_t *m, const weft_str_t *containers, int num_containers,
                const weft_str_t *filters, int num_filters, weft_done_fn *fn, void *arg);
  void (*destroy)(weft_master_client_t *m);
} weft_master_client_ops_t;

struct weft_master_client {
  const weft_master_client_ops_t *ops;
  weft_str_t task; /* the master's, "/job:worker/replica:0/task:0"; lent; empty: not known */
  atomic_int refs;
};
weft_master_client_t *weft_master_client_retain(weft_master_client_t *m);
void weft_master_client_release(weft_master_client_t *m); /* NULL is fine */

#endif /* WEFT_MASTER_MASTER_CLIENT_H_ */
