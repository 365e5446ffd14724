/* membership/membership.h - which tasks of a cluster are alive, and keys and values that they share.
 *
 * One task of the cluster (the first of job chief, else of worker, else of the first job) hosts the
 * coordination service, which holds the cluster state; all others send it heartbeats, on by default, and
 * learn from it which tasks are lost. The state has an *epoch*: it grows whenever a task joins, is lost, or
 * returns with another incarnation. Beside that, the service holds keys and values: set, get (waits), add,
 * compare-set, delete, barrier.
 *
 * Sources: reference strategies 1.1 R5, 3.2 (PS-Lite's roles, heartbeats, barriers),
 * 3.5 (TCPStore), 3.26 (health check).
 */
#ifndef WEFT_MEMBERSHIP_MEMBERSHIP_H_
#define WEFT_MEMBERSHIP_MEMBERSHIP_H_

#include "base/cancellation.h"
#include "base/str.h"

typedef enum weft_member_state {
  WEFT_MEMBER_UNKNOWN,
  WEFT_MEMBER_ALIVE,
  WEFT_MEMBER_LOST
} weft_member_state_t;

typedef struct weft_member {
  weft_str_t task; /* "/job:worker/replica:0/task:1" */
  uint64_t incarnation;
  weft_member_state_t state;
  int64_t silent_ms; /* since the last heartbeat. -1: the loss is over already; the member, or this task, was
                        silent for a while */
  uint64_t losses;   /* how often this process of the task has been lost so far */
  bool has_left;     /* lost because it was shut down, as its last beat said */
} weft_member_t;

typedef struct weft_membership weft_membership_t; /* As one task sees it; Thread-safe. */

/* Called on any thread, in order; `m` is lent. Also when this task has lost the coordination service. A task
 * that was lost while it was silent, and lives, is told that all others were lost and are there again: they
 * hold nothing of what they had in common any more. */
typedef void weft_member_changed_fn(void *arg, uint64_t epoch, const weft_member_t *m);
void weft_membership_watch(weft_membership_t *ms, weft_member_changed_fn *fn,
                           void *arg); /* before the start; several may watch */

uint64_t weft_membership_epoch(weft_membership_t *ms);
/* Copies at most `max` members to out; their texts are lent as long as `ms` lives. Returns how many there
 * are. */
int weft_membership_list(weft_membership_t *ms, weft_member_t *out, int max);

/* ---- keys and values; each ends once, on any thread; status is owned, value lent ---- */
typedef void weft_value_fn(void *arg, weft_status_t *status, weft_str_t value);
void weft_membership_set(weft_membership_t *ms, weft_str_t key, weft_str_t value, weft_value_fn *fn,
                         void *arg);
/* Waits until the key is there: at most timeout_ms (0: does not wait, NOT_FOUND), then DEADLINE_EXCEEDED. */
void weft_membership_get(weft_membership_t *ms, weft_str_t key, int64_t timeout_ms,
                         weft_canceller_t *canceller, weft_value_fn *fn, void *arg);
/* Adds to a decimal number (absent: 0); the value is the sum. */
void weft_membership_add(weft_membership_t *ms, weft_str_t key, int64_t delta, weft_value_fn *fn, void *arg);
/* Sets `desired` if the value is `expected` ("" also means absent); the value is what is there afterwards. */
void weft_membership_compare_set(weft_membership_t *ms, weft_str_t key, weft_str_t expected,
                                 weft_str_t desired, weft_value_fn *fn, void *arg);
void weft_membership_delete(weft_membership_t *ms, weft_str_t key, weft_value_fn *fn,
                            void *arg); /* value "1" if it was there */
/* Ends when `size` callers have arrived at the barrier `name`; it can be used again afterwards. */
void weft_membership_barrier(weft_membership_t *ms, weft_str_t name, int size, int64_t timeout_ms,
                             weft_canceller_t *canceller, weft_value_fn *fn, void *arg);

#endif /* WEFT_MEMBERSHIP_MEMBERSHIP_H_ */
