/* coordinator/worker.c - a worker's thread: connects, builds what the worker has of its own, runs
 * calls.
 *
 * States of a worker, and what moves it:
 *
 *   lost --connect()--> ready --take a call or a value to build--> busy --end--> ready
 *    ^                    |                                          |
 *    |   the monitor: other process, silent (is_suspect)             |  judged to be lost
 *    +--------------------+------------------------------------------+
 *   and from any state back to lost when a parameter server is lost, because sessions know its old process.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "coordinator/impl.h"

enum { FIRST_PAUSE_MS = 25, LONGEST_PAUSE_MS = 250, CLOSE_TIMEOUT_MS = 2000 };

/* ---- connecting ---- */

/* Per-worker values are gone with the process. */
static void lose_values_locked(WEFT_Coordinator *c, const weft_co_worker_t *w) WEFT_REQUIRES(c->mu) {
  for (WEFT_PerWorker *p = c->per_workers; p != NULL; p = p->next) {
    weft_co_own_t *o = &p->own[w->index];
    if (o->state == WEFT_REMOTE_READY) o->state = WEFT_REMOTE_ABORTED;
    o->must_build = true;
  }
}

static void lose(weft_co_worker_t *w, const char *why) {
  WEFT_Coordinator *c = w->coordinator;
  weft_mutex_lock(&c->mu);
  w->is_lost = true;
  w->is_suspect = false;
  lose_values_locked(c, w);
  weft_mutex_unlock(&c->mu);
  weft_co_event(c, WEFT_EVENT_WORKER_LOST, w->index, "%s is lost: %s", w->task.name, why);
}

/* Asks until the task answers; false at the end. Reports it once in every recovery time. */
static bool wait_for_task(weft_co_worker_t *w, weft_co_task_t *t, uint64_t *incarnation) {
  WEFT_Coordinator *c = w->coordinator;
  int64_t deadline = weft_clock_ns() + c->recovery_ns, pause_ms = FIRST_PAUSE_MS;
  weft_co_answer_t answer;
  for (;;) {
    weft_co_probe(c, &t, 1, 2 * c->poll_ms, &answer);
    if (answer.came) break;
    if (!weft_co_pause(c, pause_ms)) return false;
    if (pause_ms < LONGEST_PAUSE_MS) pause_ms *= 2;
    if (weft_clock_ns() > deadline) {
      bool is_worker = t == &w->task;
      weft_status_t *s = WEFT_ERROR(UNAVAILABLE, "%s did not come up within %" PRId64 " s", t->name,
                                    c->recovery_ns / (1000 * WEFT_CO_NS_PER_MS));
      weft_co_fail(c, w->index, NULL, s, is_worker ? -1 : (int)(t - c->ps));
      deadline = weft_clock_ns() + c->recovery_ns;
    }
  }
  *incarnation = answer.incarnation;
  return true;
}

static bool wait_for_parameter_servers(weft_co_worker_t *w) {
  WEFT_Coordinator *c = w->coordinator;
  for (int i = 0; i < c->num_ps; i++) {
    uint64_t incarnation = 0;
    weft_mutex_lock(&c->mu);
    bool is_up = c->ps[i].incarnation != 0;
    weft_mutex_unlock(&c->mu);
    if (is_up) continue;
    if (!wait_for_task(w, &c->ps[i], &incarnation)) return false;
    weft_mutex_lock(&c->mu);
    if (c->ps[i].incarnation == 0) c->ps[i].incarnation = incarnation;
    weft_mutex_unlock(&c->mu);
  }
  return true;
}

static weft_status_t *make_clients(weft_co_worker_t *w, weft_master_client_t **master,
                                   weft_master_client_t **closer, weft_presence_t **presence) {
  weft_rpc_channel_t *channel = NULL;
  WEFT_RETURN_IF_ERROR(weft_rpc_channel_create(w->coordinator->rpc, weft_str(w->task.address), &channel));
  weft_rpc_channel_name_peer(channel, weft_str(w->task.name));
  weft_status_t *s = weft_remote_master_client_create_direct(channel, 0, master);
  if (s == NULL) s = weft_remote_master_client_create_direct(channel, CLOSE_TIMEOUT_MS, closer);
  if (s == NULL) s = weft_presence_start(*master, presence);
  weft_rpc_channel_release(channel);
  return s;
}

/* False at the end. */
static bool connect_worker(weft_co_worker_t *w) {
  WEFT_Coordinator *c = w->coordinator;
  weft_master_client_t *master = NULL, *closer = NULL, *old_master, *old_closer;
  weft_presence_t *presence = NULL;
  uint64_t incarnation = 0;
  for (;;) {
    if (!wait_for_task(w, &w->task, &incarnation) || !wait_for_parameter_servers(w)) return false;
    weft_status_t *s = make_clients(w, &master, &closer, &presence);
    if (s == NULL) break;
    weft_master_client_release(master);
    weft_master_client_release(closer);
    master = closer = NULL;
    weft_co_fail(c, w->index, NULL, s, -1);
    if (!weft_co_pause(c, LONGEST_PAUSE_MS)) return false;
  }
  weft_presence_stop(w->presence);
  w->presence = presence;
  weft_mutex_lock(&c->mu);
  old_master = w->master;
  old_closer = w->closer;
  w->master = master;
  w->closer = closer;
  w->generation++;
  if (w->task.incarnation != 0 && w->task.incarnation != incarnation) lose_values_locked(c, w);
  w->task.incarnation = incarnation;
  w->is_lost = w->is_suspect = false;
  for (int i = 0; i < c->num_ps; i++) {
    if (c->ps[i].incarnation == 0) w->is_lost = true; /* lost again meanwhile */
  }
  bool is_ready = !w->is_lost;
  weft_mutex_unlock(&c->mu);
  weft_master_client_release(old_master);
  weft_master_client_release(old_closer);
  if (is_ready) weft_co_event(c, WEFT_EVENT_WORKER_READY, w->index, "%s is ready", w->task.name);
  return true;
}

/* ---- doing something that can be cancelled ---- */

/* NULL: it is not to be begun; `*s` says why, or is NULL if that is because calls are being cancelled. */
static weft_canceller_t *begin(weft_co_worker_t *w, bool is_call, weft_status_t **s) {
  WEFT_Coordinator *c = w->coordinator;
  weft_canceller_t *fresh = weft_canceller_create(c->stop);
  *s = NULL;
  if (fresh == NULL) {
    *s = WEFT_NO_MEMORY("a call");
    return NULL;
  }
  weft_mutex_lock(&c->mu);
  bool is_dropped = c->is_stopping || (is_call && c->error != NULL);
  w->reason = is_dropped ? WEFT_CO_DROPPED : WEFT_CO_NONE;
  w->since_ns = weft_clock_ns();
  if (!is_dropped) w->current = fresh;
  weft_mutex_unlock(&c->mu);
  if (!is_dropped) return fresh;
  weft_canceller_release(fresh);
  return NULL;
}

static void end(weft_co_worker_t *w) {
  weft_mutex_lock(&w->coordinator->mu);
  weft_canceller_t *canceller = w->current;
  w->current = NULL;
  weft_mutex_unlock(&w->coordinator->mu);
  weft_canceller_release(canceller);
}

/* ---- calls ---- */

/* How many tensors a call may have here. */
static int room_for(const weft_co_worker_t *w, const weft_co_call_t *call) {
  int n = 0;
  for (int i = 0; i < call->num_args; i++) {
    const WEFT_PerWorker *p = call->args[i].per_worker;
    n += p == NULL ? 1 : p->maker != NULL ? p->own[w->index].num_outputs : WEFT_CO_MAX_ELEMENT;
  }
  return n;
}

static weft_status_t *gather(weft_co_worker_t *w, const weft_co_call_t *call, weft_tensor_t **tensors,
                             int max, int *n) {
  for (int i = 0; i < call->num_args; i++) {
    if (call->args[i].per_worker != NULL) {
      WEFT_RETURN_IF_ERROR(weft_per_worker_value(call->args[i].per_worker, w->index, tensors, max, n));
    } else {
      tensors[(*n)++] = weft_tensor_retain(call->args[i].tensor);
    }
  }
  return NULL;
}

static int64_t number_of(weft_co_worker_t *w, const weft_co_call_t *call) {
  WEFT_Coordinator *c = w->coordinator;
  if (c->effectively_once) return call->id;
  weft_mutex_lock(&c->mu);
  int64_t fresh = c->next_id++;
  weft_mutex_unlock(&c->mu);
  return fresh;
}

/* A call has failed; consumes both. */
static void settle(weft_co_worker_t *w, weft_co_call_t *call, weft_status_t *s) {
  WEFT_Coordinator *c = w->coordinator;
  int ps = -1;
  uint64_t ps_incarnation = 0;
  switch (weft_co_judge(w, s, &call->repeats, &ps, &ps_incarnation)) {
    case WEFT_CO_CANCELLED:
      weft_status_free(s);
      weft_co_cancel_call(c, call);
      return;
    case WEFT_CO_WORKER_LOST:
      lose(w, weft_status_message(s));
      weft_co_event(c, WEFT_EVENT_CLOSURE_PUT_BACK, w->index, "%s was lost in it", w->task.name);
      weft_status_free(s);
      weft_co_put_back(c, call);
      return;
    case WEFT_CO_PS_LOST: weft_co_ps_lost(c, w->index, ps, ps_incarnation, call, s); return;
    case WEFT_CO_TRANSIENT: {
      int64_t pause_ms = (int64_t)FIRST_PAUSE_MS << (call->repeats < 4 ? call->repeats : 4);
      weft_co_session_drop(w, call->closure);
      weft_co_event(c, WEFT_EVENT_CLOSURE_PUT_BACK, w->index, "%s", weft_status_message(s));
      weft_status_free(s);
      weft_co_put_back(c, call);
      (void)weft_co_pause(c, pause_ms); /* its end is seen by weft_co_next() */
      return;
    }
    case WEFT_CO_OWN: break;
  }
  weft_co_fail(c, w->index, call, s, -1);
}

static void run_call(weft_co_worker_t *w, weft_co_call_t *call) {
  WEFT_Coordinator *c = w->coordinator;
  const int room = room_for(w, call);
  weft_tensor_t **tensors = weft_calloc((size_t)room + 1, sizeof *tensors), **outputs = NULL;
  weft_status_t *s = NULL;
  int n = 0, num_outputs = 0;
  weft_canceller_t *canceller = begin(w, true, &s);
  bool is_dropped = canceller == NULL && s == NULL, is_own = true;
  if (s == NULL && tensors == NULL) s = WEFT_NO_MEMORY("a call");
  if (!is_dropped) weft_co_event(c, WEFT_EVENT_CLOSURE_STARTED, w->index, "call %" PRId64, call->id);
  if (!is_dropped && s == NULL) s = gather(w, call, tensors, room, &n);
  if (!is_dropped && s == NULL) {
    is_own = false;
    s = weft_co_session_run(w, call->closure, tensors, n, number_of(w, call), canceller, &outputs,
                            &num_outputs);
  }
  end(w);
  for (int i = 0; i < n; i++) weft_tensor_release(tensors[i]);
  weft_free(tensors);
  if (is_dropped) {
    weft_status_free(s);
    weft_co_cancel_call(c, call);
  } else if (s == NULL) {
    weft_remote_value_deliver(call->value, outputs, num_outputs); /* before it counts as ended */
    weft_co_event(c, WEFT_EVENT_CLOSURE_DONE, w->index, "call %" PRId64, call->id);
    weft_co_end_call(c, call);
  } else if (is_own) {
    weft_co_fail(c, w->index, call, s, -1);
  } else {
    settle(w, call, s);
  }
}

/* ---- per-worker values ---- */

static void set_state(weft_co_worker_t *w, WEFT_PerWorker *p, WEFT_RemoteState state, bool must_build) {
  weft_mutex_lock(&w->coordinator->mu);
  p->own[w->index].state = state;
  if (must_build) p->own[w->index].must_build = true;
  weft_mutex_unlock(&w->coordinator->mu);
}

/* Building has failed; consumes `s`. */
static void settle_value(weft_co_worker_t *w, WEFT_PerWorker *p, weft_status_t *s, int *repeats) {
  WEFT_Coordinator *c = w->coordinator;
  int ps = -1;
  uint64_t ps_incarnation = 0;
  switch (weft_co_judge(w, s, repeats, &ps, &ps_incarnation)) {
    case WEFT_CO_WORKER_LOST: lose(w, weft_status_message(s)); break; /* which says that it is to be built */
    case WEFT_CO_PS_LOST:
      set_state(w, p, WEFT_REMOTE_ABORTED, true);
      weft_co_ps_lost(c, w->index, ps, ps_incarnation, NULL, s);
      return;
    case WEFT_CO_CANCELLED: /* with calls: it is not one of them */
    case WEFT_CO_TRANSIENT:
      if (p->maker != NULL) weft_co_session_drop(w, p->maker);
      set_state(w, p, WEFT_REMOTE_ABORTED, true);
      (void)weft_co_pause(c, FIRST_PAUSE_MS);
      break;
    case WEFT_CO_OWN: /* told by the calls that need it */
      p->own[w->index].error = s;
      set_state(w, p, WEFT_REMOTE_ABORTED, false);
      return;
  }
  weft_status_free(s);
}

static void build_value(weft_co_worker_t *w, WEFT_PerWorker *p, int *repeats) {
  weft_status_t *s = NULL;
  weft_canceller_t *canceller = begin(w, false, &s);
  if (canceller != NULL) {
    weft_co_event(w->coordinator, WEFT_EVENT_RESOURCE_STARTED, w->index, "%s builds a per-worker value",
                  w->task.name);
    s = weft_per_worker_build(p, w, canceller);
    end(w);
    if (s == NULL) {
      *repeats = 0;
      set_state(w, p, WEFT_REMOTE_READY, false);
      weft_co_event(w->coordinator, WEFT_EVENT_RESOURCE_READY, w->index, "%s has built a per-worker value",
                    w->task.name);
    } else {
      settle_value(w, p, s, repeats);
    }
  } else if (s != NULL) {
    p->own[w->index].error = s;
    set_state(w, p, WEFT_REMOTE_ABORTED, false);
  }
  weft_per_worker_release(p);
}

/* ---- the thread ---- */

void *weft_co_worker_main(void *arg) {
  weft_co_worker_t *w = arg;
  WEFT_Coordinator *c = w->coordinator;
  char name[16];
  int repeats = 0;
  snprintf(name, sizeof name, "weft-co-w%d", w->index);
  pthread_setname_np(pthread_self(), name);
  for (bool goes_on = true; goes_on;) {
    weft_mutex_lock(&c->mu);
    bool is_lost = w->is_lost, is_suspect = w->is_suspect;
    weft_mutex_unlock(&c->mu);
    if (is_suspect && !is_lost) lose(w, "it is silent or was restarted");
    if (is_suspect || is_lost) {
      goes_on = connect_worker(w);
      continue;
    }
    weft_co_item_t item = weft_co_next(w);
    goes_on = !item.is_end;
    if (item.call != NULL) run_call(w, item.call);
    if (item.per_worker != NULL) build_value(w, item.per_worker, &repeats);
  }
  return NULL;
}
