/* tests/collectives/local_hub_impl.h - what the files of the hub share; for them alone.
 *
 * From bottom to top: local_model.c, local_matching.c, local_hub.c, local_transport.c.
 *
 * Each task has a table of transfers by (step, key). A transfer has an offer, a fetch, or both: then it is
 * under way (in the hub's heap, with a link model) or held by a partition. The thread that takes a transfer
 * out of its table under the lock ends it, after giving the lock back.
 *
 * Locking: one lock for the tables of all tasks and the model, because a transfer belongs to two tasks and
 * its time to both of their links. `mu` is a leaf. Transfers are allocated before it is taken.
 */
#ifndef WEFT_TESTS_COLLECTIVES_LOCAL_HUB_IMPL_H_
#define WEFT_TESTS_COLLECTIVES_LOCAL_HUB_IMPL_H_

#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/timer.h"
#include "collectives/group_table.h"
#include "tests/collectives/local_transport.h"

enum { WEFT_LOCAL_STEPS_KEPT = 64 }; /* ended steps that are remembered for later transfers */

typedef struct weft_local_task weft_local_task_t;
typedef struct weft_local_transfer {
  atomic_int refs; /* the table's or the taking thread's; the canceller's; the heap's */
  struct weft_local_transfer *next, *prev; /* all transfers of the task */
  weft_local_task_t *owner;                /* that offers */
  weft_local_hub_t *hub;
  char *key;                 /* "step;key", in the same block */
  size_t key_length, key_at; /* where the key begins, after the step */
  int64_t step_id;
  bool is_in_table; /* guarded by mu */
  /* the offer */
  bool has_offer;
  const char *data;
  size_t bytes;
  weft_transfer_done_fn *offer_done;
  void *offer_arg;
  weft_local_task_t *offer_to;
  /* the fetch */
  bool has_fetch;
  weft_local_task_t *fetcher;
  weft_fetch_t fetch; /* texts: not kept */
  weft_transfer_done_fn *fetch_done;
  void *fetch_arg;
  weft_canceller_t *canceller;
  uint64_t cancel_token;
  bool has_cancel;
  /* under way */
  bool is_due, is_held, was_fetched;
  int64_t due_ns;
  uint64_t order;
} weft_local_transfer_t;

typedef struct weft_local_failed_run {
  struct weft_local_failed_run *next;
  int64_t step_id;
  char *run;
  size_t run_length;
  weft_status_t *why;
} weft_local_failed_run_t;

typedef struct weft_local_ended_step {
  int64_t step_id;
  weft_status_t *why; /* NULL: no such */
} weft_local_ended_step_t;

typedef struct weft_local_transport {
  weft_transport_t base;
  weft_local_hub_t *hub;
  weft_local_task_t *task;
} weft_local_transport_t;

struct weft_local_task {
  weft_local_task_t *next;
  char *name, *host;
  uint64_t incarnation;
  weft_status_t *lost; /* why; NULL while alive */
  weft_map_t transfers;
  weft_local_transfer_t *first;
  weft_local_failed_run_t *failed;
  weft_local_ended_step_t ended[WEFT_LOCAL_STEPS_KEPT];
  int next_ended;
  int64_t sends_until, receives_until; /* ns of the model's time */
};

typedef struct weft_local_link_rule {
  struct weft_local_link_rule *next;
  char *from, *to;
  weft_link_model_t model;
} weft_local_link_rule_t;

struct weft_local_hub {
  weft_mutex_t mu;
  weft_local_task_t *tasks;      /* guarded by mu, as all below; tasks live as long as the hub */
  weft_local_link_rule_t *rules; /* newest first */
  bool has_virtual_time;
  int64_t now_ns;
  uint64_t next_order, random;
  weft_local_transfer_t **heap;
  int num_heap, max_heap;
  int num_transfers;
  weft_timer_t *timer;
  weft_group_table_t *table;
  weft_link_counters_t *counters;
};

/* local_model.c: the link model; knows neither offers nor fetches. */

/* NULL: no model. With h->mu. */
const weft_link_model_t *weft_local_model_of(const weft_local_hub_t *h, weft_str_t from, weft_str_t to);
double weft_local_message_s(const weft_link_model_t *m, size_t bytes);
/* Makes room in the heap for every transfer there is. */
bool weft_local_reserve_locked(weft_local_hub_t *h) WEFT_REQUIRES(h->mu);
/* Both sides are there. False: no model applies, deliver it at once. Otherwise it is under way or held by a
 * partition; *sent: how many times the message was sent. */
bool weft_local_depart_locked(weft_local_hub_t *h, weft_local_transfer_t *p, int *sent) WEFT_REQUIRES(h->mu);
/* Takes the first transfer that is due off the heap, with the heap's reference; NULL if none is due. In
 * virtual time the clock advances to it. */
weft_local_transfer_t *weft_local_pop_due_locked(weft_local_hub_t *h) WEFT_REQUIRES(h->mu);

/* local_matching.c */

weft_local_task_t *weft_local_find_task(weft_local_hub_t *h, weft_str_t name); /* with h->mu */
void weft_local_release(weft_local_transfer_t *p);                             /* NULL is fine */
/* Takes a transfer out of its table; the table's reference is the caller's now. */
void weft_local_take_locked(weft_local_hub_t *h, weft_local_transfer_t *p) WEFT_REQUIRES(h->mu);
/* Ends a list of taken transfers, linked by `next`, with `why` (copied; NULL: success) and releases them. */
void weft_local_end_all(weft_local_transfer_t *list, const weft_status_t *why);
void weft_local_deliver(weft_local_transfer_t *p); /* taken, with both sides */
/* Sends a transfer with both sides; false: no model applies, the caller takes and delivers it. */
bool weft_local_start_locked(weft_local_hub_t *h, weft_local_transfer_t *p) WEFT_REQUIRES(h->mu);
bool weft_local_is_of_run(const weft_local_transfer_t *p, int64_t step_id, weft_str_t run);
void weft_local_offer(weft_transport_t *base, int64_t step_id, weft_str_t key, weft_str_t to_task,
                      weft_str_t to_device, const void *data, size_t bytes, bool is_kept,
                      weft_transfer_done_fn *done, void *arg);
void weft_local_fetch(weft_transport_t *base, const weft_fetch_t *f, weft_canceller_t *canceller,
                      weft_transfer_done_fn *done, void *arg);

/* local_hub.c */

double weft_local_hub_cost(void *arg, weft_str_t from, weft_str_t to, size_t bytes);

#endif /* WEFT_TESTS_COLLECTIVES_LOCAL_HUB_IMPL_H_ */
