/* collectives/negotiated/controller.h - the inside of a negotiator, shared by the files of this folder.
 *
 * Locking: `mu` guards the queue and is a leaf. The rest is confined to the negotiator's thread.
 */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_CONTROLLER_H_
#define WEFT_COLLECTIVES_NEGOTIATED_CONTROLLER_H_

#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/name_list.h"
#include "base/thread_pool.h"
#include "collectives/negotiated/negotiated.h"
#include "collectives/negotiated/response_cache.h"

typedef struct weft_pending {
  struct weft_pending *next, *prev; /* in the order of submission; guarded by mu */
  char *texts;                      /* owned: name and group */
  weft_named_request_t request;
  weft_tensor_t *input;
  weft_named_done_fn *done;
  void *arg;
  int64_t since_ns;
  bool is_told; /* the other members know of the request; guarded by mu, as those below */
  bool is_new;  /* is sent to the other members in this cycle */
  bool is_hit;
  int position; /* in the cache; -1: nowhere */
} weft_pending_t;

struct weft_negotiator {
  weft_negotiator_options_t o; /* texts and arrays are ours */
  weft_arena_t arena;
  weft_thread_pool_t *thread; /* one */
  weft_canceller_t *canceller;
  weft_mutex_t mu;
  weft_cond_t wake, ended;
  weft_pending_t *queue, *last; /* guarded by mu, as all of this paragraph */
  weft_map_t by_hash;           /* name and process set -> one of the queue that has that number */
  int num_twins;                /* ever: names that had the number of another; there are none */
  bool wants_end, is_over;
  weft_status_t *failure; /* why it is over */
  weft_negotiator_stats_t stats;
  /* confined */
  weft_negotiation_t *negotiation;
  weft_response_cache_t *cache;
  int64_t cycle, execution;
  bool has_stalled;         /* for so long that all members end */
  weft_name_list_t stalled; /* ranks, and the tensors they have not announced */
};

/* set_collective.c: one collective over all members of set `set`, of which this one must be a member; waits.
 * *out: owned; NULL if none. */
WEFT_MUST_CHECK weft_status_t *weft_negotiator_run(weft_negotiator_t *n, int set, weft_collective_t *call,
                                                   weft_tensor_t **out);
/* This rank's place in a set; -1: none. */
int weft_negotiator_index(const weft_negotiator_t *n, int set);
/* queue.c: takes the request out of the queue; NULL if this rank has not made it. */
weft_pending_t *weft_negotiator_take(weft_negotiator_t *n, const weft_named_request_t *r);
/* Calls p's done and frees p. Consumes status and output. */
void weft_pending_end(weft_pending_t *p, weft_status_t *status, weft_tensor_t *output);

/* execute.c: carries out responses in order; failures of tensors go to their requests. Errors: of the
 * group: it is over. */
WEFT_MUST_CHECK weft_status_t *weft_negotiator_execute(weft_negotiator_t *n,
                                                       const weft_named_response_t *responses, int num);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_CONTROLLER_H_ */
