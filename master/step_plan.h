/* master/step_plan.h - the plan of a step: a signature (feeds, fetches, targets) whose graph is partitioned
 * and whose parts are registered with workers.
 *
 *   1. created      by the first step that asks for it
 *   2. building     that step's thread builds and partitions the graph; all parts are registered at once
 *   3. ready/failed waiting steps continue or fail; a failed one is forgotten, so that the next try starts
 * afresh
 *   4. released     workers keep the parts until their session ends, as TensorFlow's do; those of a callable
 *                   that was released (is_dropped) they are told to drop
 */
#ifndef WEFT_MASTER_STEP_PLAN_H_
#define WEFT_MASTER_STEP_PLAN_H_

#include "base/mutex.h"
#include "master/client_graph.h"
#include "master/collective_members.h"
#include "worker/worker_client.h"

typedef struct weft_step_plan weft_step_plan_t; /* Thread-safe. Refcounted. */

/* Called once, when the signature is ready or has failed. Owns status. */
typedef void weft_step_plan_fn(void *arg, weft_status_t *status);

typedef struct weft_step_part {
  weft_worker_client_t *worker;      /* retained */
  weft_str_t graph_handle;           /* owned */
  bool is_client;                    /* feeds go in and fetches come out here */
  _Atomic(weft_kept_graph_t *) kept; /* the worker's; NULL: nothing */
} weft_step_part_t;

typedef struct weft_step_plan_waiter weft_step_plan_waiter_t;

struct weft_step_plan {
  atomic_int refs;
  weft_str_t session; /* owned */
  weft_arena_t arena; /* of names and keys; constant after creation */
  weft_str_t signature_text;
  weft_str_t *feeds, *feed_keys, *fetches, *fetch_keys, *targets;
  int num_feeds, num_fetches, num_targets;
  bool is_partial;
  int64_t timeout_ms; /* of a callable's own options */
  int trace_level;
  bool output_partition_graphs;
  int64_t collective_graph_key;
  weft_collective_members_t members; /* `missing` in the arena; constant once ready */
  weft_step_part_t *parts;           /* constant once ready */
  int num_parts;
  atomic_int pending; /* registrations to come */
  weft_mutex_t mu;
  int state;                        /* guarded by mu: 0 building, 1 ready, 2 failed */
  weft_status_t *status;            /* guarded by mu: the failure */
  weft_step_plan_waiter_t *waiters; /* guarded by mu */
  atomic_bool is_dropped;           /* set before the last release, in an open session */
  atomic_bool is_ready;             /* set after everything else, for the fast path */
};

WEFT_MUST_CHECK weft_status_t *weft_step_plan_create(weft_str_t session, const weft_signature_t *signature,
                                                     const weft_session_device_t *client, bool is_partial,
                                                     weft_step_plan_t **out);
weft_step_plan_t *weft_step_plan_retain(weft_step_plan_t *p);
void weft_step_plan_release(weft_step_plan_t *p); /* NULL is fine */
/* Are these its feeds, fetches and targets, in this order? */
bool weft_step_plan_is_of(const weft_step_plan_t *p, const weft_signature_t *s);
/* Workers are to drop what they keep of the parts for later steps. No step of the plan runs, or will. */
void weft_step_plan_forget(weft_step_plan_t *p);
/* The key of a signature: its bytes differ for different lists of names. */
void weft_signature_print(const weft_signature_t *s, bool is_partial, weft_strbuf_t *out);

typedef struct weft_step_plan_options {
  const weft_graph_t *graph; /* placed; read only */
  const weft_signature_t *signature;
  const weft_device_set_t *devices;
  const weft_kernel_support_t *kernels;
  const weft_pass_settings_t *passes;
  const weft_evaluator_t *evaluator; /* NULL: none */
  weft_worker_client_t *const *workers;
  int num_workers;
  int64_t *next_edge; /* of this call alone */
} weft_step_plan_options_t;

/* Builds the graph, partitions it and registers the parts; called once, by the creator. The state is set on
 * the thread that ends last. */
void weft_step_plan_build(weft_step_plan_t *p, const weft_step_plan_options_t *o);
/* Calls fn when `p` is no longer being built: at once if it is ready. `c` (may be NULL) ends the wait with
 * CANCELLED. */
void weft_step_plan_wait(weft_step_plan_t *p, weft_canceller_t *c, weft_step_plan_fn *fn, void *arg);

/* Sends CleanupGraph to the worker of a part, or to those of all parts. */
void weft_step_plan_cleanup_part(weft_step_part_t *p, int64_t step_id);
void weft_step_plan_cleanup_step(weft_step_plan_t *p, int64_t step_id);

#endif /* WEFT_MASTER_STEP_PLAN_H_ */
