/* worker/step.h - a step as one worker sees it: its rendezvous, its canceller, its resources.
 *
 * A step begins at whichever comes first, RunGraph or a peer's RecvTensor, and
 * ends with CleanupGraph, or by itself. It is found by its id.
 *
 *   1. weft_step_table_get      made on first use; the table holds one reference
 *   2. RunGraph runs a plan on it; peers receive from its rendezvous
 *   3. weft_step_table_cleanup  out of the table; receives that still wait get ABORTED "Cleanup <id>".
 *                               weft_step_table_end_when_empty: the same, once its peers have received all
 *   4. the last reference goes  when no plan runs and no receive waits any more; a step that has used neither
 *                               rendezvous nor resources is kept for another one
 */
#ifndef WEFT_WORKER_STEP_H_
#define WEFT_WORKER_STEP_H_

#include "base/mutex.h"
#include "kernels/kernel.h"
#include "rendezvous/remote/remote_rendezvous.h"
#include "worker/session.h"

typedef struct weft_worker_step weft_worker_step_t;

/* The plan of a step that is fed and fetched piece by piece (worker/partial_run.c). The step's mu guards what
 * changes. */
typedef struct weft_partial_run {
  bool is_done;
  weft_status_t *status;           /* of the plan; owned; valid once done */
  struct weft_partial_piece *last; /* the call that waits for the plan, or NULL */
  weft_worker_session_t *session;
  weft_registered_graph_t *graph;
  struct weft_worker *worker;               /* the plan counts as one of its runs */
  void (*free)(struct weft_partial_run *p); /* partial_run.c's */
} weft_partial_run_t;

struct weft_worker_step { /* Thread-safe. Refcounted. */
  atomic_int refs;
  struct weft_step_table *table; /* borrowed */
  weft_worker_step_t *next_free; /* guarded by the table's mu */
  int64_t id;
  weft_rendezvous_t *rendezvous;
  weft_canceller_t *canceller; /* of everything in the step */
  weft_step_container_t *container;
  atomic_bool was_run;      /* a RunGraph came: CleanupGraph will follow, or the step ends itself */
  atomic_bool ends_itself;  /* the step ends when its rendezvous is empty */
  atomic_int waiting_peers; /* RecvTensor calls in progress */
  weft_mutex_t mu;
  bool is_moved;               /* guarded by mu: see weft_worker_step_move */
  weft_partial_run_t *partial; /* guarded by mu; owned; NULL unless a partial run goes on */
};

typedef struct weft_step_table { /* Thread-safe. */
  weft_mutex_t mu;
  weft_map_t steps;         /* guarded by mu: id -> weft_worker_step_t (one reference) */
  bool stopped;             /* guarded by mu */
  weft_worker_step_t *free; /* guarded by mu; steps that used nothing, for later ones */
  int num_free;             /* guarded by mu */
  weft_str_t task;          /* borrowed from the worker */
  weft_tensor_source_t source;
} weft_step_table_t;

void weft_step_table_init(weft_step_table_t *t, weft_str_t task, weft_tensor_source_t source);
void weft_step_table_deinit(weft_step_table_t *t); /* all steps must have been released */
/* Finds or makes the step; *out is retained. Errors: RESOURCE_EXHAUSTED; UNAVAILABLE after a stop. */
WEFT_MUST_CHECK weft_status_t *weft_step_table_get(weft_step_table_t *t, int64_t id,
                                                   weft_worker_step_t **out);
/* The step runs for a session with a cluster of its own: from now on the step is the task `task`'s, and
 * fetches from the tasks that `cache` (borrowed) knows. Call it before anything runs; again is fine. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_worker_step_move(weft_worker_step_t *s, weft_str_t task,
                                                     weft_worker_cache_t *cache);
/* NULL if unknown; else retained. */
weft_worker_step_t *weft_step_table_find(weft_step_table_t *t, int64_t id);
void weft_step_table_cleanup(weft_step_table_t *t, int64_t id);
/* The step's plan has ended well: the step ends as by a cleanup, now or when its peers have received all that
 * lies in its rendezvous. Every tensor that it sent is received, as the step is whole. */
void weft_step_table_end_when_empty(weft_step_table_t *t, weft_worker_step_t *s);
size_t weft_step_table_count(weft_step_table_t *t);
/* Appends the ids, int64_t in a row, of the steps that a RunGraph came for. */
void weft_step_table_list_run(weft_step_table_t *t, weft_strbuf_t *out);
/* A peer's receive ended: forgets a step that only peers ever asked for. */
void weft_step_table_peer_done(weft_step_table_t *t, weft_worker_step_t *s);
void weft_step_table_stop(weft_step_table_t *t); /* cancels all; later ones are refused */

void weft_worker_step_release(weft_worker_step_t *s); /* NULL is fine */

#endif /* WEFT_WORKER_STEP_H_ */
