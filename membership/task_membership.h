/* membership/task_membership.h - a task's membership in its cluster: how it is made, started and stopped.
 *
 * A task sends a beat every interval and keeps one watch open, which the coordination service answers when
 * the cluster state changes. The service itself is lost when a connection to it breaks, or when it has not
 * answered for `misses` intervals. A cluster of one task, and a task with an interval of 0, has no
 * heartbeats; keys and values work all the same.
 *
 * When another process is alive as this task, the service refuses the beats of this one. It then drops what
 * it had in common with the other tasks and asks again, and is taken back as soon as the other process is
 * lost. If that is still alive after twice the time in which a silent task is lost, this process was
 * replaced. The task that hosts the service finds that out by asking at the address that the cluster has for
 * it, where another process may answer.
 */
#ifndef WEFT_MEMBERSHIP_TASK_MEMBERSHIP_H_
#define WEFT_MEMBERSHIP_TASK_MEMBERSHIP_H_

#include "membership/coordination_client.h"

enum { WEFT_HEARTBEAT_MS = 1000, WEFT_HEARTBEAT_MISSES = 3 };

typedef struct weft_membership_options {
  const weft_str_t *tasks; /* all of the cluster, "/job:x/replica:0/task:n"; copied */
  int num_tasks, own;
  int service_task;     /* hosts the coordination service: weft_membership_service_task() */
  uint64_t incarnation; /* of this process; not 0 */
  uint64_t secret;      /* 0: a random one */
  int64_t interval_ms;  /* 0: no heartbeats */
  int misses;           /* that make a task lost; 0: WEFT_HEARTBEAT_MISSES */
} weft_membership_options_t;

/* The task that hosts the coordination service: the first of job chief (or master), else of worker, else of
 * all. -1: there are no tasks. */
int weft_membership_service_task(const weft_str_t *tasks, int num_tasks);

WEFT_MUST_CHECK weft_status_t *weft_membership_create(const weft_membership_options_t *o,
                                                      weft_membership_t **out);
/* The coordination service, if this task hosts it, else NULL; lent. */
weft_coordination_t *weft_membership_service(weft_membership_t *ms);
/* How to reach the service on another task; before the start, and before any key is asked for. Consumes `c`.
 */
void weft_membership_connect(weft_membership_t *ms, weft_coordination_client_t *c);
/* On the task that hosts the service: the service at the address that the cluster has for this task. Before
 * the start. Consumes `c`. */
void weft_membership_connect_self(weft_membership_t *ms, weft_coordination_client_t *c);
/* Called once, on any thread, when this process was replaced; `why` is lent. Before the start. */
typedef void weft_membership_replaced_fn(void *arg, const weft_status_t *why);
void weft_membership_on_replaced(weft_membership_t *ms, weft_membership_replaced_fn *fn, void *arg);
/* Called on the timer's thread every interval. Before the start. */
typedef void weft_membership_tick_fn(void *arg);
void weft_membership_on_tick(weft_membership_t *ms, weft_membership_tick_fn *fn, void *arg);
WEFT_MUST_CHECK weft_status_t *weft_membership_start(weft_membership_t *ms); /* does not block */
/* Cancels all calls and waits for their end. No watcher is called afterwards. Idempotent. */
void weft_membership_stop(weft_membership_t *ms);
void weft_membership_destroy(weft_membership_t *ms); /* stops first; NULL is fine */

#endif /* WEFT_MEMBERSHIP_TASK_MEMBERSHIP_H_ */
