/* tools/observe/observer.h - follows the steps of a standing cluster, for commands.
 *
 * Connects to all tasks of a cluster, records on all of them at once, and gives whole steps: what each task
 * did, with times on one clock. The jobs that run there do not notice, but for the time that recording takes.
 */
#ifndef WEFT_TOOLS_OBSERVE_OBSERVER_H_
#define WEFT_TOOLS_OBSERVE_OBSERVER_H_

#include "server/cluster.h"
#include "tools/observe/step_gather.h"
#include "worker/worker_client.h"

/* ---- the tasks ---- */

typedef struct weft_observed_task {
  weft_str_t name;              /* "/job:worker/replica:0/task:1"; lent like the address */
  weft_str_t address;           /* "host:port" */
  weft_worker_client_t *worker; /* lent */
} weft_observed_task_t;

/* Connections to all tasks, made when they are first used. Thread-safe. */
typedef struct weft_observed_tasks weft_observed_tasks_t;
/* `cluster` (borrowed) must outlive it. */
WEFT_MUST_CHECK weft_status_t *weft_observed_tasks_connect(const weft_cluster_t *cluster,
                                                           weft_observed_tasks_t **out);
/* Waits for calls in flight. NULL is fine. */
void weft_observed_tasks_disconnect(weft_observed_tasks_t *t);
int weft_observed_tasks_count(const weft_observed_tasks_t *t);
weft_observed_task_t weft_observed_tasks_get(const weft_observed_tasks_t *t, int i);
/* A failure of a call to the task (consumed) as the one line that a user reads: which task, where, what to
 * do. `was_reached`: the task has answered before. */
WEFT_MUST_CHECK weft_status_t *weft_observed_tasks_explain(const weft_observed_tasks_t *t, int i,
                                                           weft_status_t *failure, bool was_reached);

/* ---- the steps ---- */

typedef struct weft_observer_options {
  weft_observed_tasks_t *tasks; /* borrowed; must outlive the observer */
  bool goes_on_without_lost;    /* a task that fails is left out; else the first failure ends all */
  /* How often idle tasks are asked, in ms; 0: 250. Steps are told this much later at most. */
  int64_t poll_ms;
} weft_observer_options_t;

typedef struct weft_observer weft_observer_t; /* Confined, but for weft_observer_interrupt. */

/* Opens the recordings, and waits until all are open: steps that begin from now on are told.
 * Errors: UNAVAILABLE: a task does not answer within 5 s; UNIMPLEMENTED: it is no Weft server; CANCELLED: it
 * was interrupted; what the tasks say (worker/step_recording.h). */
WEFT_MUST_CHECK weft_status_t *weft_observer_open(const weft_observer_options_t *o, weft_observer_t **out);
/* The same in two parts, so that it can be interrupted meanwhile. */
WEFT_MUST_CHECK weft_status_t *weft_observer_create(const weft_observer_options_t *o, weft_observer_t **out);
WEFT_MUST_CHECK weft_status_t *weft_observer_start(weft_observer_t *o);

/* The next whole step, owned by the caller (weft_whole_step_free). Waits for it until `deadline_ns` of
 * weft_clock_ns(), or an interruption: then *out is NULL. Errors: that of the first task that failed. */
WEFT_MUST_CHECK weft_status_t *weft_observer_next(weft_observer_t *o, int64_t deadline_ns,
                                                  weft_whole_step_t **out);
/* From any thread and from a handler of signals: waits end now, and later ones at once. */
void weft_observer_interrupt(weft_observer_t *o);
bool weft_observer_is_interrupted(const weft_observer_t *o);

/* After the stop: measures the peaks of the machines of all tasks, which disturbs each for some 0.2 s, the
 * first time in its life; tasks of one host take turns. Where that fails, or it is interrupted, they stay
 * unknown. */
void weft_observer_measure(weft_observer_t *o);

/* Of task i: what to add to its times to have them on this process's clock, 0 while the difference may be the
 * network's doing; its machine's peaks, 0 if they were not measured; why it is left out, lent, or NULL. */
typedef struct weft_observed_state {
  int64_t clock_offset_micros;
  double peak_flops, peak_bytes;
  const weft_status_t *lost;
} weft_observed_state_t;
weft_observed_state_t weft_observer_state(weft_observer_t *o, int i);
weft_str_t weft_observer_task(const weft_observer_t *o, int i); /* its name; lent */

/* Steps that could not be told whole, and records that tasks have dropped. */
typedef struct weft_observer_losses {
  int64_t steps_left_out, records_dropped;
} weft_observer_losses_t;
weft_observer_losses_t weft_observer_losses(weft_observer_t *o);

/* Ends the recordings, within two seconds; states and losses can still be asked for. Again is fine. */
void weft_observer_stop(weft_observer_t *o);
/* Stops first. NULL is fine. */
void weft_observer_close(weft_observer_t *o);

#endif /* WEFT_TOOLS_OBSERVE_OBSERVER_H_ */
