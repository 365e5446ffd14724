/* membership/keeper.h - the record of who is alive, as the task that keeps it has it.
 *
 * Tasks send beats; one that is silent for too long, or whose watch breaks off,
 * is lost. Whoever watches is answered when the epoch has grown. A task that
 * comes with another incarnation was restarted: the epoch grows, too.
 *
 *   UNKNOWN --beat--> ALIVE --silence, or its watch broke off, or it left--> LOST --beat--> ALIVE
 *
 * A process is known by its incarnation, which all may know, and a secret, which it draws at its start and
 * tells this record alone. The first beat of a task that is not alive binds both. While that process is
 * alive, calls under the task's name with another incarnation or secret change nothing: a second process of
 * the task, one that was replaced while it was silent, or a forgery.
 *
 * Knows no network.
 */
#ifndef WEFT_MEMBERSHIP_KEEPER_H_
#define WEFT_MEMBERSHIP_KEEPER_H_

#include "membership/store.h"

typedef struct weft_keeper weft_keeper_t; /* Thread-safe. */

typedef struct weft_keeper_options {
  const weft_str_t *tasks; /* all of the cluster; lent as long as the keeper lives */
  int num_tasks;
  int own;                      /* which of them keeps the record: alive from the start, never silent */
  uint64_t incarnation, secret; /* its own */
  int64_t lost_after_ms;        /* 0: nobody is ever silent for too long */
  weft_timer_t *timer;          /* borrowed */
} weft_keeper_options_t;

WEFT_MUST_CHECK weft_status_t *weft_keeper_create(const weft_keeper_options_t *o, weft_keeper_t **out);
/* Every wait ends with CANCELLED, watches with a record that says that this task has left; later watches at
 * once with UNAVAILABLE. */
void weft_keeper_stop(weft_keeper_t *k);
void weft_keeper_destroy(weft_keeper_t *k);        /* stops first; NULL is fine */
weft_store_t *weft_keeper_store(weft_keeper_t *k); /* lent */

/* A task as it calls the keeper: in every call. Borrowed until the call returns. */
typedef struct weft_keeper_caller {
  weft_str_t task;
  uint64_t incarnation;
  uint64_t epoch;       /* what it has seen: a keeper that was restarted goes on from there */
  uint64_t lost_keeper; /* how often it has lost the keeper: one that was silent itself hears of it so, and
                           counts that as a loss of the task, because each has dropped what it had in common
                           with the other */
  bool is_leaving;      /* of a beat: it is the last one, the process is being shut down */
  uint64_t secret;      /* of the process */
  weft_str_t peer;      /* where the call came from, for messages; empty: from this process */
} weft_keeper_caller_t;

/* The task lives. *out_epoch: the record's.
 * Errors: NOT_FOUND (no such task in the cluster); ABORTED (another process is alive as that task, or this
 * one has left). */
WEFT_MUST_CHECK weft_status_t *weft_keeper_beat(weft_keeper_t *k, const weft_keeper_caller_t *who,
                                                uint64_t *out_epoch);

#define WEFT_KEEPER_PRESENCE UINT64_MAX

/* The record: one member per task, in the cluster's order. All lent; owns status (then there are no members).
 */
typedef void weft_roll_fn(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members,
                          int n);
/* Answers when the epoch is not the caller's any more, or after `timeout_ms` with the record as it is. It
 * counts as a beat. If `canceller` ends it (the connection broke), that incarnation of the task is lost. A
 * `task` of "" only looks on. An `epoch` of WEFT_KEEPER_PRESENCE is not answered before the timeout: who
 * always has such a call open is missed at once, also while it is between two watches. Errors: those of beat;
 * CANCELLED. */
void weft_keeper_watch(weft_keeper_t *k, const weft_keeper_caller_t *who, int64_t timeout_ms,
                       weft_canceller_t *canceller, weft_roll_fn *fn, void *arg);
/* Looks for tasks that are silent for too long; to be called every now and then. */
void weft_keeper_sweep(weft_keeper_t *k);

#endif /* WEFT_MEMBERSHIP_KEEPER_H_ */
