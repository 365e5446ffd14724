/* membership/coordination_service.h - the cluster state, on the task that hosts it.
 *
 * Tasks send beats; a task that is silent for too long, or whose watch breaks off, is lost. Watches are
 * answered when the epoch has grown. A task that beats with another incarnation was restarted: the epoch
 * grows, too.
 *
 *   UNKNOWN --beat--> ALIVE --silence, its watch broke off, or its last beat--> LOST --beat--> ALIVE
 *
 * A process is known by its incarnation, which is public, and by a secret, which it draws at its start and
 * sends to this service alone. The first beat of a task that is not alive binds both. While that process is
 * alive, calls under the task's name with another incarnation or secret change nothing: a second process of
 * the task, one that was replaced while it was silent, or a forgery.
 *
 * Knows no network.
 */
#ifndef WEFT_MEMBERSHIP_COORDINATION_SERVICE_H_
#define WEFT_MEMBERSHIP_COORDINATION_SERVICE_H_

#include "membership/store.h"

typedef struct weft_coordination weft_coordination_t; /* Thread-safe. */

typedef struct weft_coordination_options {
  const weft_str_t *tasks; /* all of the cluster; lent as long as the service lives */
  int num_tasks;
  int own;                      /* the hosting task: alive from the start, never silent */
  uint64_t incarnation, secret; /* its own */
  int64_t lost_after_ms;        /* 0: silence is not noticed */
  weft_timer_t *timer;          /* borrowed */
} weft_coordination_options_t;

WEFT_MUST_CHECK weft_status_t *weft_coordination_create(const weft_coordination_options_t *o,
                                                        weft_coordination_t **out);
/* Every wait ends with CANCELLED, watches with a cluster state that says that this task was shut down; later
 * watches at once with UNAVAILABLE. */
void weft_coordination_stop(weft_coordination_t *c);
void weft_coordination_destroy(weft_coordination_t *c);        /* stops first; NULL is fine */
weft_store_t *weft_coordination_store(weft_coordination_t *c); /* lent */

/* The calling task, in every call. Borrowed until the call returns. */
typedef struct weft_coordination_caller {
  weft_str_t task;
  uint64_t incarnation;
  uint64_t epoch;        /* what it has seen: a service that was restarted continues from there */
  uint64_t lost_service; /* how often it has lost the service: a service that was silent itself learns that
                            so, and counts it as a loss of the task, because each side has dropped what it had
                            in common with the other */
  bool is_leaving;       /* of a beat: it is the last one, the process is being shut down */
  uint64_t secret;       /* of the process */
  weft_str_t peer;       /* where the call came from, for messages; empty: from this process */
} weft_coordination_caller_t;

/* The task is alive. *out_epoch: of the cluster state.
 * Errors: NOT_FOUND (no such task in the cluster); ABORTED (another process is alive as that task, or this
 * one was shut down). */
WEFT_MUST_CHECK weft_status_t *weft_coordination_beat(weft_coordination_t *c,
                                                      const weft_coordination_caller_t *caller,
                                                      uint64_t *out_epoch);

#define WEFT_COORDINATION_PRESENCE UINT64_MAX

/* The cluster state: one member per task, in the cluster's order. All lent; owns status (then there are no
 * members). */
typedef void weft_cluster_state_fn(void *arg, weft_status_t *status, uint64_t epoch,
                                   const weft_member_t *members, int n);
/* Answers when the epoch differs from the caller's, or after `timeout_ms` with the state as it is. It counts
 * as a beat. If `canceller` ends it (the connection broke), that incarnation of the task is lost. A `task` of
 * "" is an observer, not a member. An `epoch` of WEFT_COORDINATION_PRESENCE is not answered before the
 * timeout: a process that always has such a call open is missed at once, also while it is between two
 * watches. Errors: those of beat; CANCELLED. */
void weft_coordination_watch(weft_coordination_t *c, const weft_coordination_caller_t *caller,
                             int64_t timeout_ms, weft_canceller_t *canceller, weft_cluster_state_fn *fn,
                             void *arg);
/* Looks for tasks that are silent for too long; to be called every now and then. */
void weft_coordination_sweep(weft_coordination_t *c);

#endif /* WEFT_MEMBERSHIP_COORDINATION_SERVICE_H_ */
