/* tests/master/local_cluster.h - a cluster in one process: real masters and workers, calls between them as
 * plain calls.
 *
 * Every worker is seen through a client that can be told to fail or to hang, so
 * that tests see what a master does when a worker dies. Waits end after 20 s with
 * a failed test.
 */
#ifndef WEFT_TESTS_MASTER_LOCAL_CLUSTER_H_
#define WEFT_TESTS_MASTER_LOCAL_CLUSTER_H_

#include "base/mutex.h"
#include "master/master.h"
#include "worker/worker.h"

enum { WEFT_TEST_MAX_TASKS = 8, WEFT_TEST_MAX_VALUES = 16 };

/* The calls of a worker that can be made to fail. */
typedef enum weft_test_call {
  WEFT_TEST_GET_STATUS,
  WEFT_TEST_CREATE_SESSION,
  WEFT_TEST_DELETE_SESSION,
  WEFT_TEST_REGISTER_GRAPH,
  WEFT_TEST_RUN_GRAPH,
  WEFT_TEST_CLEANUP_GRAPH,
  WEFT_TEST_CLEANUP_ALL,
  WEFT_TEST_RECV_TENSOR, /* counted are the tensors, however many come in a call */
  WEFT_TEST_NUM_CALLS,
} weft_test_call_t;

typedef struct weft_test_cluster weft_test_cluster_t;

/* Tasks by name ("/job:ps/replica:0/task:0"), each with a worker and a master. A failure fails the test. */
weft_test_cluster_t *weft_test_cluster_create(const char *const *tasks, int n);
/* Masters that wait no longer for tasks of which nothing is known; 0: as long as usual. */
weft_test_cluster_t *weft_test_cluster_with_timeout(const char *const *tasks, int n,
                                                    int64_t discovery_timeout_ms);
/* Masters whose sessions wait no longer for their clients; 0: as long as usual. */
weft_test_cluster_t *weft_test_cluster_with_grace(int64_t client_grace_ms);
/* Waits until the workers have so many sessions in all. */
void weft_test_cluster_await_sessions(weft_test_cluster_t *c, int n);
/* A worker that makes its side of a session cancels this (borrowed), as the session's client may. */
void weft_test_cluster_cancel_by_creation(weft_test_cluster_t *c, weft_canceller_t *canceller);
/* From now on all know that the task is lost. */
void weft_test_cluster_lose(weft_test_cluster_t *c, int task);
/* "/job:ps" task 0, "/job:worker" tasks 0 and 1: tasks 0, 1 and 2 here. */
weft_test_cluster_t *weft_test_cluster_usual(void);
void weft_test_cluster_destroy(weft_test_cluster_t *c);
void weft_test_cluster_stop_master(weft_test_cluster_t *c, int task);
weft_master_client_t *weft_test_cluster_master(weft_test_cluster_t *c, int task); /* lent */
weft_worker_t *weft_test_cluster_worker(weft_test_cluster_t *c, int task);        /* lent */
int weft_test_cluster_steps(weft_test_cluster_t *c); /* in the tables of all workers */
int weft_test_cluster_sessions(weft_test_cluster_t *c);
/* From now on this call of this worker fails with `code` (WEFT_OK: works again) ... */
void weft_test_cluster_fail(weft_test_cluster_t *c, int task, weft_test_call_t call, weft_code_t code);
/* ... or, for calls with a canceller, is not answered before it is cancelled. */
void weft_test_cluster_hang(weft_test_cluster_t *c, int task, weft_test_call_t call, bool hangs);
int weft_test_cluster_count(weft_test_cluster_t *c, int task, weft_test_call_t call); /* calls so far */

/* ---- a client that waits ---- */

typedef struct weft_test_session {
  weft_master_client_t *master; /* borrowed */
  char handle[64];
  int64_t version;
} weft_test_session_t;

/* GraphDef and ConfigProto in text format. */
weft_status_t *weft_test_open(weft_master_client_t *m, const char *graph, const char *config,
                              weft_test_session_t *out);
/* The same from bytes. */
weft_status_t *weft_test_open_bytes(weft_master_client_t *m, weft_str_t graph_def, const char *config,
                                    weft_test_session_t *out);
/* A session that ends with `client` (weft_create_session_t). `c`: of the call; may be NULL. */
weft_status_t *weft_test_open_by(weft_master_client_t *m, const char *graph, const char *client,
                                 weft_canceller_t *c, weft_test_session_t *out);
/* Where opening must work: a failure fails the test. */
weft_test_session_t weft_test_opened(weft_master_client_t *m, const char *graph);
weft_status_t *weft_test_extend(weft_test_session_t *s, const char *graph);
weft_status_t *weft_test_close(weft_test_session_t *s);

/* A step: lists end with NULL. */
typedef struct weft_test_run {
  const char *feeds[WEFT_TEST_MAX_VALUES];
  float values[WEFT_TEST_MAX_VALUES];           /* scalars for the feeds */
  weft_tensor_t *tensors[WEFT_TEST_MAX_VALUES]; /* instead of values, where not NULL; borrowed */
  const char *fetches[WEFT_TEST_MAX_VALUES];
  const char *targets[WEFT_TEST_MAX_VALUES];
  const char *partial; /* handle of a partial run */
  weft_step_options_t options;
  weft_canceller_t *canceller;
} weft_test_run_t;

/* One call in flight. Start it, wait for it once; zero it first. */
typedef struct weft_test_step {
  weft_mutex_t mu;
  weft_cond_t ended;
  bool is_done; /* guarded by mu, as all below until done */
  weft_status_t *status;
  weft_tensor_t *fetches[WEFT_TEST_MAX_VALUES], *feeds[WEFT_TEST_MAX_VALUES]; /* owned */
  int num_fetches;
  char *metadata; /* owned */
  size_t metadata_length;
  char text[64];  /* of calls that give a handle */
  int64_t number; /* of calls that give a number */
  weft_device_list_t devices;
} weft_test_step_t;

void weft_test_step_begin(weft_test_step_t *k);
weft_status_t *weft_test_step_wait(weft_test_step_t *k); /* the caller owns the status; fetches stay in k */
void weft_test_step_deinit(weft_test_step_t *k);         /* after the wait */
void weft_test_start(weft_test_session_t *s, const weft_test_run_t *run, weft_test_step_t *k);
bool weft_test_step_is_done(weft_test_step_t *k);
/* Callbacks for a weft_test_step_t. */
void weft_test_on_run(void *arg, weft_status_t *status, weft_run_step_result_t *result);
void weft_test_on_text(void *arg, weft_status_t *status, weft_str_t text);
void weft_test_on_number(void *arg, weft_status_t *status, int64_t number);
void weft_test_on_done(void *arg, weft_status_t *status);
void weft_test_on_devices(void *arg, weft_status_t *status, const weft_device_list_t *devices);

/* Runs a step; out[i] is the first element of fetch i as a number, if `out` is not NULL. */
weft_status_t *weft_test_run(weft_test_session_t *s, const weft_test_run_t *run, double *out);
/* The value of one fetch; a failure fails the test. */
double weft_test_fetch(weft_test_session_t *s, const char *fetch);
void weft_test_target(weft_test_session_t *s, const char *target);

#endif /* WEFT_TESTS_MASTER_LOCAL_CLUSTER_H_ */
