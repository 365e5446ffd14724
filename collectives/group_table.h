/* collectives/group_table.h - the leader's table of groups and instances.
 *
 * Members join a group by its key; when group_size of them have joined, ranks are given (the wanted ones,
 * else by the order of job, task and device) and all get the same group. A failure (sizes, device types or
 * ranks that contradict each other, a member lost) is sticky for the key: waiting and later requests get it,
 * until a member joins with another incarnation than before, or a lost task returns; then the group is formed
 * anew and its members must all join again.
 *
 * An instance waits in the same way for one request of every rank with the same step, and compares them. What
 * was agreed is remembered with the group: the same request in a later step is answered at once.
 *
 * Memory and time grow with the members that have joined, never with the size that a request declares. A
 * table keeps WEFT_GROUPS_KEPT groups: beyond that the one that was asked for least recently, and for which
 * nothing waits, is forgotten.
 *
 * Sources: reference strategies 1.1 R2; TensorFlow's collective_param_resolver_local.
 */
#ifndef WEFT_COLLECTIVES_GROUP_TABLE_H_
#define WEFT_COLLECTIVES_GROUP_TABLE_H_

#include "collectives/transport.h"

enum { WEFT_GROUPS_KEPT = 4096 }; /* a job has a handful */

typedef struct weft_group_table weft_group_table_t; /* Thread-safe. */

/* What the leader knows of its cluster; all may be NULL. Called without locks. */
typedef struct weft_group_table_env {
  const weft_str_t *(*tasks)(void *arg, int *out_n); /* of the cluster; lent, constant */
  bool (*is_lost)(void *arg, weft_str_t task);       /* and has not returned */
  weft_str_t (*host_of)(void *arg,
                        weft_str_t task); /* lent for the call; equal texts share memory; "": unknown */
  /* Measured seconds for a message between two tasks: a group's links come from here. */
  double (*cost)(void *arg, weft_str_t from_task, weft_str_t to_task, size_t bytes);
  void *arg;
} weft_group_table_env_t;

WEFT_MUST_CHECK weft_status_t *weft_group_table_create(const weft_group_table_env_t *env,
                                                       weft_group_table_t **out);
/* Waiters still there get CANCELLED. NULL is fine. */
void weft_group_table_destroy(weft_group_table_t *t);

/* `fn` is called once, perhaps before this returns, with no lock held; the request is copied. Errors:
 * INVALID_ARGUMENT (more than WEFT_MAX_GROUP members), INTERNAL (sizes, device types, ranks: TensorFlow's
 * code), UNAVAILABLE (a member's task is lost, or the last one of the
 * members' jobs that could still join), DEADLINE_EXCEEDED (the request's timeout; names the members
 * that joined), CANCELLED, RESOURCE_EXHAUSTED. */
void weft_group_table_join(weft_group_table_t *t, const weft_group_request_t *r, weft_canceller_t *canceller,
                           weft_group_fn *fn, void *arg);
/* As above. Errors: INVALID_ARGUMENT to all ranks with both values when two requests differ, or when a
 * broadcast has no source or two; the others as above. source_rank: r->root of the agreed, or the rank that
 * is_source; else -1. */
void weft_group_table_join_instance(weft_group_table_t *t, const weft_instance_request_t *q,
                                    weft_canceller_t *canceller, weft_instance_fn *fn, void *arg);
/* Groups with a member of `task`, waiting or complete, fail with UNAVAILABLE naming it (`why` in the
 * message). */
void weft_group_table_lost_task(weft_group_table_t *t, weft_str_t task, const weft_status_t *why);
/* The leader departs: requests for groups and instances end with `why`, present and later ones. */
void weft_group_table_leave(weft_group_table_t *t, const weft_status_t *why);
/* `task` has returned, as other tasks know: groups that failed because it was lost are formed anew with the
 * next request, even if its own members join last. */
void weft_group_table_returned_task(weft_group_table_t *t, weft_str_t task);

#endif /* WEFT_COLLECTIVES_GROUP_TABLE_H_ */
