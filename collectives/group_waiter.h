/* collectives/group_waiter.h - a request to the group leader that has not been answered yet.
 *
 * A waiter is in one list until it is taken out under the table's lock; the thread that takes it answers it,
 * after giving the lock back. The answer, the canceller and the timeout compete for taking it.
 */
#ifndef WEFT_COLLECTIVES_GROUP_WAITER_H_
#define WEFT_COLLECTIVES_GROUP_WAITER_H_

#include "base/mutex.h"
#include "base/timer.h"
#include "collectives/transport.h"

typedef struct weft_group_waiter weft_group_waiter_t;
typedef struct weft_group_waiters {
  weft_group_waiter_t *first, *last;
} weft_group_waiters_t;

/* The canceller or the timeout of `w` has fired; the table takes and answers w if it still waits. Called with
 * no lock held. */
typedef void weft_group_gave_up_fn(weft_group_waiter_t *w, bool is_timeout);

struct weft_group_waiter {
  atomic_int refs; /* the taker's; the canceller's; the timer's */
  weft_group_waiter_t *next, *prev;
  weft_group_waiters_t *in; /* guarded by the table's mu; NULL: taken */
  void *record;             /* guarded by the table's mu while waiting: what it waits for */
  void *table;
  weft_group_gave_up_fn *gave_up;
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
  bool has_expired; /* guarded by the table's mu: the timeout has fired, perhaps before w was in a list */
};

/* One reference, not in a list. NULL without memory. */
weft_group_waiter_t *weft_group_waiter_for_group(const weft_group_request_t *r, weft_group_fn *fn, void *arg);
weft_group_waiter_t *weft_group_waiter_for_instance(const weft_instance_request_t *r, weft_instance_fn *fn,
                                                    void *arg);
void weft_group_waiter_release(weft_group_waiter_t *w);

/* From now on `gave_up` may be called; before w is in a list. Errors: CANCELLED, RESOURCE_EXHAUSTED: w cannot
 * wait. */
WEFT_MUST_CHECK weft_status_t *weft_group_waiter_watch(weft_group_waiter_t *w, weft_timer_t *timer,
                                                       weft_canceller_t *canceller, int64_t timeout_ms,
                                                       weft_group_gave_up_fn *gave_up);
/* With the table's lock: w is in a list, but its canceller or timeout fired before that. The caller then
 * calls weft_group_waiter_repeat() without the lock. */
bool weft_group_waiter_is_late(const weft_group_waiter_t *w);
void weft_group_waiter_repeat(weft_group_waiter_t *w); /* calls `gave_up` once more */

/* All with the table's lock. */
void weft_group_waiter_put(weft_group_waiters_t *list, weft_group_waiter_t *w);
void weft_group_waiter_take(weft_group_waiter_t *w); /* out of its list */
/* Moves all of `from` to the end of `to`; there they count as taken. */
void weft_group_waiter_take_all(weft_group_waiters_t *from, weft_group_waiters_t *to);

/* Consumes a taken waiter. `why` is copied; NULL: success with `group` (retained) or `source`. No lock is
 * held. */
void weft_group_waiter_answer(weft_group_waiter_t *w, weft_timer_t *timer, const weft_status_t *why,
                              weft_group_t *group, int source);
/* Answers a list of taken waiters, as above. */
void weft_group_waiter_answer_all(weft_group_waiters_t *list, weft_timer_t *timer, const weft_status_t *why,
                                  weft_group_t *group, int source);

#endif /* WEFT_COLLECTIVES_GROUP_WAITER_H_ */
