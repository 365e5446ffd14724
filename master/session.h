/* master/session.h - a client's session: its graph, its devices, its step plans and the steps that run.
 *
 * Locking: `mu` guards what is marked; it is a leaf: no worker is called, no graph built and no callback run
 * under it.
 */
#ifndef WEFT_MASTER_SESSION_H_
#define WEFT_MASTER_SESSION_H_

#include "base/mutex.h"
#include "base/timer.h"
#include "master/client_graph.h"
#include "master/collective_steps.h"
#include "master/config.h"
#include "master/graph_version.h"
#include "master/master.h"
#include "master/step_plan.h"

typedef struct weft_partial_step weft_partial_step_t; /* master/partial_step.h */

enum { WEFT_RECENT_PLANS = 4 };

typedef struct weft_master_session { /* Thread-safe. Refcounted. */
  atomic_int refs;
  weft_str_t handle;  /* owned */
  weft_str_t client;  /* in the arena: the client that it ends with; empty: it outlives its client */
  uint64_t life;      /* of that client (master/clients.h); 0: none */
  weft_arena_t arena; /* of the configuration */
  weft_session_config_t config;
  weft_session_cluster_t cluster; /* empty: the master's own */
  weft_device_set_t devices;
  const weft_kernel_support_t *kernels;
  const weft_evaluator_t *evaluator;         /* the master's; NULL: none */
  bool is_direct;                            /* see weft_master_options_t */
  weft_collective_steps_t *collective_steps; /* the master's */
  weft_timer_t *timer;                       /* the master's */
  weft_worker_client_t **workers;            /* of the session's tasks; constant */
  int num_workers;
  weft_canceller_t *canceller; /* of all its steps */
  weft_mutex_t mu;
  weft_mutex_t extending;      /* held by the one Extend in progress; taken before mu */
  weft_graph_version_t *graph; /* guarded by mu */
  int64_t version;             /* guarded by mu */
  weft_map_t step_plans;       /* guarded by mu: signature text -> weft_step_plan_t (one reference) */
  weft_step_plan_t *recent[WEFT_RECENT_PLANS]; /* guarded by mu: of step_plans, those found first by name */
  weft_map_t callables;                /* guarded by mu: handle + 1 -> weft_step_plan_t (one reference) */
  weft_map_t partial_steps;            /* guarded by mu: handle text -> weft_partial_step_t (one reference) */
  int64_t next_callable, next_partial; /* guarded by mu */
  int64_t next_edge;                   /* guarded by mu: numbers for names of inserted nodes */
  int running;                         /* guarded by mu: steps in progress, and plans being built */
  bool closed;                         /* guarded by mu */
  weft_status_t *ended_by;             /* guarded by mu, until closed; owned; NULL: the client closed it */
  weft_done_fn *close_fn;              /* guarded by mu: to be called when running is 0 */
  void *close_arg;
} weft_master_session_t;

WEFT_MUST_CHECK weft_status_t *weft_master_session_create(const weft_kernel_support_t *kernels,
                                                          const weft_evaluator_t *evaluator,
                                                          const weft_pass_settings_t *passes,
                                                          weft_timer_t *timer, weft_str_t config,
                                                          weft_master_session_t **out);
weft_master_session_t *weft_master_session_retain(weft_master_session_t *s);
void weft_master_session_release(weft_master_session_t *s); /* NULL is fine */

/* Imports, lowers and places a GraphDef as the first version. Needs the devices. */
WEFT_MUST_CHECK weft_status_t *weft_master_session_load(weft_master_session_t *s, weft_str_t graph_def);
/* Adds to it. Errors: ABORTED "Current version is <a> but caller expected <b>."; what import and placement
 * say. */
WEFT_MUST_CHECK weft_status_t *weft_master_session_extend(weft_master_session_t *s,
                                                          const weft_extend_session_t *r,
                                                          int64_t *out_version);
/* One more step, or one more plan that is built: the workers keep the session until it ends.
 * FAILED_PRECONDITION "Session is closed." */
WEFT_MUST_CHECK weft_status_t *weft_master_session_begin_step(weft_master_session_t *s);
void weft_master_session_end_step(weft_master_session_t *s);
/* Cancels the steps; fn when none is running and the workers have dropped the session. The steps end with
 * `why` (copied); NULL: as those of a session that its client closes. */
void weft_master_session_close(weft_master_session_t *s, const weft_status_t *why, weft_done_fn *fn,
                               void *arg);
/* What the steps of a session end with that was closed. */
WEFT_MUST_CHECK weft_status_t *weft_master_session_end(weft_master_session_t *s);

/* The plan of a signature, built by the first caller (see step_plan.h). *out is retained. */
WEFT_MUST_CHECK weft_status_t *weft_master_session_plan(weft_master_session_t *s,
                                                        const weft_signature_t *signature, bool is_partial,
                                                        weft_step_plan_t **out);
/* A plan that is not kept under its signature: for callables. */
WEFT_MUST_CHECK weft_status_t *weft_master_session_plan_callable(weft_master_session_t *s,
                                                                 const weft_signature_t *signature,
                                                                 weft_step_plan_t **out);
weft_graph_version_t *weft_master_session_graph(weft_master_session_t *s); /* retained */

#endif /* WEFT_MASTER_SESSION_H_ */
