/* collectives/remote/transfers.h - the offers and fetches of a transport that are not matched yet, or are
 * under way.
 *
 * An offer is *held* (waits for a RecvBuf, or for a fetch of this task) or *announced* (its receiver was told
 * over a link and reads it). A fetch is *waiting* (for the announcement of its offer) or *calling* (a RecvBuf
 * under way). Beside these, a *request* is a RecvBuf of another task that waits for an offer, and an
 * *arrival* an announcement that no fetch waits for yet.
 *
 *   offer    held --request or own fetch--> given        announced --finished--> ended
 *              ^---------- refused: the receiver cannot read --/
 *   fetch    waiting --arrival--> copied                 calling --answer--> copied
 *
 * A *share* is this task's part in a collective by posts. It is in its table from beginning to end, either
 * *parked* or with the one thread that looks what has come; what wakes or ends it meanwhile is left in it for
 * that thread.
 *
 *   share    looking <--woken, ended-- parked
 *               \_____nothing new_______^
 *
 * The thread that takes an item out of its table ends it, outside the lock, because callbacks may call the
 * transport.
 *
 * One lock for all of it and for what has ended: an item must not enter a table after its step or run has
 * ended, and an offer and its request must not miss each other.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_TRANSFERS_H_
#define WEFT_COLLECTIVES_REMOTE_TRANSFERS_H_

#include "collectives/remote/host_link.h"
#include "collectives/remote/peers.h"
#include "collectives/transport.h"

typedef struct weft_transfers weft_transfers_t; /* Thread-safe. */
typedef struct weft_remote weft_remote_t;

typedef struct weft_remote_offer {
  struct weft_remote_offer *next; /* of a list of taken ones */
  weft_remote_t *t;               /* borrowed */
  int64_t step_id;
  char *name; /* owned, with the two below behind it */
  weft_str_t key, to_task;
  uint64_t incarnation; /* of to_task, as far as it was known; 0: it was not */
  const void *data;
  size_t bytes;
  uint64_t id;            /* of an announced one */
  weft_host_link_t *link; /* retained; of an announced one */
  weft_status_t *why;     /* owned; why it could not be announced, until the cause is known */
  weft_transfer_done_fn *done;
  void *arg;
} weft_remote_offer_t;

typedef struct weft_remote_fetch {
  struct weft_remote_fetch *next;
  weft_remote_t *t;
  int64_t step_id;
  char *name;
  weft_str_t key, from_task, from_device, to_device;
  uint64_t incarnation;        /* of from_task, as an offer's */
  weft_fetch_t f;              /* texts as above */
  weft_canceller_t *canceller; /* retained; the caller's, or of a calling one: a child of it, owned */
  uint64_t token;
  bool is_waiting, is_cancelled; /* guarded by the table's lock */
  weft_status_t *why;            /* guarded by the table's lock: why the transport cancelled its call */
  weft_host_link_t *link;        /* retained: that the bytes come over */
  uint64_t id, address;          /* of the offer that it reads */
  int64_t began_ns;              /* of a call to another task, or of reading */
  size_t copied;                 /* bytes that were consumed; a second attempt continues there */
  weft_transfer_done_fn *done;
  void *arg;
} weft_remote_fetch_t;

typedef struct weft_remote_arrival {
  struct weft_remote_arrival *next;
  char *name;
  weft_str_t key;
  int64_t step_id;
  weft_host_link_t *link; /* retained */
  weft_str_t from_task;   /* of the link, as the next */
  uint64_t incarnation;
  uint64_t id, address;
  size_t bytes;
  bool is_inline;
  char data[];
} weft_remote_arrival_t;

typedef struct weft_remote_request {
  struct weft_remote_request *next;
  weft_remote_t *t;
  int64_t step_id;
  char *name;
  weft_str_t key;
  weft_canceller_t *canceller; /* retained */
  uint64_t token;
  bool is_waiting, is_cancelled; /* guarded by the table's lock */
  weft_buf_fn *fn;
  void *arg;
} weft_remote_request_t;

typedef struct weft_remote_share {
  struct weft_remote_share *next; /* of a list of those that were parked and are to end */
  weft_remote_t *t;
  uint64_t id;
  char *key; /* owned: "RUN/" */
  weft_posting_t p;
  weft_post_t *post;        /* NULL: not yet, or not any more */
  weft_host_link_t **links; /* by rank; retained; NULL: of this task. Owned, with the three below behind it */
  weft_posts_view_t **views;   /* by rank; lent by the links */
  const void **from;           /* by rank */
  int num_read;                /* rounds */
  weft_canceller_t *canceller; /* retained */
  uint64_t token;
  bool is_parked, is_woken, is_cancelled; /* guarded by the table's lock, as `why` */
  weft_status_t *why;                     /* what has ended it while it was looking */
  weft_transfer_done_fn *done;
  void *arg;
} weft_remote_share_t;

WEFT_MUST_CHECK weft_status_t *weft_transfers_create(weft_transfers_t **out);
void weft_transfers_destroy(weft_transfers_t *x); /* all tables empty; NULL is fine */

/* "step;to_device;key", and `more` behind its '\0'. *out_key and *out_more are views of it. NULL without
 * memory. */
char *weft_transfers_name(int64_t step_id, weft_str_t to_device, weft_str_t key, weft_str_t more,
                          weft_str_t *out_key, weft_str_t *out_more);

/* ---- offers ---- */

/* An offer begins: its step has transfers. Errors: why its step or run has ended. *out_is_requested: a
 * RecvBuf waits for it. */
WEFT_MUST_CHECK weft_status_t *weft_transfers_begin_offer(weft_transfers_t *x, const weft_remote_offer_t *o,
                                                          bool *out_is_requested);
/* Holds `o`, or takes the request that waits for it: then both are the caller's. Errors: o is the caller's.
 */
WEFT_MUST_CHECK weft_status_t *weft_transfers_hold(weft_transfers_t *x, weft_remote_offer_t *o,
                                                   weft_remote_request_t **out_request);
/* Enters `o` as announced, with an id. Errors: o is the caller's. */
WEFT_MUST_CHECK weft_status_t *weft_transfers_announce(weft_transfers_t *x, weft_remote_offer_t *o,
                                                       uint64_t *out_id);
/* Takes the announced offer `id`, if it was announced over `link` (NULL: any). *out_why: what ended it
 * meanwhile. NULL: there is none. */
weft_remote_offer_t *weft_transfers_take_announced(weft_transfers_t *x, const weft_host_link_t *link,
                                                   uint64_t id, weft_status_t **out_why);

/* ---- fetches ---- */

/* Around each fetch and call: weft_transfers_wait_idle() waits for the end. */
void weft_transfers_begin(weft_transfers_t *x, int64_t step_id);
void weft_transfers_end(weft_transfers_t *x);
void weft_transfers_wait_idle(weft_transfers_t *x);

/* Why a fetch cannot begin: what ended its step or run here. What arrived is good even if the peer ended the
 * step since. */
WEFT_MUST_CHECK weft_status_t *weft_transfers_check(weft_transfers_t *x, const weft_remote_fetch_t *f);
/* Enters `f` as calling. Errors: what ended its step or run, here or at its peer. */
WEFT_MUST_CHECK weft_status_t *weft_transfers_begin_call(weft_transfers_t *x, weft_remote_fetch_t *f);
/* The call has ended: returns why the transport cancelled it, or NULL. */
weft_status_t *weft_transfers_end_call(weft_transfers_t *x, weft_remote_fetch_t *f);
/* Takes the arrival that `f` is for, else lets `f` wait for it over `link` (then f->link). Errors: f is the
 * caller's. */
WEFT_MUST_CHECK weft_status_t *weft_transfers_wait(weft_transfers_t *x, weft_remote_fetch_t *f,
                                                   weft_host_link_t *link,
                                                   weft_remote_arrival_t **out_arrival);
/* The fetch is cancelled; true: it was waiting, and is the caller's now. */
bool weft_transfers_cancel_wait(weft_transfers_t *x, weft_remote_fetch_t *f);
/* Keeps the arrival; true: it is the table's now. False: it is the caller's, with the fetch that waits for
 * it, or NULL: its step or run has ended. */
bool weft_transfers_arrive(weft_transfers_t *x, weft_remote_arrival_t *a, weft_remote_fetch_t **out_fetch);

/* ---- requests ---- */

/* Takes the offer that is requested, or lets the request wait. Errors: the request is the caller's. */
WEFT_MUST_CHECK weft_status_t *weft_transfers_request(weft_transfers_t *x, weft_remote_request_t *r,
                                                      weft_remote_offer_t **out_offer);
bool weft_transfers_cancel_request(weft_transfers_t *x, weft_remote_request_t *r); /* as of a fetch */

/* ---- shares ---- */

/* Enters `s`, with an id, as looking. Errors: what ended its step or run; s is the caller's. */
WEFT_MUST_CHECK weft_status_t *weft_transfers_enter_share(weft_transfers_t *x, weft_remote_share_t *s);
/* Parks `s`, which is then no longer the caller's: true. False: it was woken, or *out_why has ended it, and
 * it is still looking. A peer that has ended its step ends it unless its post has reached `awaited`. */
bool weft_transfers_park_share(weft_transfers_t *x, weft_remote_share_t *s, weft_post_state_t awaited,
                               weft_status_t **out_why);
/* The same, but `s` stays looking: true: its thread may sleep on *out_word, too, which changes when there is
 * something to look at. */
bool weft_transfers_watch_share(weft_transfers_t *x, weft_remote_share_t *s, weft_post_state_t awaited,
                                weft_watched_word_t *out_word, weft_status_t **out_why);
/* Wakes the share `id`. Not NULL: it was parked, and is the caller's, looking. */
weft_remote_share_t *weft_transfers_wake_share(weft_transfers_t *x, uint64_t id);
/* The share is cancelled. True: it was parked, and is the caller's, looking. */
bool weft_transfers_cancel_share(weft_transfers_t *x, weft_remote_share_t *s);
/* Takes `s`, which is looking, out of the table. */
void weft_transfers_leave_share(weft_transfers_t *x, weft_remote_share_t *s);

/* ---- many at once ---- */

/* Which ones: of a step, of a run in it, with a task, over a link; unset ones match all. */
typedef struct weft_transfer_filter {
  bool has_step;
  int64_t step_id;
  const char *run;
  weft_str_t task;
  uint64_t incarnation; /* of `task`: what is known to be with another process of it does not match */
  const weft_host_link_t *link;
  bool keep_inline;    /* arrivals that have their bytes */
  bool with_announced; /* also offers whose receiver may be reading; otherwise it says when it does not */
} weft_transfer_filter_t;

/* One peer has ended a step: what has come from it is good. */
static inline bool weft_transfer_filter_is_peers_step(const weft_transfer_filter_t *w) {
  return w->has_step && w->link != NULL;
}

typedef struct weft_transfer_list { /* taken; lists by `next` */
  weft_remote_offer_t *offers;
  weft_remote_fetch_t *fetches;
  weft_remote_request_t *requests;
  weft_remote_arrival_t *arrivals;
  weft_remote_share_t *shares; /* looking: in their table still */
} weft_transfer_list_t;
/* Shares that are looking get `why` (copied), or are woken, if it is one peer's step that has ended. */
void weft_transfers_take(weft_transfers_t *x, const weft_transfer_filter_t *w, const weft_status_t *why,
                         weft_transfer_list_t *out);
/* The canceller, retained, of one calling fetch that matches and was not returned before; it will report
 * `why` (copied). NULL: there is none. */
weft_canceller_t *weft_transfers_take_call(weft_transfers_t *x, const weft_transfer_filter_t *w,
                                           const weft_status_t *why);

/* Transfers of this step end with `why` from now on: all, or those of `run`; those with `task`, or all.
 * Consumes all. */
void weft_transfers_add_ended(weft_transfers_t *x, int64_t step_id, char *run, char *task,
                              weft_status_t *why);
/* Has this run ended before? */
bool weft_transfers_has_ended(weft_transfers_t *x, int64_t step_id, weft_str_t run);
/* The step begins, perhaps under the id of one that ended here: its transfers no longer end at once. What
 * ended a run, or the step at another task, stays. */
void weft_transfers_begin_step(weft_transfers_t *x, int64_t step_id);
/* The step is over; false: it had no transfers. */
bool weft_transfers_end_step(weft_transfers_t *x, int64_t step_id);

#endif /* WEFT_COLLECTIVES_REMOTE_TRANSFERS_H_ */
