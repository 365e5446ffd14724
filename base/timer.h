/* base/timer.h - calls a function when a moment has passed. One thread serves a whole process. */
#ifndef WEFT_BASE_TIMER_H_
#define WEFT_BASE_TIMER_H_

#include "base/status.h"

#include <stdint.h>

typedef struct weft_timer weft_timer_t; /* Thread-safe. */
typedef void weft_timer_fn(void *arg);

WEFT_MUST_CHECK weft_status_t *weft_timer_create(weft_timer_t **out);
void weft_timer_destroy(
    weft_timer_t *t); /* drops what is pending, joins the thread; not from a callback. NULL is fine */
/* Calls fn(arg) on the timer's thread at `deadline_ns` (of weft_clock_ns()), once. fn must be quick. The
 * thread starts with the first call. *out_id is for removal. */
WEFT_MUST_CHECK weft_status_t *weft_timer_add(weft_timer_t *t, int64_t deadline_ns, weft_timer_fn *fn,
                                              void *arg, uint64_t *out_id);
/* After it fn is not running and never will be (but when called from within it). True if it was never called.
 * Must not be called with a lock that fn takes. */
bool weft_timer_remove(weft_timer_t *t, uint64_t id);

#endif /* WEFT_BASE_TIMER_H_ */
