/* coordinator/queue.c - calls that wait, and how many are in flight.
 *
 * Invariant: while an error waits to be reported the queue is empty and nothing is
 * handed out, so that reporting it has only to wait for what is in flight, and that
 * has been cancelled.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "coordinator/impl.h"

static weft_status_t *cancelled(void) {
  return WEFT_ERROR(CANCELLED,
                    "The call was cancelled because another one failed or the coordinator has ended. Please "
                    "schedule it again.");
}

void weft_co_call_free(weft_co_call_t *call) {
  if (call == NULL) return;
  for (int i = 0; i < call->num_args; i++) {
    weft_tensor_release(call->args[i].tensor);
    weft_per_worker_release(call->args[i].per_worker);
  }
  weft_closure_release(call->closure);
  weft_remote_value_release(call->value);
  weft_free(call);
}

/* Everything of a list ends with CANCELLED. */
static void cancel_list(weft_co_call_t *first) {
  while (first != NULL) {
    weft_co_call_t *call = first;
    first = call->next;
    weft_remote_value_fail(call->value, cancelled());
    weft_co_call_free(call);
  }
}

static weft_co_call_t *take_all_locked(WEFT_Coordinator *c) WEFT_REQUIRES(c->mu) {
  weft_co_call_t *first = c->first;
  c->first = c->last = NULL;
  c->num_queued = 0;
  weft_cond_broadcast(&c->room);
  return first;
}

static void leave_flight_locked(WEFT_Coordinator *c) WEFT_REQUIRES(c->mu) {
  c->num_inflight--;
  c->num_ended++;
  c->progress_ns = weft_clock_ns();
  if (c->num_inflight == 0) weft_cond_broadcast(&c->ended);
}

/* ---- for callers ---- */

weft_status_t *weft_co_take_error_locked(WEFT_Coordinator *c, int *error_ps) {
  if (c->error == NULL) return NULL;
  while (c->num_inflight > 0)
    weft_cond_wait(&c->ended, &c->mu); /* they have been cancelled: leave_flight_locked() */
  weft_status_t *s = c->error;
  *error_ps = c->error_ps;
  c->error = NULL;
  c->error_ps = -1;
  weft_cond_broadcast(&c->work);
  weft_cond_broadcast(&c->room);
  return s;
}

weft_status_t *weft_co_put(WEFT_Coordinator *c, weft_co_call_t *call, int *error_ps) {
  weft_mutex_lock(&c->mu);
  /* Woken when a call is taken out, a join ends, an error comes, or at the end. */
  while (!c->is_stopping && c->error == NULL && (c->num_joining > 0 || c->num_queued >= c->queue_capacity)) {
    weft_cond_wait(&c->room, &c->mu);
  }
  weft_status_t *s = weft_co_take_error_locked(c, error_ps);
  bool is_stopping = c->is_stopping;
  if (s == NULL && !is_stopping) {
    call->id = c->next_id++;
    call->next = NULL;
    if (c->first == NULL)
      c->first = call;
    else
      c->last->next = call;
    c->last = call;
    if (c->num_queued++ == 0 && c->num_inflight == 0) c->progress_ns = weft_clock_ns();
    weft_cond_signal(&c->work);
  }
  weft_mutex_unlock(&c->mu);
  if (s == NULL && is_stopping) s = WEFT_ERROR(CANCELLED, "the coordinator has ended");
  return s;
}

/* ---- for workers ---- */

/* The first per-worker value that this worker has to build. */
static WEFT_PerWorker *to_build_locked(WEFT_Coordinator *c, const weft_co_worker_t *w) WEFT_REQUIRES(c->mu) {
  for (WEFT_PerWorker *p = c->per_workers; p != NULL; p = p->next) {
    if (p->own[w->index].must_build) return p;
  }
  return NULL;
}

weft_co_item_t weft_co_next(weft_co_worker_t *w) {
  WEFT_Coordinator *c = w->coordinator;
  weft_co_item_t item = {0};
  weft_mutex_lock(&c->mu);
  for (;;) {
    item.is_end = c->is_stopping;
    if (item.is_end || w->is_lost || w->is_suspect) break;
    item.per_worker = to_build_locked(c, w);
    if (item.per_worker != NULL) {
      item.per_worker->refs++;
      item.per_worker->own[w->index].must_build = false;
      break;
    }
    if (c->error == NULL && c->first != NULL) {
      item.call = c->first;
      c->first = item.call->next;
      if (c->first == NULL) c->last = NULL;
      item.call->next = NULL;
      c->num_queued--;
      c->num_inflight++;
      if (c->num_queued < c->queue_capacity) weft_cond_signal(&c->room);
      break;
    }
    weft_cond_wait(&c->work, &c->mu); /* woken by new calls, values to build, the monitor, the end */
  }
  if (item.is_end || (item.call == NULL && c->first != NULL))
    weft_cond_signal(&c->work); /* was it meant for others? */
  weft_mutex_unlock(&c->mu);
  return item;
}

void weft_co_end_call(WEFT_Coordinator *c, weft_co_call_t *call) {
  weft_co_call_free(call); /* first: once a join has returned, the program may delete what the call held */
  weft_mutex_lock(&c->mu);
  leave_flight_locked(c);
  weft_mutex_unlock(&c->mu);
}

void weft_co_cancel_call(WEFT_Coordinator *c, weft_co_call_t *call) {
  weft_remote_value_fail(call->value, cancelled());
  weft_co_end_call(c, call);
}

void weft_co_put_back(WEFT_Coordinator *c, weft_co_call_t *call) {
  weft_mutex_lock(&c->mu);
  bool is_over = c->error != NULL || c->is_stopping;
  if (!is_over) { /* also when the queue is full: it had its place there */
    call->next = c->first;
    c->first = call;
    if (c->last == NULL) c->last = call;
    c->num_queued++;
    c->num_inflight--;
    weft_cond_signal(&c->work);
  }
  weft_mutex_unlock(&c->mu);
  if (is_over) weft_co_cancel_call(c, call);
}

static void drop_locked(WEFT_Coordinator *c, int i, weft_canceller_t **out) WEFT_REQUIRES(c->mu) {
  weft_co_worker_t *w = &c->workers[i];
  if (w->current == NULL) return;
  w->reason = WEFT_CO_DROPPED;
  *out = weft_canceller_retain(w->current);
}

void weft_co_fail(WEFT_Coordinator *c, int worker, weft_co_call_t *call, weft_status_t *status, int ps) {
  char text[512]; /* a copy: a thread that reports the status frees it */
  snprintf(text, sizeof text, "%s", weft_status_message(status));
  weft_co_call_t *queued = NULL;
  weft_canceller_t **running = weft_calloc((size_t)c->num_workers, sizeof *running);
  if (call != NULL) weft_remote_value_fail(call->value, weft_status_clone(status));
  weft_mutex_lock(&c->mu);
  bool is_first = c->error == NULL;
  if (is_first) {
    c->error = status;
    c->error_ps = ps;
    queued = take_all_locked(c);
    if (call == NULL) c->num_inflight++; /* the failure is reported only after the queued calls have ended */
    for (int i = 0; running != NULL && i < c->num_workers; i++) drop_locked(c, i, &running[i]);
  }
  weft_mutex_unlock(&c->mu);
  if (!is_first) weft_status_free(status);
  for (int i = 0; running != NULL && i < c->num_workers; i++) {
    if (running[i] != NULL) weft_canceller_cancel(running[i]);
    weft_canceller_release(running[i]);
  }
  weft_free(running);
  cancel_list(queued);
  /* Order: the error is set before the event is sent, and the event is sent before a join returns. */
  if (ps >= 0 && is_first)
    weft_co_event(c, WEFT_EVENT_PS_LOST, worker, "%s", text);
  else if (call != NULL)
    weft_co_event(c, WEFT_EVENT_CLOSURE_FAILED, worker, "%s", text);
  weft_co_call_free(call);
  weft_mutex_lock(&c->mu);
  if (call != NULL || is_first) leave_flight_locked(c);
  weft_cond_broadcast(&c->ended);
  weft_cond_broadcast(&c->room);
  weft_mutex_unlock(&c->mu);
}

void weft_co_drop_queue(WEFT_Coordinator *c) {
  weft_mutex_lock(&c->mu);
  weft_co_call_t *queued = take_all_locked(c);
  weft_mutex_unlock(&c->mu);
  cancel_list(queued);
}
