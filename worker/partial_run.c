/* worker/partial_run.c - a step that is fed and fetched piece by piece.
 *
 * The first RunGraph starts the plan; every one adds its feeds and waits for
 * its fetches; the last one also waits for the plan. A plan that fails aborts
 * the rendezvous, and so every call that waits.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "worker/worker_impl.h"

/* One RunGraph call. `left` counts fetches to come, plus one for the call itself and one for the plan if it
 * is the last. */
typedef struct weft_partial_piece {
  weft_worker_t *worker;
  weft_worker_step_t *step;
  weft_canceller_t *canceller;
  uint64_t cancel_token;
  bool is_linked;
  weft_run_graph_fn *fn;
  void *arg;
  atomic_int left;
  weft_mutex_t mu;
  weft_status_t *status; /* guarded by mu; the first failure */
  const weft_str_t *keys;
  int num_recvs;
  weft_tensor_t *recvs[];
} piece_t;

typedef struct piece_fetch {
  piece_t *piece;
  int index;
} piece_fetch_t;

static void fail(piece_t *p, weft_status_t *status) {
  weft_mutex_lock(&p->mu);
  bool first = p->status == NULL;
  if (first) p->status = status;
  weft_mutex_unlock(&p->mu);
  if (!first) weft_status_free(status);
}

static void drop(piece_t *p) {
  if (atomic_fetch_sub(&p->left, 1) != 1) return;
  if (p->is_linked) weft_canceller_deregister(p->canceller, p->cancel_token);
  weft_status_t *status = p->status;
  weft_run_graph_result_t result = {.recvs = p->recvs, .num_recvs = p->num_recvs};
  if (status != NULL) {
    for (int i = 0; i < p->num_recvs; i++) weft_tensor_release(p->recvs[i]);
  }
  weft_worker_t *w = p->worker;
  status = weft_worker_blame_stop(w, status);
  /* The caller is gone or has cancelled the run: its CleanupGraph may never come, or may have come already.
   */
  if (weft_canceller_is_cancelled(p->canceller)) weft_step_table_cleanup(&w->steps, p->step->id);
  p->fn(p->arg, status, status == NULL ? &result : NULL);
  weft_canceller_release(p->canceller);
  weft_worker_step_release(p->step);
  weft_mutex_deinit(&p->mu);
  weft_free(p);
  weft_worker_end_run(w);
}

static void fetched(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  piece_fetch_t *f = arg;
  piece_t *p = f->piece;
  p->recvs[f->index] = tensor;
  if (status == NULL && is_dead) {
    status = WEFT_ERROR(INVALID_ARGUMENT, "The tensor returned for %.*s was not valid.",
                        WEFT_STR_ARGS(p->keys[f->index]));
  }
  if (status != NULL) fail(p, status);
  weft_free(f);
  drop(p);
}

static void plan_done(void *arg, weft_status_t *status) {
  weft_worker_step_t *step = arg;
  weft_mutex_lock(&step->mu);
  weft_partial_run_t *run = step->partial;
  piece_t *last = run->last;
  run->is_done = true;
  run->status = last == NULL ? status : NULL;
  run->last = NULL;
  weft_mutex_unlock(&step->mu);
  weft_worker_t *worker = run->worker;
  if (status != NULL) weft_collectives_end_step(worker->collectives, step->id, status);
  if (last != NULL) {
    if (status != NULL) fail(last, status);
    drop(last);
  }
  weft_worker_step_release(step);
  weft_worker_end_run(worker);
}

static void cancel_step(void *arg) { weft_canceller_cancel(((piece_t *)arg)->step->canceller); }

static void run_free(weft_partial_run_t *p) {
  weft_status_free(p->status);
  weft_registered_graph_release(p->graph);
  weft_worker_release_session(p->worker, p->session);
  weft_free(p);
}

/* Starts the plan at the first call. Consumes session and graph. */
static weft_status_t *start(weft_worker_t *worker, weft_worker_step_t *step, weft_worker_session_t *session,
                            weft_registered_graph_t *graph) {
  weft_partial_run_t *run = weft_calloc(1, sizeof *run);
  if (run == NULL) {
    weft_registered_graph_release(graph);
    weft_worker_release_session(worker, session);
    return WEFT_NO_MEMORY("partial run %" PRId64, step->id);
  }
  run->free = run_free;
  run->worker = worker;
  run->session = session;
  run->graph = graph;
  weft_mutex_lock(&step->mu);
  bool mine = step->partial == NULL;
  if (mine) step->partial = run;
  weft_mutex_unlock(&step->mu);
  if (!mine) {
    run_free(run);
    return NULL;
  }
  weft_run_options_t options = {.step = {.id = step->id,
                                         .rendezvous = step->rendezvous,
                                         .canceller = step->canceller,
                                         .container = step->container,
                                         .collectives = worker->collectives,
                                         .negotiators = worker->negotiators}};
  atomic_fetch_add_explicit(&step->refs, 1, memory_order_relaxed); /* plan_done gives it back */
  weft_worker_also_run(worker);
  weft_plan_run(graph->plan, &options, plan_done, step);
  return NULL;
}

static void wait_for_plan(piece_t *p) {
  weft_mutex_lock(&p->step->mu);
  weft_partial_run_t *run = p->step->partial;
  weft_status_t *status = NULL;
  bool is_done = run == NULL || run->is_done;
  if (!is_done) {
    atomic_fetch_add(&p->left, 1);
    run->last = p;
  } else if (run != NULL) {
    status = run->status;
    run->status = NULL;
  }
  weft_mutex_unlock(&p->step->mu);
  if (status != NULL) fail(p, status);
}

void weft_worker_run_partial(weft_worker_t *w, weft_worker_session_t *session, weft_registered_graph_t *graph,
                             weft_worker_step_t *step, const weft_run_graph_t *run,
                             weft_canceller_t *canceller, weft_run_graph_fn *fn, void *arg) {
  weft_status_t *status = start(w, step, session, graph);
  piece_t *p =
      status != NULL ? NULL : weft_calloc(1, sizeof *p + (size_t)run->num_recvs * sizeof(weft_tensor_t *));
  if (status == NULL && p == NULL) status = WEFT_NO_MEMORY("partial run %" PRId64, step->id);
  if (status != NULL) {
    weft_worker_step_release(step);
    fn(arg, status, NULL);
    weft_worker_end_run(w);
    return;
  }
  weft_mutex_init(&p->mu);
  atomic_init(&p->left, 1);
  p->worker = w;
  p->step = step;
  p->canceller = weft_canceller_retain(canceller);
  p->fn = fn;
  p->arg = arg;
  p->keys = run->recv_keys;
  p->num_recvs = run->num_recvs;
  if (canceller != NULL) {
    p->is_linked = weft_canceller_register(canceller, cancel_step, p, &p->cancel_token);
    if (!p->is_linked && weft_canceller_is_cancelled(canceller)) {
      weft_canceller_cancel(step->canceller);
    } else if (!p->is_linked) {
      fail(p, WEFT_NO_MEMORY("partial run %" PRId64, step->id));
    }
  }
  for (int i = 0; i < run->num_recvs; i++) {
    piece_fetch_t *f = weft_calloc(1, sizeof *f);
    if (f == NULL) {
      fail(p, WEFT_NO_MEMORY("partial run %" PRId64, step->id));
      break;
    }
    *f = (piece_fetch_t){p, i};
    atomic_fetch_add(&p->left, 1);
    weft_remote_rendezvous_recv_local(step->rendezvous, weft_key(run->recv_keys[i]), step->canceller, fetched,
                                      f);
  }
  if (run->is_last_partial) wait_for_plan(p);
  drop(p);
}
