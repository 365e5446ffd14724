/* membership/task_membership.h - makes a task's view of the membership and keeps it going.
 *
 * A task beats every interval and keeps one watch open, which the keeper answers
 * when somebody comes or goes. The keeper itself is lost when a connection to it
 * breaks, or when it has not answered for `misses` intervals. A task alone, and
 * one with an interval of 0, has no beats: keys and values work all the same.
 *
 * A process that the keeper does not take for its task, because another process is alive as that task, loses
 * what it had in common with the others and asks again. It is taken back as soon as the other is lost. If the
 * other is still there after twice the time in which a silent one is lost, this process was replaced. The
 * task that keeps the record asks at the address that the cluster has for it, to find out whether another
 * process answers there.
 */
#ifndef WEFT_MEMBERSHIP_TASK_MEMBERSHIP_H_
#define WEFT_MEMBERSHIP_TASK_MEMBERSHIP_H_

#include "membership/keeper_client.h"

enum { WEFT_HEARTBEAT_MS = 1000, WEFT_HEARTBEAT_MISSES = 3 };

typedef struct weft_membership_options {
  const weft_str_t *tasks; /* all of the cluster, "/job:x/replica:0/task:n"; copied */
  int num_tasks, own;
  int keeper;           /* which keeps the record: weft_membership_keeper_of() */
  uint64_t incarnation; /* of this process; not 0 */
  uint64_t secret;      /* 0: a random one */
  int64_t interval_ms;  /* 0: no heartbeats */
  int misses;           /* that make a task lost; 0: WEFT_HEARTBEAT_MISSES */
} weft_membership_options_t;

/* Which of the tasks keeps the record: the first of job chief (or master), else of worker, else of all. -1:
 * there are none. */
int weft_membership_keeper_of(const weft_str_t *tasks, int num_tasks);

WEFT_MUST_CHECK weft_status_t *weft_membership_create(const weft_membership_options_t *o,
                                                      weft_membership_t **out);
/* The record, if this task keeps it, else NULL; lent. */
weft_keeper_t *weft_membership_keeper(weft_membership_t *ms);
/* How to reach the keeper, if this task is not it; before the start, and before anything is asked. Consumes
 * `c`. */
void weft_membership_connect(weft_membership_t *ms, weft_keeper_client_t *c);
/* The keeper behind the address that the cluster has for this task, which keeps the record itself. Before the
 * start. Consumes `c`. */
void weft_membership_connect_self(weft_membership_t *ms, weft_keeper_client_t *c);
/* Called once, on any thread, when this process was replaced; `why` is lent. Before the start. */
typedef void weft_membership_replaced_fn(void *arg, const weft_status_t *why);
void weft_membership_on_replaced(weft_membership_t *ms, weft_membership_replaced_fn *fn, void *arg);
/* Called on the timer's thread every interval. Before the start. */
typedef void weft_membership_tick_fn(void *arg);
void weft_membership_on_tick(weft_membership_t *ms, weft_membership_tick_fn *fn, void *arg);
WEFT_MUST_CHECK weft_status_t *weft_membership_start(weft_membership_t *ms); /* does not block */
/* Cancels what is asked and watched and waits for it. No watcher is told anything afterwards. Idempotent. */
void weft_membership_stop(weft_membership_t *ms);
void weft_membership_destroy(weft_membership_t *ms); /* stops first; NULL is fine */

#endif /* WEFT_MEMBERSHIP_TASK_MEMBERSHIP_H_ */
