/* base/cancellation.h - ends waits from another thread.
 *
 * A canceller is shared by the code that may cancel and the code that waits. A waiter
 * registers a callback; cancelling calls each registered callback once, on the
 * canceller's thread. A child is cancelled with its parent.
 */
#ifndef WEFT_BASE_CANCELLATION_H_
#define WEFT_BASE_CANCELLATION_H_

#include "base/status.h"

#include <stdint.h>

typedef struct weft_canceller weft_canceller_t; /* Thread-safe. Refcounted. */
typedef void weft_cancel_fn(void *arg);

/* A registration that lies in what its caller keeps: no memory is taken for it. Its fields are the
 * canceller's. */
typedef struct weft_cancel_waiter {
  struct weft_cancel_waiter *prev, *next;
  weft_cancel_fn *fn;
  void *arg;
  uint64_t token;
  bool is_allocated; /* by the canceller */
} weft_cancel_waiter_t;

/* `parent` (may be NULL) is retained. NULL when there is no memory. */
weft_canceller_t *weft_canceller_create(weft_canceller_t *parent);
weft_canceller_t *weft_canceller_retain(weft_canceller_t *c);
void weft_canceller_release(weft_canceller_t *c); /* NULL is fine */

/* Calls all callbacks, with none of our locks held; later registrations fail. Idempotent. */
void weft_canceller_cancel(weft_canceller_t *c);
/* Was it never cancelled, and does nothing else know of it than the caller, with one reference? */
bool weft_canceller_is_new(const weft_canceller_t *c);
bool weft_canceller_is_cancelled(const weft_canceller_t *c); /* NULL is never cancelled */

/* Registers fn(arg); *out_token is for deregister. False if already cancelled (fn is then
 * never called) or without memory. A NULL canceller accepts and never calls. */
bool weft_canceller_register(weft_canceller_t *c, weft_cancel_fn *fn, void *arg, uint64_t *out_token);
/* The same with the caller's `w`, whose token is for deregister; never fails for want of memory. `w` stays
 * where it is until deregister returns, or fn has been called: fn may free it. */
bool weft_canceller_register_in(weft_canceller_t *c, weft_cancel_waiter_t *w, weft_cancel_fn *fn, void *arg);
/* True: fn was not called and never will be. False: it has been called. If it is being called on
 * another thread now, waits until it has returned; must not be called from within fn, nor with a lock that fn
 * takes. */
bool weft_canceller_deregister(weft_canceller_t *c, uint64_t token);
/* As above but never waits: false also while fn is running elsewhere. For callers that hold fn's lock. */
bool weft_canceller_try_deregister(weft_canceller_t *c, uint64_t token);

#endif /* WEFT_BASE_CANCELLATION_H_ */
