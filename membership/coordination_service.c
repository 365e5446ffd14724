/* membership/coordination_service.c - the cluster state, and the watches that wait for it to change.
 *
 * A watch belongs to the list while it is linked; the thread that unlinks it under `mu` ends it, as in
 * store.c.
 *
 * Locking: `mu` guards the state and the list; it is a leaf.
 */
#include "membership/coordination_service.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"

typedef struct member_entry {
  weft_member_state_t state;
  uint64_t incarnation, secret; /* of the process that is known */
  char peer[64];                /* where its last beat came from; empty: not known */
  int64_t beat_ns;
  bool has_left;
  uint64_t losses, lost_service; /* of this incarnation: how often it was lost, and how often it reports that
                                    it lost this service */
} member_entry_t;

/* No epoch that a task reports moves the state further than this. */
#define MAX_EPOCH ((uint64_t)1 << 62)

enum { OBSERVER = -1 }; /* the member of a watch by a caller that is not one */

typedef enum watch_end { NOT_ENDED, BY_CHANGE, BY_CANCELLER, BY_DEADLINE, BY_STOP, BY_REFUSAL } watch_end_t;

typedef struct state_watch {
  struct state_watch *prev, *next;
  weft_coordination_t *service;
  int member;
  uint64_t incarnation;
  weft_cluster_state_fn *fn;
  void *arg;
  weft_canceller_t *canceller; /* retained; may be NULL */
  uint64_t token, timer_id;
  bool has_token, is_linked;
  bool is_presence;       /* no change answers it */
  watch_end_t early;      /* guarded by mu: what came before it was linked */
  weft_status_t *refusal; /* of BY_REFUSAL; owned */
  weft_member_t *answer;  /* room for the cluster state; behind the struct */
} state_watch_t;

struct weft_coordination {
  weft_coordination_options_t o;
  weft_store_t *store; /* owned */
  weft_mutex_t mu;
  member_entry_t *entries; /* guarded by mu, with all that follows */
  uint64_t epoch;
  state_watch_t *watches;
  int64_t sweep_ns;    /* the last sweep */
  int64_t refused_ns;  /* when a refusal was last logged */
  int64_t num_refused; /* since then */
  bool stopped;
};

weft_status_t *weft_coordination_create(const weft_coordination_options_t *o, weft_coordination_t **out) {
  weft_coordination_t *c = weft_calloc(1, sizeof *c);
  member_entry_t *entries = weft_calloc((size_t)o->num_tasks + 1, sizeof *entries);
  weft_store_t *store = NULL;
  weft_status_t *s = NULL;
  if (c == NULL || entries == NULL) s = WEFT_NO_MEMORY("the state of a cluster of %d tasks", o->num_tasks);
  if (s == NULL) s = weft_store_create(o->timer, &store);
  if (s != NULL) {
    weft_free(entries);
    weft_free(c);
    return s;
  }
  *c = (weft_coordination_t){.o = *o, .store = store, .entries = entries, .epoch = 1};
  weft_mutex_init(&c->mu);
  entries[o->own] =
      (member_entry_t){.state = WEFT_MEMBER_ALIVE, .incarnation = o->incarnation, .secret = o->secret};
  *out = c;
  return NULL;
}

weft_store_t *weft_coordination_store(weft_coordination_t *c) { return c->store; }

/* ---- watches ---- */

static void unlink_watch(weft_coordination_t *c, state_watch_t *w) WEFT_REQUIRES(c->mu) {
  if (w->prev != NULL) w->prev->next = w->next;
  if (w->prev == NULL) c->watches = w->next;
  if (w->next != NULL) w->next->prev = w->prev;
  w->prev = w->next = NULL;
  w->is_linked = false;
}

static state_watch_t *take(weft_coordination_t *c, bool also_presences) WEFT_REQUIRES(c->mu) {
  state_watch_t *taken = NULL, *next;
  for (state_watch_t *w = c->watches; w != NULL; w = next) {
    next = w->next;
    if (w->is_presence && !also_presences) continue;
    unlink_watch(c, w);
    w->next = taken;
    taken = w;
  }
  return taken;
}

static state_watch_t *take_watches(weft_coordination_t *c) WEFT_REQUIRES(c->mu) { return take(c, false); }

static uint64_t copy_state(weft_coordination_t *c, weft_member_t *out) {
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&c->mu);
  uint64_t epoch = c->epoch;
  for (int i = 0; i < c->o.num_tasks; i++) {
    const member_entry_t *r = &c->entries[i];
    int64_t silent = r->state == WEFT_MEMBER_UNKNOWN || i == c->o.own ? 0 : (now - r->beat_ns) / 1000000;
    out[i] = (weft_member_t){c->o.tasks[i], r->incarnation, r->state, silent, r->losses, r->has_left};
  }
  weft_mutex_unlock(&c->mu);
  return epoch;
}

/* Ends a watch that is not linked. `inside`: the callback that this is called from; it is not deregistered.
 */
static void end_watch(state_watch_t *w, watch_end_t cause, watch_end_t inside) {
  weft_coordination_t *c = w->service;
  if (w->has_token && inside != BY_CANCELLER) weft_canceller_deregister(w->canceller, w->token);
  if (inside != BY_DEADLINE) weft_timer_remove(c->o.timer, w->timer_id);
  if (cause == BY_REFUSAL) {
    w->fn(w->arg, w->refusal, 0, NULL, 0);
  } else if (cause == BY_STOP) {
    w->fn(w->arg, WEFT_ERROR(UNAVAILABLE, "%.*s is shutting down", WEFT_STR_ARGS(c->o.tasks[c->o.own])), 0,
          NULL, 0);
  } else if (cause == BY_CANCELLER) {
    w->fn(w->arg,
          WEFT_ERROR(CANCELLED, "the watch of %.*s ended",
                     WEFT_STR_ARGS(w->member == OBSERVER ? WEFT_STR("an observer") : c->o.tasks[w->member])),
          0, NULL, 0);
  } else {
    uint64_t epoch = copy_state(c, w->answer);
    w->fn(w->arg, NULL, epoch, w->answer, c->o.num_tasks);
  }
  weft_canceller_release(w->canceller);
  weft_free(w);
}

static void end_watches(state_watch_t *taken, watch_end_t cause) {
  while (taken != NULL) {
    state_watch_t *next = taken->next;
    taken->prev = taken->next = NULL;
    end_watch(taken, cause, NOT_ENDED);
    taken = next;
  }
}

/* ---- the cluster state ---- */

static weft_status_t *find_member(const weft_coordination_t *c, weft_str_t task, int *out) {
  for (int i = 0; i < c->o.num_tasks; i++) {
    if (!weft_str_eq(c->o.tasks[i], task)) continue;
    *out = i;
    return NULL;
  }
  return WEFT_ERROR(NOT_FOUND, "%.*s is no task of the cluster of %.*s", WEFT_STR_ARGS(task),
                    WEFT_STR_ARGS(c->o.tasks[c->o.own]));
}

static bool is_same_process(const member_entry_t *r, const weft_coordination_caller_t *caller) {
  return r->incarnation == caller->incarnation && r->secret == caller->secret;
}

/* Whether the caller may call as this task. The text is made without the lock: see refusal(). */
typedef enum caller_verdict { MAY, HAS_LEFT, IS_ANOTHER } caller_verdict_t;
static caller_verdict_t judge_locked(const weft_coordination_t *c, int i,
                                     const weft_coordination_caller_t *caller) WEFT_REQUIRES(c->mu) {
  if (i == OBSERVER) return MAY;
  const member_entry_t *r = &c->entries[i];
  if (is_same_process(r, caller))
    return r->has_left && i != c->o.own ? HAS_LEFT
                                        : MAY; /* a call that was under way when the process was shut down */
  if (caller->is_leaving) return IS_ANOTHER;
  return r->state == WEFT_MEMBER_ALIVE || i == c->o.own ? IS_ANOTHER : MAY;
}

/* The answer to a caller that may not call as task `i`. Logged now and then, as any process can send such
 * calls. */
static weft_status_t *refusal(weft_coordination_t *c, int i, const weft_coordination_caller_t *caller,
                              caller_verdict_t verdict) {
  enum { LOG_EVERY_S = 10 };
  char peer[sizeof c->entries[i].peer];
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&c->mu);
  const member_entry_t r = c->entries[i];
  c->num_refused++;
  bool logs = c->refused_ns == 0 || now - c->refused_ns > LOG_EVERY_S * INT64_C(1000000000);
  int64_t n = c->num_refused;
  if (logs) c->refused_ns = now;
  if (logs) c->num_refused = 0;
  weft_mutex_unlock(&c->mu);
  snprintf(peer, sizeof peer, "%s",
           i == c->o.own || r.peer[0] == '\0' ? "the process that hosts the coordination service" : r.peer);
  if (verdict == HAS_LEFT) return WEFT_ERROR(ABORTED, "%.*s was shut down", WEFT_STR_ARGS(c->o.tasks[i]));
  if (logs) {
    weft_log(WEFT_LOG_WARNING,
             "a call from %.*s as %.*s is refused, as the task is alive as another process, %s (%" PRId64
             " such calls)",
             WEFT_STR_ARGS(caller->peer.length == 0 ? WEFT_STR("this process") : caller->peer),
             WEFT_STR_ARGS(c->o.tasks[i]), peer, n);
  }
  return WEFT_ERROR(ABORTED, "%.*s is alive as another process: %s, last heard of %" PRId64 " ms ago",
                    WEFT_STR_ARGS(c->o.tasks[i]), peer, i == c->o.own ? 0 : (now - r.beat_ns) / 1000000);
}

/* True if the cluster state has changed: then the watches are to be answered. */
static bool beat_locked(weft_coordination_t *c, int i, const weft_coordination_caller_t *caller)
    WEFT_REQUIRES(c->mu) {
  if (i == OBSERVER) return false;
  member_entry_t *r = &c->entries[i];
  uint64_t epoch =
      caller->epoch == WEFT_COORDINATION_PRESENCE || caller->epoch > MAX_EPOCH ? 0 : caller->epoch;
  bool is_new = !is_same_process(r, caller),
       was_lost_for_it = !is_new && caller->lost_service > r->lost_service;
  bool has_changed = r->state != WEFT_MEMBER_ALIVE || is_new || epoch > c->epoch || was_lost_for_it;
  *r = (member_entry_t){.state = WEFT_MEMBER_ALIVE,
                        .incarnation = caller->incarnation,
                        .secret = caller->secret,
                        .beat_ns = weft_clock_ns(),
                        .losses = is_new ? 0 : r->losses + (was_lost_for_it && r->state == WEFT_MEMBER_ALIVE),
                        .lost_service = caller->lost_service};
  snprintf(r->peer, sizeof r->peer, "%.*s", WEFT_STR_ARGS(caller->peer));
  if (!has_changed) return false;
  if (epoch > c->epoch)
    c->epoch = epoch; /* this process was restarted: the epoch continues from what the tasks have seen */
  c->epoch++;
  return true;
}

static bool lose_locked(weft_coordination_t *c, int i, uint64_t incarnation) WEFT_REQUIRES(c->mu) {
  if (i == OBSERVER) return false;
  member_entry_t *r = &c->entries[i];
  if (i == c->o.own || r->state != WEFT_MEMBER_ALIVE || r->incarnation != incarnation) return false;
  r->state = WEFT_MEMBER_LOST;
  r->losses++;
  c->epoch++;
  return true;
}

static bool leave_locked(weft_coordination_t *c, int i, uint64_t incarnation) WEFT_REQUIRES(c->mu) {
  if (!lose_locked(c, i, incarnation)) return false;
  c->entries[i].has_left = true;
  c->entries[i].losses--; /* it is shut down, not lost: no loss is counted */
  return true;
}

weft_status_t *weft_coordination_beat(weft_coordination_t *c, const weft_coordination_caller_t *caller,
                                      uint64_t *out_epoch) {
  int i = 0;
  state_watch_t *taken = NULL;
  WEFT_RETURN_IF_ERROR(find_member(c, caller->task, &i));
  weft_mutex_lock(&c->mu);
  caller_verdict_t verdict = judge_locked(c, i, caller);
  bool has_changed =
      verdict == MAY && i != c->o.own &&
      (caller->is_leaving ? leave_locked(c, i, caller->incarnation) : beat_locked(c, i, caller));
  if (has_changed) taken = take_watches(c);
  *out_epoch = c->epoch;
  weft_mutex_unlock(&c->mu);
  end_watches(taken, BY_CHANGE);
  return verdict == MAY ? NULL : refusal(c, i, caller, verdict);
}

void weft_coordination_sweep(weft_coordination_t *c) {
  state_watch_t *taken = NULL;
  bool has_changed = false;
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&c->mu);
  int64_t gap = c->sweep_ns == 0 ? 0 : now - c->sweep_ns;
  bool was_stopped =
      gap > c->o.lost_after_ms * 1000000 / 2; /* this process was stopped or starved, not its peers */
  c->sweep_ns = now;
  for (int i = 0; c->o.lost_after_ms > 0 && i < c->o.num_tasks; i++) {
    member_entry_t *r = &c->entries[i];
    if (was_stopped) r->beat_ns += gap;
    if (now - r->beat_ns > c->o.lost_after_ms * 1000000 && lose_locked(c, i, r->incarnation))
      has_changed = true;
  }
  if (has_changed) taken = take_watches(c);
  weft_mutex_unlock(&c->mu);
  end_watches(taken, BY_CHANGE);
}

/* ---- watching ---- */

/* The canceller's or the timer's callback. A task whose watch breaks off is lost. */
static void end_one(state_watch_t *w, watch_end_t cause) {
  weft_coordination_t *c = w->service;
  state_watch_t *taken = NULL;
  weft_mutex_lock(&c->mu);
  bool is_mine = w->is_linked;
  if (is_mine) unlink_watch(c, w);
  if (!is_mine && w->early == NOT_ENDED) w->early = cause;
  if (is_mine && cause == BY_CANCELLER && lose_locked(c, w->member, w->incarnation)) taken = take_watches(c);
  weft_mutex_unlock(&c->mu);
  if (is_mine) end_watch(w, cause, cause);
  end_watches(taken, BY_CHANGE);
}

static void on_cancel(void *arg) { end_one(arg, BY_CANCELLER); }
static void on_deadline(void *arg) { end_one(arg, BY_DEADLINE); }

/* Registers a watch's callbacks. Until it is linked they only set `early`. */
static weft_status_t *register_watch(state_watch_t *w, int64_t timeout_ms) {
  weft_coordination_t *c = w->service;
  if (timeout_ms < 0 || timeout_ms > INT32_MAX) timeout_ms = INT32_MAX;
  WEFT_RETURN_IF_ERROR(
      weft_timer_add(c->o.timer, weft_clock_deadline_ns(timeout_ms), on_deadline, w, &w->timer_id));
  if (w->canceller == NULL) return NULL;
  w->has_token = weft_canceller_register(w->canceller, on_cancel, w, &w->token);
  if (w->has_token) return NULL;
  if (!weft_canceller_is_cancelled(w->canceller)) { /* which would be the end of its task */
    weft_timer_remove(c->o.timer, w->timer_id);
    return WEFT_NO_MEMORY("a watch");
  }
  weft_mutex_lock(&c->mu);
  w->early = BY_CANCELLER;
  weft_mutex_unlock(&c->mu);
  return NULL;
}

void weft_coordination_watch(weft_coordination_t *c, const weft_coordination_caller_t *caller,
                             int64_t timeout_ms, weft_canceller_t *canceller, weft_cluster_state_fn *fn,
                             void *arg) {
  int i = OBSERVER;
  weft_status_t *s = caller->task.length == 0 ? NULL : find_member(c, caller->task, &i);
  state_watch_t *w = NULL, *taken = NULL;
  if (s == NULL) w = weft_calloc(1, sizeof *w + (size_t)c->o.num_tasks * sizeof(weft_member_t));
  if (s == NULL && w == NULL) s = WEFT_NO_MEMORY("a watch of %.*s", WEFT_STR_ARGS(caller->task));
  if (s == NULL) {
    *w = (state_watch_t){.service = c,
                         .member = i,
                         .incarnation = caller->incarnation,
                         .fn = fn,
                         .arg = arg,
                         .is_presence = caller->epoch == WEFT_COORDINATION_PRESENCE,
                         .canceller = weft_canceller_retain(canceller),
                         .answer = (weft_member_t *)(w + 1)};
    s = register_watch(w, timeout_ms);
  }
  if (s != NULL) {
    if (w != NULL) weft_canceller_release(w->canceller);
    weft_free(w);
    fn(arg, s, 0, NULL, 0);
    return;
  }
  weft_mutex_lock(&c->mu);
  caller_verdict_t verdict = judge_locked(c, i, caller);
  bool has_changed = verdict == MAY && i != c->o.own && beat_locked(c, i, caller);
  if (verdict == MAY && w->early == BY_CANCELLER && lose_locked(c, i, caller->incarnation))
    has_changed = true;
  if (has_changed) taken = take_watches(c);
  watch_end_t end = c->stopped                                     ? BY_STOP
                    : verdict != MAY                               ? BY_REFUSAL
                    : w->early != NOT_ENDED                        ? w->early
                    : c->epoch != caller->epoch && !w->is_presence ? BY_CHANGE
                                                                   : NOT_ENDED;
  if (end == NOT_ENDED) {
    w->next = c->watches;
    if (w->next != NULL) w->next->prev = w;
    c->watches = w;
    w->is_linked = true;
  }
  weft_mutex_unlock(&c->mu);
  if (end == BY_REFUSAL) w->refusal = refusal(c, i, caller, verdict);
  if (end != NOT_ENDED) end_watch(w, end, NOT_ENDED);
  end_watches(taken, BY_CHANGE);
}

/* ---- the end ---- */

void weft_coordination_stop(weft_coordination_t *c) {
  weft_mutex_lock(&c->mu);
  if (!c->stopped) {
    member_entry_t *own = &c->entries[c->o.own];
    own->state = WEFT_MEMBER_LOST;
    own->has_left = true;
    c->epoch++;
  }
  c->stopped = true;
  state_watch_t *taken = take(c, true);
  weft_mutex_unlock(&c->mu);
  end_watches(taken, BY_CHANGE);
  weft_store_stop(c->store);
}

void weft_coordination_destroy(weft_coordination_t *c) {
  if (c == NULL) return;
  weft_coordination_stop(c);
  weft_store_destroy(c->store);
  weft_mutex_deinit(&c->mu);
  weft_free(c->entries);
  weft_free(c);
}
