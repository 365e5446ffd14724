/* collectives/remote/transport_impl.h - what the files of the remote transport share; for them alone.
 *
 * An offer is in `offers` (waits for a RecvBuf, or for a fetch of this task) or in
 * `told` (its receiver was told over a link and reads it). A fetch is in `wants`
 * (waits for a link's message) or in `calls` (a RecvBuf in flight). `asked` holds
 * what others asked for by RecvBuf, `come` what links told and nobody wants yet.
 * Whoever takes an item out of its table, under mu, ends it; outside mu, because
 * callbacks may call us.
 *
 * Locking: `mu` is a leaf. Functions that end in _locked want it; others take it.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_TRANSPORT_IMPL_H_
#define WEFT_COLLECTIVES_REMOTE_TRANSPORT_IMPL_H_

#include "base/hash_map.h"
#include "base/mutex.h"
#include "collectives/group_table.h"
#include "collectives/remote/host_link.h"
#include "collectives/remote/link_costs.h"
#include "collectives/remote/remote_transport.h"

enum {
  WEFT_REMOTE_LOSSES = 64,
  WEFT_REMOTE_ENDINGS = 4096,
  WEFT_REMOTE_HINTS = 1024,
  WEFT_REMOTE_SCRATCH = 8,
  WEFT_REMOTE_POOL_BYTES = 64 << 10, /* less is moved at once, a closure for it would cost as much */
};

typedef struct weft_remote weft_remote_t;

typedef struct weft_remote_offer {
  struct weft_remote_offer *next; /* of a list of ended ones */
  int64_t step_id;
  char *name; /* owned, with the two below behind it */
  weft_str_t key, to_task;
  const void *data;
  size_t bytes;
  uint64_t id;            /* in `told` */
  weft_host_link_t *link; /* retained; of one that was told */
  weft_remote_t *t;       /* borrowed */
  weft_status_t *why;     /* owned; why it could not be told, until the cause is known */
  weft_transfer_done_fn *done;
  void *arg;
} weft_remote_offer_t;

typedef struct weft_remote_fetch {
  struct weft_remote_fetch *next;
  weft_remote_t *t;
  int64_t step_id;
  char *name;
  weft_str_t key, from_task, from_device, to_device;
  weft_fetch_t f;              /* texts as above */
  weft_canceller_t *canceller; /* retained; the asker's, or of a call: a child of it, owned */
  uint64_t token;
  bool is_waiting, is_cancelled; /* guarded by mu */
  weft_status_t *why;            /* guarded by mu: why its call was cancelled by us */
  weft_host_link_t *link;        /* retained: that the bytes come over */
  uint64_t id, address;          /* of the offer that it reads */
  int64_t began_ns;              /* of a call to another task, or of reading */
  size_t moved;                  /* bytes that were consumed; a second attempt goes on there */
  weft_transfer_done_fn *done;
  void *arg;
} weft_remote_fetch_t;

typedef struct weft_remote_come { /* told by a link, and not wanted yet */
  struct weft_remote_come *next;
  char *name;
  weft_str_t key;
  int64_t step_id;
  weft_host_link_t *link; /* retained */
  uint64_t id, address;
  size_t bytes;
  bool is_inline;
  char data[];
} weft_remote_come_t;

typedef struct weft_remote_asked { /* a RecvBuf that waits */
  struct weft_remote_asked *next;
  weft_remote_t *t;
  int64_t step_id;
  char *name;
  weft_str_t key;
  weft_canceller_t *canceller; /* retained */
  uint64_t token;
  bool is_waiting, is_cancelled; /* guarded by mu */
  weft_buf_fn *fn;
  void *arg;
} weft_remote_asked_t;

typedef struct weft_remote_ending {
  int64_t step_id;  /* 0: a free place */
  char *run, *task; /* owned; NULL: all runs; we ourselves */
  weft_status_t *why;
} weft_remote_ending_t;

/* A task that died and has not come again, as far as we know. */
typedef struct weft_remote_loss {
  weft_str_t task;      /* in the arena */
  weft_status_t *why;   /* NULL: a free place */
  uint64_t incarnation; /* 0: not known */
  int64_t at_ns;
  bool has_left; /* said so before: perhaps only because of another loss */
} weft_remote_loss_t;

struct weft_remote {
  weft_transport_t base;
  char *task; /* owned */
  uint64_t incarnation;
  weft_thread_pool_t *pool;
  weft_collective_peers_t peers;
  weft_host_links_t *links;
  weft_group_table_t *groups;
  weft_link_counters_t *counters;
  weft_link_costs_t costs;
  weft_mutex_t mu;
  weft_cond_t idle;           /* signalled when num_busy falls to 0 */
  int num_busy;               /* guarded by mu: fetches and calls that have not ended */
  int num_tellings;           /* guarded by mu: news that others have not taken yet */
  bool is_stopping;           /* guarded by mu */
  weft_canceller_t *tellings; /* owned */
  weft_status_t
      *failure; /* guarded by mu: why a group was UNAVAILABLE first; NULL: none was, or it has met again */
  uint64_t failed_group;                              /* guarded by mu: its key */
  int64_t failed_ns;                                  /* guarded by mu: when */
  weft_map_t offers, told, wants, calls, come, asked; /* guarded by mu */
  uint64_t next_id;                                   /* guarded by mu */
  weft_remote_ending_t endings[WEFT_REMOTE_ENDINGS];  /* guarded by mu: a ring */
  size_t next_ending;
  uint16_t hints[WEFT_REMOTE_HINTS];  /* guarded by mu: endings by the hash of their step: mostly 0 */
  int64_t last_step;                  /* guarded by mu: the last one that moved anything */
  weft_map_t steps;                   /* guarded by mu: steps that have moved something; values are 1 */
  void *scratch[WEFT_REMOTE_SCRATCH]; /* guarded by mu: blocks to read into */
  weft_remote_loss_t losses[WEFT_REMOTE_LOSSES]; /* guarded by mu: in the order in which they were known */
  weft_map_t seen;    /* guarded by mu: group key -> the group as it was last; retained */
  weft_arena_t arena; /* guarded by mu: names and hosts of tasks */
  weft_map_t hosts;   /* guarded by mu: task -> weft_remote_known_t, in the arena */
};

static inline weft_remote_t *weft_remote_of(weft_transport_t *t) { return (weft_remote_t *)(void *)t; }
static inline weft_status_t *weft_remote_no_memory(weft_str_t key) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for transferring '%.*s'", WEFT_STR_ARGS(key));
}

/* Where bytes come from: memory of ours, a call's answer, or a peer's memory. */
typedef struct weft_remote_source {
  const char *data;
  const weft_buf_t *buf;
  weft_host_link_t *link;
  uint64_t address;
} weft_remote_source_t;

/* Which ones: of a step, of a run in it, with a task, over a link; unset ones match all. */
typedef struct weft_remote_which {
  bool has_step;
  int64_t step_id;
  const char *run;
  weft_str_t task;
  const weft_host_link_t *link;
  bool keep_inline;
} weft_remote_which_t;

/* What is known of a task; in the arena: it stays. */
typedef struct weft_remote_known {
  weft_str_t host;
  uint64_t incarnation;
} weft_remote_known_t;

/* endings.c */

/* "step;to_device;key", and `more` behind its '\0'. *out_key and *out_more are views of it. NULL without
 * memory. */
char *weft_remote_name(int64_t step_id, weft_str_t to_device, weft_str_t key, weft_str_t more,
                       weft_str_t *out_key, weft_str_t *out_more);
bool weft_remote_is_in_run(weft_str_t key, const char *run); /* NULL: any run */
/* Why a transfer of this step and key cannot be: a copy, or NULL. `task`: whom it is with. */
weft_status_t *weft_remote_ended_locked(weft_remote_t *t, int64_t step_id, weft_str_t key, weft_str_t task)
    WEFT_REQUIRES(t->mu);
void weft_remote_add_ending(weft_remote_t *t, int64_t step_id, char *run, char *task,
                            weft_status_t *why); /* consumes all */
void weft_remote_mark_step_locked(weft_remote_t *t, int64_t step_id) WEFT_REQUIRES(t->mu);
/* Around a fetch: the transport is not destroyed meanwhile. */
void weft_remote_begin_locked(weft_remote_t *t, int64_t step_id) WEFT_REQUIRES(t->mu);
void weft_remote_end_busy(weft_remote_t *t);

/* matching.c */

/* Ends all that match here, but not what is being read: its reader will say so. */
void weft_remote_end_matching(weft_remote_t *t, const weft_remote_which_t *w, bool with_told,
                              const weft_status_t *why);
/* A run failed: ends it in this task. A second failure is ignored. */
void weft_remote_fail_here(weft_remote_t *t, int64_t step_id, weft_str_t run, const weft_status_t *why);
/* A link's `ended`. */
void weft_remote_ended(void *arg, weft_host_link_t *link, int64_t step_id, weft_str_t run,
                       weft_status_t *why);

/* moving.c */

void weft_remote_end_offer(weft_remote_offer_t *o, weft_status_t *status); /* consumes both */
/* Consumes both; the last use of f. is_in_cancel: its cancel callback does it, or none is registered. */
void weft_remote_end_fetch(weft_remote_fetch_t *f, weft_status_t *status, bool is_in_cancel);
weft_status_t *weft_remote_cancelled(weft_str_t key);
weft_status_t *weft_remote_check_bytes(const weft_remote_fetch_t *f, size_t bytes);
weft_status_t *weft_remote_move(weft_remote_fetch_t *f, const weft_remote_source_t *s);
/* The fetch has all its bytes: what it took is learned from. */
void weft_remote_learn(weft_remote_fetch_t *f, weft_way_t way);
weft_status_t *weft_remote_keep_locked(weft_map_t *map, weft_remote_fetch_t *f);

/* over_links.c; five of them are a link's callbacks */

void weft_remote_offered(void *arg, weft_host_link_t *link, const weft_host_offer_t *o);
void weft_remote_finished(void *arg, weft_host_link_t *link, uint64_t id);
void weft_remote_refused(void *arg, weft_host_link_t *link, uint64_t id);
void weft_remote_met(void *arg, double seconds);
void weft_remote_free_come(weft_remote_come_t *c, bool tell);
void weft_remote_want(weft_remote_t *t, weft_remote_fetch_t *f,
                      weft_host_link_t *link); /* takes the reference to link */

/* remote_transport.c */

/* Puts an offer where calls find it, or gives it to the one that waits; consumes it. */
void weft_remote_hold(weft_remote_t *t, weft_remote_offer_t *o);

/* over_calls.c */

/* Consume both: answers who asked, with an offer or without. */
void weft_remote_give(weft_remote_asked_t *a, weft_remote_offer_t *o);
void weft_remote_refuse(weft_remote_asked_t *a, weft_status_t *status, bool is_in_cancel);
void weft_remote_call_for(weft_remote_t *t, weft_remote_fetch_t *f, bool is_own);

/* telling.c */

/* Tells a task without a link that a run failed, as well as one can, without waiting. */
void weft_remote_tell_ended(weft_remote_t *t, weft_str_t task, int64_t step_id, weft_str_t run,
                            const weft_status_t *why);
/* Is the request such news? Then it was taken, and the answer is an empty buffer. */
bool weft_remote_take_news(weft_remote_t *t, const weft_buf_request_t *r);
/* Nothing is told any more; waits a moment for what is being told. */
void weft_remote_end_tellings(weft_remote_t *t);

/* tasks.c */

weft_str_t weft_remote_host_of(void *arg, weft_str_t task); /* lent */
void weft_remote_note_task(weft_remote_t *t, weft_str_t task, weft_str_t host, uint64_t incarnation);
uint64_t weft_remote_incarnation_of(weft_remote_t *t, weft_str_t task);
void weft_remote_note_loss(weft_remote_t *t, weft_str_t task, const weft_status_t *why, bool has_left);
bool weft_remote_is_lost(weft_remote_t *t, weft_str_t task);
/* Why a transfer with `task` may have ended with `status` (consumed): the death of another member of one of
 * its groups, or an earlier failure of such a group, if there was one; else `status`. */
weft_status_t *weft_remote_cause(weft_remote_t *t, weft_str_t task, weft_status_t *status);
void weft_remote_forget_loss(weft_remote_t *t, weft_str_t task);
/* A run of a group was UNAVAILABLE; the first time is kept until the group meets again. */
void weft_remote_note_failure(weft_remote_t *t, weft_str_t run, const weft_status_t *why);
/* Why we leave, if because of a failure: a copy, or NULL; *out_task: whose death, if it was one. */
weft_status_t *weft_remote_why_we_leave(weft_remote_t *t, weft_str_t *out_task);
/* A link's `broken`. */
void weft_remote_broken(void *arg, weft_host_link_t *link);
/* Why the group of this key broke first, as far as we know: a copy. Who is lost after that may only have
 * followed. */
weft_status_t *weft_remote_first_loss(weft_remote_t *t, int64_t key);
bool weft_remote_is_lost_lately(weft_remote_t *t, weft_str_t task);
/* Why a group that the leader gives cannot work: a member was lost a moment ago, and the leader has not heard
 * of it. A copy, or NULL. */
weft_status_t *weft_remote_loss_in(weft_remote_t *t, const weft_group_t *group);
void weft_remote_remember_group(weft_remote_t *t, weft_group_t *group);

/* groups.c */

void weft_remote_complete_group(weft_transport_t *base, const weft_group_request_t *r,
                                weft_canceller_t *canceller, weft_group_fn *fn, void *arg);
void weft_remote_complete_instance(weft_transport_t *base, const weft_instance_request_t *r,
                                   weft_canceller_t *canceller, weft_instance_fn *fn, void *arg);

#endif /* WEFT_COLLECTIVES_REMOTE_TRANSPORT_IMPL_H_ */
