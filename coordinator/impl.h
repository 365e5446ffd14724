/* coordinator/impl.h - what the files of the coordinator share.
 *
 * Threads: one per worker (worker.c) that connects, builds per-worker values
 * and runs calls, one after another; one thread that watches all tasks (monitor.c);
 * the callers' threads (coordinator.c).
 *
 * The life of a call:
 *   1. WEFT_Schedule        puts it at the queue's end               value: NOT_READY
 *   2. weft_co_next         a worker's thread takes it               in flight
 *   3. weft_co_run_call     builds, connects, runs, copies results
 *   4a. weft_co_end_call    its results or its own failure           READY or ABORTED
 *   4b. weft_co_put_back    the worker or a ps failed: to the queue's front, again from 2
 *   4c. weft_co_cancel...   another call failed, or the end          ABORTED (CANCELLED)
 *
 * Locking: the coordinator's `mu` guards the queue, the tasks' states and the lists;
 * under it nothing is allocated, called back, cancelled or sent. A remote value has
 * a mutex of its own, a leaf. What only a worker's thread touches is marked confined.
 */
#ifndef WEFT_COORDINATOR_IMPL_H_
#define WEFT_COORDINATOR_IMPL_H_

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/str.h"
#include "rpc/channel.h"
#include "services/presence.h"
#include "services/remote_master.h"
#include "tensor/tensor.h"
#include "weft/coordinator.h"

#define WEFT_CO_NS_PER_MS INT64_C(1000000)
#define WEFT_CO_NS_PER_S 1e9

/* ---- tasks ---- */

/* A parameter server or a worker. */
typedef struct weft_co_task {
  char *name;                  /* owned; "/job:ps/replica:0/task:0" */
  char *address;               /* owned */
  weft_rpc_channel_t *channel; /* guarded by mu: replaced when a connection is lost */
  uint64_t incarnation;        /* guarded by mu; 0: not known to be up */
  int reports;                 /* guarded by mu; how often it was out of reach in a row */
  int missed;                  /* confined to the monitor: polls in a row without an answer */
} weft_co_task_t;

typedef struct weft_co_answer {
  bool came;
  uint64_t incarnation;
} weft_co_answer_t;

/* probe.c: asks all tasks for their incarnations at once; waits at most timeout_ms. A task that does not
 * answer gets a new connection, so that the next probe does not wait for the old one's backoff. */
void weft_co_probe(WEFT_Coordinator *c, weft_co_task_t *const *tasks, int n, int64_t timeout_ms,
                   weft_co_answer_t *out);

/* ---- closures ---- */

/* A closure's graph for one worker. */
typedef struct weft_co_graph {
  weft_arena_t arena;
  weft_str_t graph_def;                   /* in the arena, or the closure's */
  weft_str_t *inputs, *outputs, *targets; /* in the arena */
  int num_inputs, num_outputs, num_targets;
  weft_str_t id; /* the placeholder of the call's number; data NULL: there is none */
} weft_co_graph_t;
/* What a worker has of a closure; confined to its thread while that lives. */
typedef struct weft_co_part {
  bool is_built;
  weft_co_graph_t graph;
  char *session;       /* owned; NULL: none */
  uint64_t generation; /* of the connection that the session was made on */
} weft_co_part_t;

struct WEFT_Closure {
  atomic_int refs;
  WEFT_Coordinator *coordinator; /* retained */
  WEFT_BuildFn build;            /* NULL: a ready graph */
  void *user;
  void (*destroy)(void *user);
  weft_arena_t arena; /* of a ready graph and its names */
  weft_str_t graph_def;
  weft_co_graph_t *names; /* num_names: only the lists */
  int num_names;
  weft_co_part_t *parts;     /* one per worker */
  WEFT_Closure *prev, *next; /* guarded by mu: all closures of the coordinator */
};
WEFT_Closure *weft_closure_retain(WEFT_Closure *c);
void weft_closure_release(WEFT_Closure *c);
/* Builds the part of worker i if that was not done. On its thread. */
WEFT_MUST_CHECK weft_status_t *weft_closure_build(WEFT_Closure *c, int worker);
/* Tells the masters that the sessions are not needed any more, as far as they are there. */
void weft_closure_close_sessions(WEFT_Closure *c);

/* ---- remote values ---- */

struct WEFT_RemoteValue {
  atomic_int refs;
  weft_mutex_t mu;
  weft_cond_t ended;
  WEFT_RemoteState state;  /* guarded by mu */
  weft_status_t *error;    /* guarded by mu; of ABORTED */
  weft_tensor_t **outputs; /* of READY; constant then */
  int num_outputs;
};
WEFT_RemoteValue *weft_remote_value_create(void); /* NULL without memory */
void weft_remote_value_release(WEFT_RemoteValue *v);
/* Ends it, once. Consumes the status, or takes the n references out of `outputs` and the array itself. */
void weft_remote_value_fail(WEFT_RemoteValue *v, weft_status_t *status);
void weft_remote_value_deliver(WEFT_RemoteValue *v, weft_tensor_t **outputs, int n);

/* ---- per-worker values ---- */

typedef struct weft_co_worker weft_co_worker_t;

enum { WEFT_CO_MAX_ELEMENT = 64 }; /* tensors of a dataset's element */

/* One worker's own; confined to its thread but for `state` and `must_build`. */
typedef struct weft_co_own {
  WEFT_RemoteState state; /* guarded by mu */
  bool must_build;        /* guarded by mu */
  WEFT_Generator generator;
  weft_tensor_t **outputs; /* of a resource; owned */
  int num_outputs;
  weft_status_t *error; /* owned: why it could not be built */
} weft_co_own_t;
struct WEFT_PerWorker {
  int refs;                      /* guarded by the coordinator's mu; one is the list's */
  WEFT_Coordinator *coordinator; /* retained */
  WEFT_DatasetFn open;           /* NULL: a resource */
  void *user;
  WEFT_Closure *maker;  /* of a resource; owned */
  weft_co_own_t *own;   /* one per worker */
  WEFT_PerWorker *next; /* guarded by mu; in the order of creation */
};
/* per_worker.c */
void weft_per_worker_release(WEFT_PerWorker *p);
/* (Re)builds what worker w has of it; on its thread. On failure the failure is for weft_co_judge(). */
WEFT_MUST_CHECK weft_status_t *weft_per_worker_build(WEFT_PerWorker *p, weft_co_worker_t *w,
                                                     weft_canceller_t *canceller);
/* Appends what it stands for in a call of worker w to tensors[*n], at most `max`. */
WEFT_MUST_CHECK weft_status_t *weft_per_worker_value(WEFT_PerWorker *p, int worker, weft_tensor_t **tensors,
                                                     int max, int *n);

/* ---- calls and workers ---- */

typedef struct weft_co_arg {
  weft_tensor_t *tensor;      /* retained; or */
  WEFT_PerWorker *per_worker; /* retained */
} weft_co_arg_t;
typedef struct weft_co_call weft_co_call_t;
struct weft_co_call {
  weft_co_call_t *next;
  WEFT_Closure *closure;   /* retained */
  WEFT_RemoteValue *value; /* retained */
  int64_t id;
  int repeats; /* retries after failures without a known cause */
  int num_args;
  weft_co_arg_t args[];
};

typedef enum weft_co_reason { WEFT_CO_NONE, WEFT_CO_SUSPECT, WEFT_CO_DROPPED } weft_co_reason_t;

struct weft_co_worker {
  WEFT_Coordinator *coordinator; /* borrowed */
  int index;
  weft_co_task_t task;
  pthread_t thread;
  bool has_thread;
  weft_str_t config; /* ConfigProto with the device filters; owned */
  weft_master_client_t *master,
      *closer; /* guarded by mu for others than its thread; the latter's calls take 2 s at most */
  weft_presence_t *presence; /* at `master`: the sessions end with this process. Its thread's; may be NULL */
  uint64_t generation;       /* guarded by mu; counts connections */
  bool is_lost;              /* guarded by mu; must connect before anything else */
  bool is_suspect;           /* guarded by mu; the monitor wants it to connect again */
  weft_canceller_t *current; /* guarded by mu; of what it does now; NULL: idle */
  weft_co_reason_t reason;   /* guarded by mu; why `current` was cancelled */
  int64_t since_ns;          /* guarded by mu; when that began */
};

struct WEFT_Coordinator {
  atomic_int refs;
  int queue_capacity, max_reports;
  bool effectively_once;
  int64_t recovery_ns, poll_ms, watchdog_ns;
  WEFT_CoordinatorEventFn on_event;
  void *event_user;
  int num_ps, num_workers;
  weft_co_task_t *ps;
  weft_co_worker_t *workers;
  weft_rpc_client_t *rpc;
  weft_canceller_t *stop; /* the parent of all */
  pthread_t monitor;
  bool has_monitor;

  weft_mutex_t mu;
  weft_cond_t work;    /* something for workers: one is woken per call, all for the rest */
  weft_cond_t room;    /* for WEFT_Schedule */
  weft_cond_t ended;   /* nothing in flight, or an error: for WEFT_Join */
  weft_cond_t stopped; /* for timed waits, which the stop ends */
  bool is_stopping;    /* guarded by mu, as all below */
  weft_co_call_t *first, *last;
  int num_queued, num_inflight, num_joining;
  weft_status_t *error; /* not reported yet */
  int error_ps;         /* which parameter server is lost; -1 */
  int64_t num_ended, progress_ns;
  int64_t next_id;
  WEFT_Closure *closures;
  WEFT_PerWorker *per_workers;
};

WEFT_Coordinator *weft_coordinator_retain(WEFT_Coordinator *c);
void weft_coordinator_release(WEFT_Coordinator *c);
void weft_co_event(WEFT_Coordinator *c, WEFT_CoordinatorEventKind kind, int worker, const char *fmt, ...)
    WEFT_PRINTF(4, 5);
/* Waits for time to pass or the end of the coordinator; false at the end. */
bool weft_co_pause(WEFT_Coordinator *c, int64_t ms);

/* queue.c. What a worker's thread does next: a call, or a per-worker value to build (one reference), or
 * neither: it must connect again or end. */
typedef struct weft_co_item {
  weft_co_call_t *call;
  WEFT_PerWorker *per_worker;
  bool is_end;
} weft_co_item_t;
weft_co_item_t weft_co_next(weft_co_worker_t *w);
/* At the end of the queue, when there is room. Consumes the call on success. Errors: as WEFT_Schedule. */
WEFT_MUST_CHECK weft_status_t *weft_co_put(WEFT_Coordinator *c, weft_co_call_t *call, int *error_ps);
/* A call that is in flight ends; consumed. Exactly one of them. */
void weft_co_end_call(WEFT_Coordinator *c, weft_co_call_t *call);    /* its value was delivered */
void weft_co_cancel_call(WEFT_Coordinator *c, weft_co_call_t *call); /* its value ends with CANCELLED */
void weft_co_put_back(WEFT_Coordinator *c, weft_co_call_t *call);
/* A failure; the first cancels everything. `call` (may be NULL) is in flight and ends with it; consumes both.
 * Tells the event, on the thread of `worker` (-1: of none). `ps`: the parameter server that is lost, or -1.
 */
void weft_co_fail(WEFT_Coordinator *c, int worker, weft_co_call_t *call, weft_status_t *status, int ps);
void weft_co_drop_queue(WEFT_Coordinator *c); /* at the end */
void weft_co_call_free(weft_co_call_t *call);
/* Waits until nothing is in flight and takes the error, or NULL. */
WEFT_MUST_CHECK weft_status_t *weft_co_take_error_locked(WEFT_Coordinator *c, int *error_ps)
    WEFT_REQUIRES(c->mu);

/* session.c: a worker's sessions. All on its own thread. */
WEFT_MUST_CHECK weft_status_t *weft_co_session_run(weft_co_worker_t *w, WEFT_Closure *closure,
                                                   weft_tensor_t *const *feeds, int num_feeds, int64_t id,
                                                   weft_canceller_t *canceller, weft_tensor_t ***out,
                                                   int *num_out);
void weft_co_session_drop(weft_co_worker_t *w, WEFT_Closure *closure); /* to be made again at the next run */

/* judge.c: finds the cause of a failure: the call, its worker or a parameter server. */
typedef enum weft_co_verdict {
  WEFT_CO_OWN,         /* the call's own: reported */
  WEFT_CO_CANCELLED,   /* another call failed, or the end */
  WEFT_CO_WORKER_LOST, /* the worker is gone, or another process */
  WEFT_CO_PS_LOST,     /* ... a parameter server */
  WEFT_CO_TRANSIENT,   /* no known cause, or a ps is unreachable for now: the call is retried */
} weft_co_verdict_t;
/* `*repeats` counts failures without a known cause. `*ps` and `*ps_incarnation` are those of the lost server.
 */
weft_co_verdict_t weft_co_judge(weft_co_worker_t *w, const weft_status_t *failure, int *repeats, int *ps,
                                uint64_t *ps_incarnation);
/* Reports the loss of a parameter server as the process `incarnation`, once, and makes all workers connect
 * again. `call` as in weft_co_fail, which this ends with; consumes both. */
void weft_co_ps_lost(WEFT_Coordinator *c, int worker, int ps, uint64_t incarnation, weft_co_call_t *call,
                     weft_status_t *cause);

void *weft_co_worker_main(void *arg);  /* worker.c */
void *weft_co_monitor_main(void *arg); /* monitor.c */

#endif /* WEFT_COORDINATOR_IMPL_H_ */
