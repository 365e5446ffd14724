/* collectives/instance_table.h - whether all ranks of an instance are about to do the same.
 *
 * A record gathers one request of each rank for one step, compares each request with the first, and is
 * removed when all have been answered. A contradiction is kept for a while, so that ranks which arrive later
 * in that step get it, too. What was agreed is kept with the instance: the same request in a later step is
 * answered at once.
 *
 * Thread-compatible: the group table serialises all calls under its one lock, because a group that is formed
 * anew must drop its instances in the same moment.
 */
#ifndef WEFT_COLLECTIVES_INSTANCE_TABLE_H_
#define WEFT_COLLECTIVES_INSTANCE_TABLE_H_

#include "collectives/group_waiter.h"

typedef struct weft_instance_table weft_instance_table_t;
typedef struct weft_instance_record weft_instance_record_t;
typedef struct weft_instance_agreed weft_instance_agreed_t;

/* Of one request. The caller makes the records before it takes the lock, and frees what is left after. */
typedef struct weft_instance_join {
  weft_instance_record_t *record; /* to be used, or NULL; owned */
  weft_instance_agreed_t *agreed;
  weft_status_t *why; /* owned */
  bool is_answered;   /* the request need not wait */
  int source;
  weft_group_waiters_t others; /* get the same answer */
  weft_instance_record_t *removed;
  weft_instance_agreed_t *forgotten; /* a chain */
} weft_instance_join_t;

WEFT_MUST_CHECK weft_status_t *weft_instance_table_create(weft_instance_table_t **out);
void weft_instance_table_destroy(weft_instance_table_t *t); /* NULL is fine */

bool weft_instance_join_init(weft_instance_join_t *j); /* without the lock; false without memory */
void weft_instance_join_deinit(weft_instance_join_t *j);
/* Enters the request of `w`. `group`: complete, borrowed; NULL: not known here. Then either w waits, or
 * is_answered with why or source; `others` are to be answered alike. */
void weft_instance_table_join(weft_instance_table_t *t, weft_group_waiter_t *w, const weft_group_t *group,
                              weft_instance_join_t *o);
/* DEADLINE_EXCEEDED, naming the ranks that have not joined the instance that `w` waits for. */
weft_status_t *weft_instance_too_late(const weft_group_waiter_t *w);
/* The rank of `w`, which is taken, has given up (`why`, consumed): the step's instance will never be
 * complete. Its other waiters are moved to `others`. The result is to be freed without the lock. */
weft_instance_record_t *weft_instance_table_leave(weft_instance_table_t *t, const weft_group_waiter_t *w,
                                                  weft_status_t *why, weft_group_waiters_t *others);
void weft_instance_record_free(weft_instance_record_t *r); /* NULL is fine */
/* The group is formed anew: its instances are forgotten; their waiters are moved to `failed`. */
void weft_instance_table_drop_group(weft_instance_table_t *t, int64_t group_key,
                                    weft_group_waiters_t *failed);
void weft_instance_table_take_all(weft_instance_table_t *t, weft_group_waiters_t *out);

#endif /* WEFT_COLLECTIVES_INSTANCE_TABLE_H_ */
