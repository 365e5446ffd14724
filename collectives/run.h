/* collectives/run.h - one member's part in one collective while it goes on.
 *
 * A run goes through stages; each may start work that ends by callback, and the
 * next begins when none is outstanding:
 *
 *   group -> instance -> counts -> actions -> done
 *      \_________\__________\_________\-----> failed: everything outstanding ends, then done
 *
 * The first failure wins: it cancels what the run waits for and tells the others
 * (weft_transport_ops_t.fail). Whoever starts something holds a reference
 * until its callback has returned.
 *
 * Locking: `mu` is a leaf. One thread at a time drains the ready actions, so that a
 * completion that comes while an action is being started does not recurse.
 */
#ifndef WEFT_COLLECTIVES_RUN_H_
#define WEFT_COLLECTIVES_RUN_H_

#include "base/mutex.h"
#include "base/timer.h"
#include "collectives/plan.h"
#include "collectives/reduce.h"
#include "collectives/transport.h"

/* What must be equal on all ranks, and in repeated steps for what was learned to hold. Compared by bytes:
 * zeroed first. */
typedef struct weft_coll_signature {
  int64_t kind, dtype, reduction, is_mean, algorithm, root, group_size, is_uniform, details;
  int64_t rank_of_shape, dims[WEFT_MAX_DIMS];
} weft_coll_signature_t;

/* What is known of an instance since its first step. Owned by its group's entry. */
typedef struct weft_instance {
  struct weft_instance *next;
  int64_t key;
  int rank;
  bool is_source;
  weft_coll_signature_t signature;
  int source;
  weft_coll_plan_t *plan; /* NULL: none yet, or it depends on row counts */
  bool plan_owns_input;
} weft_instance_t;

/* What a run with a timeout does when its timer goes off. A run that takes long shows the others that it is
 * there; when its time is over it asks them for such signs, and a grace later it ends and names those who
 * gave none. */
typedef enum weft_patience {
  WEFT_PATIENCE_LEADER, /* the leader, which has a timeout of its own, did not answer: fails */
  WEFT_PATIENCE_FIRST,  /* shows itself */
  WEFT_PATIENCE_REST,   /* asks */
  WEFT_PATIENCE_GRACE,  /* fails */
} weft_patience_t;

typedef struct weft_coll_run weft_coll_run_t;
typedef struct weft_coll_transfer {
  weft_coll_run_t *run;
  int action; /* index; -1: beside the plan */
  int peer;
  size_t carried; /* bytes of an element whose other bytes have not come yet */
  size_t done;    /* elements reduced */
  unsigned char carry[16];
} weft_coll_transfer_t;

enum { WEFT_RUN_TEXT = 128, WEFT_KEY_TEXT = WEFT_RUN_TEXT + 64 };

struct weft_coll_run {
  atomic_int refs;
  weft_coll_run_t *next, *prev; /* guarded by the collectives' mu: all that go on */
  weft_collectives_t *owner;
  weft_transport_t *transport; /* borrowed */
  weft_thread_pool_t *pool;    /* borrowed */
  weft_timer_t *timer;         /* borrowed */
  weft_collective_t call;      /* texts and arrays in `arena` */
  weft_arena_t arena;
  weft_collective_done_fn *done;
  void *arg;
  weft_canceller_t *canceller; /* child of the caller's */
  uint64_t cancel_token;
  bool has_cancel;

  weft_mutex_t mu;
  weft_status_t *status; /* guarded by mu, as all of this paragraph: the first failure */
  bool has_failed, is_draining, is_finished;
  int stage, outstanding;
  int *ready, num_ready; /* actions that may start */
  int *pending;          /* per action: how many it still waits for */
  uint64_t timer_id;
  bool has_timer;
  weft_patience_t patience;
  int num_present; /* signs of presence on offer */
  bool is_probing;
  bool was_cached;         /* the leader was not asked for the instance */
  unsigned char *answered; /* per rank: has it answered the question for presence? */

  weft_group_t *group;            /* set by stage group */
  struct weft_group_entry *entry; /* of the owner's cache; retained */
  int rank, source;
  int agreed_source; /* part of all keys: who still follows another agreement is not taken for one of us; -1:
                        none, or not yet */
  weft_coll_signature_t signature;
  char run_text[WEFT_RUN_TEXT];
  size_t run_length;
  int64_t *counts_out, *counts_in; /* per rank: rows; in `arena` */
  weft_coll_plan_t *plan;
  weft_tensor_t *output;
  void *scratch;
  char *base[WEFT_PLAN_BUFFERS];
  weft_coll_transfer_t *transfers; /* one per action */
  weft_coll_transfer_t *extra;     /* 4 per rank: counts out and in, presence, question */
  weft_reduce_fn *reduce;
  weft_divide_fn *divide;
  size_t element;
  weft_canceller_t *probe_canceller;
};

weft_coll_run_t *weft_run_retain(weft_coll_run_t *r);
void weft_run_release(weft_coll_run_t *r);

/* Goes on with the run as far as it gets without waiting. */
void weft_run_advance(weft_coll_run_t *r);
/* Consumes `s` (not NULL). Does not advance. tells_peers: the others do not know it from elsewhere. */
void weft_collective_run_fail(weft_coll_run_t *r, weft_status_t *s, bool tells_peers);
/* Around everything that ends by callback: begin before it starts, end (consumes s) in the callback, as its
 * last act. */
void weft_run_begin(weft_coll_run_t *r);
void weft_run_end(weft_coll_run_t *r, weft_status_t *s);
/* Offers and fetches `bytes` per other rank under keys of kind `what`, beside the plan; counted as control.
 */
void weft_run_exchange(weft_coll_run_t *r, const void *out, void *in, size_t bytes);
/* (Re)starts the run's timer. */
WEFT_MUST_CHECK weft_status_t *weft_run_set_timeout(weft_coll_run_t *r, weft_patience_t part, int64_t ms);
/* The timeout begins: from now on the others' data is waited for. */
WEFT_MUST_CHECK weft_status_t *weft_run_expect_others(weft_coll_run_t *r);
/* Lets the actions of r->plan begin. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_run_start_actions(weft_coll_run_t *r);

/* collectives.c: the stages, in order; each may leave work outstanding. */
enum { WEFT_RUN_STAGES = 4 };
WEFT_MUST_CHECK weft_status_t *weft_run_stage(weft_coll_run_t *r, int stage);
void weft_run_finished(weft_coll_run_t *r); /* out of the owner's books; the last call for r */
/* The run failed: perhaps a member is another one by now. The next to use the group asks the leader again. */
void weft_run_forget_group(weft_coll_run_t *r);
/* A peer does something else than was agreed: asks the leader what. The run, which has failed, ends with the
 * answer. */
void weft_run_explain(weft_coll_run_t *r);

/* prepare.c */
WEFT_MUST_CHECK weft_status_t *weft_prepare_check(const weft_collective_t *call);
void weft_prepare_signature(const weft_collective_t *call, weft_coll_signature_t *out);
bool weft_prepare_has_counts(const weft_collective_t *call);
WEFT_MUST_CHECK weft_status_t *weft_prepare_counts(
    weft_coll_run_t *r); /* fills counts_out; starts the exchange */
WEFT_MUST_CHECK weft_status_t *weft_prepare_buffers(
    weft_coll_run_t *r); /* output; plan, if there is none yet; scratch */

#endif /* WEFT_COLLECTIVES_RUN_H_ */
