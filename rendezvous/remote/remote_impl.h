/* rendezvous/remote/remote_impl.h - the inside of a remote rendezvous; only for this folder. */
#ifndef WEFT_RENDEZVOUS_REMOTE_REMOTE_IMPL_H_
#define WEFT_RENDEZVOUS_REMOTE_REMOTE_IMPL_H_

#include "base/mutex.h"
#include "rendezvous/remote/remote_rendezvous.h"

typedef struct weft_step_rendezvous weft_step_rendezvous_t;

/* A request to another task, from its start to its end; an abort cancels it. The first member of what a
 * request keeps. */
typedef struct weft_under_way {
  struct weft_under_way *prev, *next; /* guarded by the rendezvous's mu */
  weft_step_rendezvous_t *r;          /* retained */
  weft_canceller_t *canceller;        /* owned */
} weft_under_way_t;

/* A step's subscriptions (subscription.c). */
typedef struct weft_subscriptions weft_subscriptions_t;

struct weft_step_rendezvous {
  weft_rendezvous_t base;
  weft_rendezvous_t *local; /* owned */
  char *task;               /* owned */
  size_t task_length;
  bool is_moved; /* to a session's cluster */
  int64_t step_id;
  weft_tensor_source_t source;
  weft_subscriptions_t *subscriptions; /* owned; NULL: none. Constant once the step's plan runs */
  weft_mutex_t mu;
  bool is_aborted;             /* guarded by mu: set before the local table is */
  weft_under_way_t *under_way; /* guarded by mu */
};

/* Begins a request, with a canceller of its own, a child of `parent` (may be NULL). NULL: it has begun, and
 * the caller ends it. Else why not: the abort's failure, CANCELLED, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_under_way_begin(weft_step_rendezvous_t *r, weft_canceller_t *parent,
                                                    weft_under_way_t *u);
/* Ends a request. The caller gets its reference to the rendezvous. */
void weft_under_way_end(weft_under_way_t *u);
/* Cancels all requests. The rendezvous is aborted: no other begins. */
void weft_under_way_cancel(weft_step_rendezvous_t *r);
/* What the rendezvous was aborted with (owned), or NULL. */
weft_status_t *weft_remote_abort_status(weft_step_rendezvous_t *r);
/* Fetches the tensor of one key from another task. */
void weft_remote_fetch(weft_step_rendezvous_t *r, weft_key_t key, const weft_key_parts_t *parts,
                       weft_canceller_t *canceller, weft_recv_fn *fn, void *arg);

/* Does the step's subscription bring the tensor of `key` into the local table? */
bool weft_subscriptions_have(const weft_subscriptions_t *s, weft_key_t key);
void weft_subscriptions_free(weft_subscriptions_t *s); /* none is under way; NULL is fine */

#endif /* WEFT_RENDEZVOUS_REMOTE_REMOTE_IMPL_H_ */
