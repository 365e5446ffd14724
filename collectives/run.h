/* collectives/run.h - one member's part in one collective while it goes on.
 *
 * A run goes through the stages of its owner (collectives.c has the table); each may start work that ends by
 * callback, and the next begins when none is outstanding:
 *
 *   join group --> agree on instance --> exchange counts --> move data --> ended
 *        \_______________\___________________\__________________\--> failed --explain--> ended
 *
 * Data of few bytes moves by posts, if all members are on one host (run_posts.c).
 * Of a call with a place, "move data" is: all members at once, where they are of one task and the place can
 * do that; those of each task jointly, where the places of all tasks can; else bring the input to the host,
 * move data, bring the output back.
 *
 *   begin    before work starts that ends by callback: weft_coll_run_begin
 *   end      in that callback, as its last act: weft_coll_run_end; with a status: failed
 *   advance  the next stage, or the end: weft_coll_run_advance, called by end
 *   fail     from outside, a canceller or a loss: weft_coll_run_fail, then advance
 *
 * The first failure wins: it cancels what the run waits for and tells the other members
 * (weft_transport_ops_t.fail). All outstanding work ends before the run does. Work that is under way holds a
 * reference until its callback has returned.
 *
 * Files, each using only those named before it: run_transfer.c (keys, offers, fetches), run.c (the states),
 * run_watchdog.c (timeouts), then the stages: run_by_name.c, run_join.c, run_agreement.c, run_counts.c,
 * run_buffers.c, run_together.c, run_jointly.c, run_places.c, run_posts.c and run_actions.c.
 *
 * Locking: `mu` is a leaf.
 */
#ifndef WEFT_COLLECTIVES_RUN_H_
#define WEFT_COLLECTIVES_RUN_H_

#include <pthread.h>

#include "base/mutex.h"
#include "base/timer.h"
#include "collectives/group_cache.h"
#include "collectives/joints.h"
#include "collectives/meetings.h"
#include "collectives/plan.h"
#include "collectives/reduce.h"
#include "collectives/transport.h"

/* What a run with a timeout does when its timer goes off. A run that takes long offers signs of presence to
 * the other ranks; when its time is over it asks them for theirs, and a grace period later it fails and names
 * the ranks that gave none. */
typedef enum weft_watchdog_stage {
  WEFT_WATCHDOG_LEADER, /* the leader, which has a timeout of its own, did not answer: fails */
  WEFT_WATCHDOG_OFFER,  /* offers signs of presence */
  WEFT_WATCHDOG_ASK,    /* asks the other ranks for theirs */
  WEFT_WATCHDOG_FAIL,   /* fails */
} weft_watchdog_stage_t;

typedef struct weft_coll_run weft_coll_run_t;

/* One stage; may leave work outstanding. A status fails the run. */
typedef weft_status_t *weft_coll_stage_fn(weft_coll_run_t *r);
/* The owner of a run: what it goes through, and its end. */
typedef struct weft_coll_run_ops {
  weft_coll_stage_fn *const *stages;
  int num_stages;
  void (*explain)(weft_coll_run_t *r); /* it has failed and nothing is outstanding; may begin work */
  void (*ended)(weft_coll_run_t *r);   /* `done` has returned; the last call for r */
} weft_coll_run_ops_t;

typedef struct weft_coll_transfer {
  weft_coll_run_t *run;
  int action; /* index; -1: beside the plan */
  int peer;
  size_t carried; /* bytes of an element whose other bytes have not arrived yet */
  size_t done;    /* elements reduced */
  unsigned char carry[16];
} weft_coll_transfer_t;

enum { WEFT_RUN_TEXT = 128, WEFT_KEY_TEXT = WEFT_RUN_TEXT + 64 };

struct weft_coll_run {
  atomic_int refs;
  weft_coll_run_t *next, *prev; /* of the owner's list; guarded by its lock */
  weft_collectives_t *owner;
  const weft_coll_run_ops_t *ops;
  weft_transport_t *transport; /* borrowed, as the three below */
  weft_thread_pool_t *pool;
  weft_timer_t *timer;
  weft_group_cache_t *groups;
  weft_meetings_t *meetings;
  weft_joints_t *joints;
  weft_collective_t call; /* texts and arrays in `arena` */
  weft_arena_t arena;
  pthread_t caller; /* the thread that has begun it */
  weft_collective_done_fn *done;
  void *arg;
  weft_canceller_t *canceller; /* child of the caller's */
  uint64_t cancel_token;
  bool has_cancel;

  weft_mutex_t mu;
  weft_status_t *status; /* guarded by mu, as all of this paragraph: the first failure */
  bool has_failed, is_explained, is_advancing, is_finished;
  int stage, outstanding;
  bool is_posting; /* its data moves by posts, or has done so: the transport knows whether all of it is there,
                      so the loss of a member does not end the run */
  weft_status_t *loss;   /* such a loss, the first one; owned */
  bool is_starting;      /* a thread starts the ready actions */
  int *ready, num_ready; /* actions that may start */
  int *pending;          /* per action: how many it still waits for */
  uint64_t timer_id;
  bool has_timer;
  weft_watchdog_stage_t watchdog;
  int num_present; /* signs of presence on offer */
  bool is_probing;
  bool was_cached;         /* the leader was not asked for the instance */
  unsigned char *answered; /* per rank: has it answered the question for presence? */

  weft_group_t *group;         /* set by the first stage */
  weft_cached_group_t *cached; /* retained */
  int rank, source;
  int agreed_source; /* part of all keys: members on a different agreement are not mistaken for one's own; -1:
                        none, or not yet */
  weft_coll_signature_t signature;
  char run_text[WEFT_RUN_TEXT];
  size_t run_length;
  int64_t *counts_out, *counts_in; /* per rank: rows; in `arena` */
  weft_coll_plan_t *plan;
  weft_tensor_t *output;
  weft_tensor_t *placed_input; /* of a call with a place: its input there; call.input is a copy in the host's
                                  memory, once there is one */
  bool takes_placed_input;     /* as the call said; call.takes_input is of that copy */
  bool is_together;            /* all members are done at once, at their places */
  bool is_posted;              /* its data has moved by posts */
  void *scratch;
  char *base[WEFT_PLAN_BUFFERS];
  weft_coll_transfer_t *transfers; /* one per action */
  weft_coll_transfer_t *extra;     /* 4 per rank: counts out and in, presence, question */
  weft_reduce_fn *reduce;
  weft_divide_fn *divide;
  size_t element;
  weft_canceller_t *probe_canceller;
};

/* run_transfer.c */

/* A run of a group's members has failed: `run` is its name, or begins it. group NULL: told here alone. */
void weft_coll_run_tell(const weft_coll_run_t *r, weft_str_t run, const weft_group_t *group,
                        const weft_status_t *why);

/* run.c */

weft_coll_run_t *weft_coll_run_retain(weft_coll_run_t *r);
void weft_coll_run_release(weft_coll_run_t *r);
/* Goes on with the run as far as it gets without waiting. */
void weft_coll_run_advance(weft_coll_run_t *r);
/* Consumes `s` (not NULL). Does not advance. tells_peers: the other members do not know it from elsewhere. */
void weft_coll_run_fail(weft_coll_run_t *r, weft_status_t *s, bool tells_peers);
/* A member is lost: the run fails with `s` (consumed). A run that is posting fails only if its transport
 * cannot end it well. Does not advance. */
void weft_coll_run_lose(weft_coll_run_t *r, weft_status_t *s);
void weft_coll_run_begin(weft_coll_run_t *r);
void weft_coll_run_end(weft_coll_run_t *r, weft_status_t *s); /* consumes s */

/* run_transfer.c */

/* Writes the name of a run: of its group, instance, iteration and signature; returns its length. */
size_t weft_coll_run_name(const weft_coll_run_t *r, const weft_coll_signature_t *signature, char *text,
                          size_t size);
weft_str_t weft_coll_run_key(const weft_coll_run_t *r, char *text, const char *what, int pass, int field,
                             int source, int destination);
/* A part of the run: what ends the run, or what was agreed, ends it, too. */
weft_str_t weft_coll_run_part(const weft_coll_run_t *r, char *text, const char *what);
void weft_coll_run_offer(weft_coll_run_t *r, weft_str_t key, int peer, const void *data, size_t bytes,
                         bool is_kept, weft_transfer_done_fn *fn, void *arg);
weft_fetch_t weft_coll_run_fetch_from(const weft_coll_run_t *r, weft_str_t key, int peer, size_t bytes);
/* Makes r->extra and r->answered. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_make_extra(weft_coll_run_t *r);
weft_str_t weft_coll_run_presence_key(const weft_coll_run_t *r, char *text, int source, int destination);
/* Ends the signs of presence that no rank has asked for. */
void weft_coll_run_withdraw_presence(weft_coll_run_t *r);

/* run_watchdog.c */

/* (Re)starts the run's timer. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_set_timeout(weft_coll_run_t *r, weft_watchdog_stage_t stage,
                                                         int64_t ms);
/* The timeout begins: from now on the run waits for the data of the other ranks. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_watch_others(weft_coll_run_t *r);

/* The stages and their parts. */

/* run_by_name.c: of a call with a shared name, the group and what it does. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_join_by_name(weft_coll_run_t *r);
/* run_join.c: the group, from the cache or from the leader, or by its shared name. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_join_group(weft_coll_run_t *r);
/* run_agreement.c: what all ranks do in an instance. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_agree(weft_coll_run_t *r);
/* A peer does something else than was agreed: asks the leader what. The run, which has failed, ends with the
 * answer. */
void weft_coll_run_explain(weft_coll_run_t *r);
void weft_coll_run_keep_plan(weft_coll_run_t *r);
/* run_counts.c: how many rows each rank has. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_exchange_counts(weft_coll_run_t *r);
/* Sizes and shapes of a call (run_buffers.c). */
typedef struct weft_coll_layout {
  weft_shape_t out_shape;
  bool has_output;
  size_t *out_bounds, *in_bounds; /* owned; n+1: byte offsets of the ranks' blocks. NULL without rows */
  size_t bytes;                   /* of what is moved or reduced, for the choice */
} weft_coll_layout_t;

/* run_together.c: of a call with a place, all members at once if they can. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_together(weft_coll_run_t *r);
void weft_coll_run_left(void *run, weft_status_t *why); /* a weft_meeting_left_fn */
/* Is it of a kind that places do by themselves? As all ranks know. */
bool weft_coll_run_is_for_places(const weft_coll_run_t *r);
/* Makes r->output at the place. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_make_output_there(weft_coll_run_t *r,
                                                               const weft_coll_layout_t *l);
/* In elements; NULL for kinds without. The caller frees it. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_element_bounds(const weft_coll_run_t *r,
                                                            const weft_coll_layout_t *l, int64_t **out);
/* The places have done it; else it goes by way of the host. */
void weft_coll_run_end_there(weft_coll_run_t *r, bool is_done);
/* run_jointly.c: the same where members are of several tasks. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_jointly(weft_coll_run_t *r);
/* run_places.c: of a call with a place, the input in the host's memory, and the output back. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_bring_input(weft_coll_run_t *r);
WEFT_MUST_CHECK weft_status_t *weft_coll_run_return_output(weft_coll_run_t *r);
/* run_posts.c: of few bytes within a host. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_post(weft_coll_run_t *r);
/* run_buffers.c: sizes and shapes; the output; then plan if there is none yet, and scratch. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_lay_out(weft_coll_run_t *r, weft_coll_layout_t *out);
void weft_coll_layout_deinit(weft_coll_layout_t *l);
WEFT_MUST_CHECK weft_status_t *weft_coll_run_make_output(weft_coll_run_t *r, const weft_coll_layout_t *l);
WEFT_MUST_CHECK weft_status_t *weft_coll_run_make_buffers(weft_coll_run_t *r);
/* run_actions.c: lets the actions of r->plan begin. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_coll_run_start_actions(weft_coll_run_t *r);

#endif /* WEFT_COLLECTIVES_RUN_H_ */
