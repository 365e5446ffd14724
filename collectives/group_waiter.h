/* collectives/group_waiter.h - somebody who waits for the leader's answer.
 *
 * A waiter is in one list until somebody takes it out under the table's lock; who
 * takes it answers it, after giving the lock back. Cancelling, the timeout and the
 * answer are rivals for taking it.
 */
#ifndef WEFT_COLLECTIVES_GROUP_WAITER_H_
#define WEFT_COLLECTIVES_GROUP_WAITER_H_

#include "base/mutex.h"
#include "base/timer.h"
#include "collectives/transport.h"

typedef struct weft_waiter weft_waiter_t;
typedef struct weft_waiter_list {
  weft_waiter_t *first, *last;
} weft_waiter_list_t;

struct weft_waiter {
  atomic_int refs; /* the taker's; the canceller's; the timer's */
  weft_waiter_t *next, *prev;
  weft_waiter_list_t *in; /* guarded by the table's mu; NULL: taken */
  void *record;           /* guarded by the table's mu while waiting: what it waits for */
  void *table;
  bool is_instance;
  weft_group_request_t group; /* texts: owned, in `texts` */
  weft_instance_request_t instance;
  weft_arena_t texts;
  weft_group_fn *group_fn;
  weft_instance_fn *instance_fn;
  void *arg;
  weft_canceller_t *canceller; /* retained */
  uint64_t cancel_token, timer_id;
  bool has_cancel, has_timer;
  bool has_expired; /* guarded by the table's mu: the timeout has been, perhaps before w was in a list */
};

/* One reference, not in a list. NULL without memory. */
weft_waiter_t *weft_waiter_for_group(const weft_group_request_t *r, weft_group_fn *fn, void *arg);
weft_waiter_t *weft_waiter_for_instance(const weft_instance_request_t *r, weft_instance_fn *fn, void *arg);
void weft_waiter_release(weft_waiter_t *w);

/* Both with the table's lock. */
void weft_waiter_put(weft_waiter_list_t *list, weft_waiter_t *w);
void weft_waiter_take(weft_waiter_t *w); /* out of its list */
/* Moves all of `from` to the end of `to`; there they count as taken. */
void weft_waiter_take_all(weft_waiter_list_t *from, weft_waiter_list_t *to);

/* Consumes a taken waiter. `why` is copied; NULL: success with `group` (retained) or `source`. No lock is
 * held. */
void weft_waiter_answer(weft_waiter_t *w, weft_timer_t *timer, const weft_status_t *why, weft_group_t *group,
                        int source);
/* Answers a list of taken waiters, as above. */
void weft_waiter_answer_all(weft_waiter_list_t *list, weft_timer_t *timer, const weft_status_t *why,
                            weft_group_t *group, int source);

#endif /* WEFT_COLLECTIVES_GROUP_WAITER_H_ */
