/* membership/keeper.c - the record, and who waits for it to change.
 *
 * A watch belongs to the list while it is linked; who unlinks it under `mu` ends
 * it, as in store.c.
 *
 * Locking: `mu` guards the record and the list; it is a leaf.
 */
#include "membership/keeper.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"

typedef struct record {
  weft_member_state_t state;
  uint64_t incarnation, secret; /* of the process that is known */
  char peer[64];                /* where its last beat came from; empty: not known */
  int64_t beat_ns;
  bool has_left;
  uint64_t losses,
      lost_keeper; /* of this incarnation: how often it was lost, and how often it says that it lost us */
} record_t;

/* No epoch that a task reports moves the record further than this. */
#define MAX_EPOCH ((uint64_t)1 << 62)

enum { OBSERVER = -1 }; /* a watch by who is no member */

typedef enum watch_end { BY_NOBODY, BY_CHANGE, BY_CANCELLER, BY_DEADLINE, BY_STOP, BY_REFUSAL } watch_end_t;

typedef struct watch {
  struct watch *prev, *next;
  weft_keeper_t *keeper;
  int member;
  uint64_t incarnation;
  weft_roll_fn *fn;
  void *arg;
  weft_canceller_t *canceller; /* retained; may be NULL */
  uint64_t token, timer_id;
  bool has_token, is_linked;
  bool is_presence;       /* no change answers it */
  watch_end_t early;      /* guarded by mu: what came before it was linked */
  weft_status_t *refusal; /* of BY_REFUSAL; owned */
  weft_member_t *answer;  /* room for the record; behind the struct */
} watch_t;

struct weft_keeper {
  weft_keeper_options_t o;
  weft_store_t *store; /* owned */
  weft_mutex_t mu;
  record_t *records; /* guarded by mu, with all that follows */
  uint64_t epoch;
  watch_t *watches;
  int64_t sweep_ns;    /* the last sweep */
  int64_t refused_ns;  /* when a refusal was last logged */
  int64_t num_refused; /* since then */
  bool stopped;
};

weft_status_t *weft_keeper_create(const weft_keeper_options_t *o, weft_keeper_t **out) {
  weft_keeper_t *k = weft_calloc(1, sizeof *k);
  record_t *records = weft_calloc((size_t)o->num_tasks + 1, sizeof *records);
  weft_store_t *store = NULL;
  weft_status_t *s = NULL;
  if (k == NULL || records == NULL)
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for the record of %d tasks", o->num_tasks);
  if (s == NULL) s = weft_store_create(o->timer, &store);
  if (s != NULL) {
    weft_free(records);
    weft_free(k);
    return s;
  }
  *k = (weft_keeper_t){.o = *o, .store = store, .records = records, .epoch = 1};
  weft_mutex_init(&k->mu);
  records[o->own] =
      (record_t){.state = WEFT_MEMBER_ALIVE, .incarnation = o->incarnation, .secret = o->secret};
  *out = k;
  return NULL;
}

weft_store_t *weft_keeper_store(weft_keeper_t *k) { return k->store; }

/* ---- watches ---- */

static void unlink_watch(weft_keeper_t *k, watch_t *w) WEFT_REQUIRES(k->mu) {
  if (w->prev != NULL) w->prev->next = w->next;
  if (w->prev == NULL) k->watches = w->next;
  if (w->next != NULL) w->next->prev = w->prev;
  w->prev = w->next = NULL;
  w->is_linked = false;
}

static watch_t *take(weft_keeper_t *k, bool also_presences) WEFT_REQUIRES(k->mu) {
  watch_t *taken = NULL, *next;
  for (watch_t *w = k->watches; w != NULL; w = next) {
    next = w->next;
    if (w->is_presence && !also_presences) continue;
    unlink_watch(k, w);
    w->next = taken;
    taken = w;
  }
  return taken;
}

static watch_t *take_watches(weft_keeper_t *k) WEFT_REQUIRES(k->mu) { return take(k, false); }

static uint64_t copy_record(weft_keeper_t *k, weft_member_t *out) {
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&k->mu);
  uint64_t epoch = k->epoch;
  for (int i = 0; i < k->o.num_tasks; i++) {
    const record_t *r = &k->records[i];
    int64_t silent = r->state == WEFT_MEMBER_UNKNOWN || i == k->o.own ? 0 : (now - r->beat_ns) / 1000000;
    out[i] = (weft_member_t){k->o.tasks[i], r->incarnation, r->state, silent, r->losses, r->has_left};
  }
  weft_mutex_unlock(&k->mu);
  return epoch;
}

/* Ends a watch that is not linked. `inside` is whose callback we are in: that one is not taken away. */
static void end_watch(watch_t *w, watch_end_t cause, watch_end_t inside) {
  weft_keeper_t *k = w->keeper;
  if (w->has_token && inside != BY_CANCELLER) weft_canceller_deregister(w->canceller, w->token);
  if (inside != BY_DEADLINE) weft_timer_remove(k->o.timer, w->timer_id);
  if (cause == BY_REFUSAL) {
    w->fn(w->arg, w->refusal, 0, NULL, 0);
  } else if (cause == BY_STOP) {
    w->fn(w->arg, WEFT_ERROR(UNAVAILABLE, "%.*s stops", WEFT_STR_ARGS(k->o.tasks[k->o.own])), 0, NULL, 0);
  } else if (cause == BY_CANCELLER) {
    w->fn(w->arg,
          WEFT_ERROR(CANCELLED, "the watch of %.*s ended",
                     WEFT_STR_ARGS(w->member == OBSERVER ? WEFT_STR("nobody") : k->o.tasks[w->member])),
          0, NULL, 0);
  } else {
    uint64_t epoch = copy_record(k, w->answer);
    w->fn(w->arg, NULL, epoch, w->answer, k->o.num_tasks);
  }
  weft_canceller_release(w->canceller);
  weft_free(w);
}

static void end_watches(watch_t *taken, watch_end_t cause) {
  while (taken != NULL) {
    watch_t *next = taken->next;
    taken->prev = taken->next = NULL;
    end_watch(taken, cause, BY_NOBODY);
    taken = next;
  }
}

/* ---- the record ---- */

static weft_status_t *find_member(const weft_keeper_t *k, weft_str_t task, int *out) {
  for (int i = 0; i < k->o.num_tasks; i++) {
    if (!weft_str_eq(k->o.tasks[i], task)) continue;
    *out = i;
    return NULL;
  }
  return WEFT_ERROR(NOT_FOUND, "%.*s is no task of the cluster of %.*s", WEFT_STR_ARGS(task),
                    WEFT_STR_ARGS(k->o.tasks[k->o.own]));
}

static bool is_same_process(const record_t *r, const weft_keeper_caller_t *who) {
  return r->incarnation == who->incarnation && r->secret == who->secret;
}

/* May the caller speak as this task? NULL: it may. The text is made without the lock: see refusal(). */
typedef enum verdict { MAY, HAS_LEFT, IS_ANOTHER } verdict_t;
static verdict_t judge_locked(const weft_keeper_t *k, int i, const weft_keeper_caller_t *who)
    WEFT_REQUIRES(k->mu) {
  if (i == OBSERVER) return MAY;
  const record_t *r = &k->records[i];
  if (is_same_process(r, who))
    return r->has_left && i != k->o.own ? HAS_LEFT : MAY; /* a call that was under way when it left */
  if (who->is_leaving) return IS_ANOTHER;
  return r->state == WEFT_MEMBER_ALIVE || i == k->o.own ? IS_ANOTHER : MAY;
}

/* What a caller is told that may not speak as task `i`. Logged now and then, as everybody can send such
 * calls. */
static weft_status_t *refusal(weft_keeper_t *k, int i, const weft_keeper_caller_t *who, verdict_t verdict) {
  enum { LOG_EVERY_S = 10 };
  char peer[sizeof k->records[i].peer];
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&k->mu);
  const record_t r = k->records[i];
  k->num_refused++;
  bool logs = k->refused_ns == 0 || now - k->refused_ns > LOG_EVERY_S * INT64_C(1000000000);
  int64_t n = k->num_refused;
  if (logs) k->refused_ns = now;
  if (logs) k->num_refused = 0;
  weft_mutex_unlock(&k->mu);
  snprintf(peer, sizeof peer, "%s",
           i == k->o.own || r.peer[0] == '\0' ? "the process that keeps the record" : r.peer);
  if (verdict == HAS_LEFT) return WEFT_ERROR(ABORTED, "%.*s has left", WEFT_STR_ARGS(k->o.tasks[i]));
  if (logs) {
    weft_log(WEFT_LOG_WARNING,
             "a call from %.*s as %.*s is refused, as the task is alive as another process, %s (%" PRId64
             " such calls)",
             WEFT_STR_ARGS(who->peer.length == 0 ? WEFT_STR("this process") : who->peer),
             WEFT_STR_ARGS(k->o.tasks[i]), peer, n);
  }
  return WEFT_ERROR(ABORTED, "%.*s is alive as another process: %s, last heard of %" PRId64 " ms ago",
                    WEFT_STR_ARGS(k->o.tasks[i]), peer, i == k->o.own ? 0 : (now - r.beat_ns) / 1000000);
}

/* True if the record has changed: then the watches are to be answered. */
static bool beat_locked(weft_keeper_t *k, int i, const weft_keeper_caller_t *who) WEFT_REQUIRES(k->mu) {
  if (i == OBSERVER) return false;
  record_t *r = &k->records[i];
  uint64_t epoch = who->epoch == WEFT_KEEPER_PRESENCE || who->epoch > MAX_EPOCH ? 0 : who->epoch;
  bool is_new = !is_same_process(r, who), was_lost_for_it = !is_new && who->lost_keeper > r->lost_keeper;
  bool has_changed = r->state != WEFT_MEMBER_ALIVE || is_new || epoch > k->epoch || was_lost_for_it;
  *r = (record_t){.state = WEFT_MEMBER_ALIVE,
                  .incarnation = who->incarnation,
                  .secret = who->secret,
                  .beat_ns = weft_clock_ns(),
                  .losses = is_new ? 0 : r->losses + (was_lost_for_it && r->state == WEFT_MEMBER_ALIVE),
                  .lost_keeper = who->lost_keeper};
  snprintf(r->peer, sizeof r->peer, "%.*s", WEFT_STR_ARGS(who->peer));
  if (!has_changed) return false;
  if (epoch > k->epoch)
    k->epoch = epoch; /* this process was restarted: the record goes on from what they have seen */
  k->epoch++;
  return true;
}

static bool lose_locked(weft_keeper_t *k, int i, uint64_t incarnation) WEFT_REQUIRES(k->mu) {
  if (i == OBSERVER) return false;
  record_t *r = &k->records[i];
  if (i == k->o.own || r->state != WEFT_MEMBER_ALIVE || r->incarnation != incarnation) return false;
  r->state = WEFT_MEMBER_LOST;
  r->losses++;
  k->epoch++;
  return true;
}

static bool leave_locked(weft_keeper_t *k, int i, uint64_t incarnation) WEFT_REQUIRES(k->mu) {
  if (!lose_locked(k, i, incarnation)) return false;
  k->records[i].has_left = true;
  k->records[i].losses--; /* it hears of those, and has lost nobody */
  return true;
}

weft_status_t *weft_keeper_beat(weft_keeper_t *k, const weft_keeper_caller_t *who, uint64_t *out_epoch) {
  int i = 0;
  watch_t *taken = NULL;
  WEFT_RETURN_IF_ERROR(find_member(k, who->task, &i));
  weft_mutex_lock(&k->mu);
  verdict_t verdict = judge_locked(k, i, who);
  bool has_changed = verdict == MAY && i != k->o.own &&
                     (who->is_leaving ? leave_locked(k, i, who->incarnation) : beat_locked(k, i, who));
  if (has_changed) taken = take_watches(k);
  *out_epoch = k->epoch;
  weft_mutex_unlock(&k->mu);
  end_watches(taken, BY_CHANGE);
  return verdict == MAY ? NULL : refusal(k, i, who, verdict);
}

void weft_keeper_sweep(weft_keeper_t *k) {
  watch_t *taken = NULL;
  bool has_changed = false;
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&k->mu);
  int64_t gap = k->sweep_ns == 0 ? 0 : now - k->sweep_ns;
  bool was_stopped = gap > k->o.lost_after_ms * 1000000 /
                               2; /* this process, or it has no time: the others are not to blame */
  k->sweep_ns = now;
  for (int i = 0; k->o.lost_after_ms > 0 && i < k->o.num_tasks; i++) {
    record_t *r = &k->records[i];
    if (was_stopped) r->beat_ns += gap;
    if (now - r->beat_ns > k->o.lost_after_ms * 1000000 && lose_locked(k, i, r->incarnation))
      has_changed = true;
  }
  if (has_changed) taken = take_watches(k);
  weft_mutex_unlock(&k->mu);
  end_watches(taken, BY_CHANGE);
}

/* ---- watching ---- */

/* The canceller's or the timer's callback. A watch that was broken off takes its task with it. */
static void end_one(watch_t *w, watch_end_t cause) {
  weft_keeper_t *k = w->keeper;
  watch_t *taken = NULL;
  weft_mutex_lock(&k->mu);
  bool is_mine = w->is_linked;
  if (is_mine) unlink_watch(k, w);
  if (!is_mine && w->early == BY_NOBODY) w->early = cause;
  if (is_mine && cause == BY_CANCELLER && lose_locked(k, w->member, w->incarnation)) taken = take_watches(k);
  weft_mutex_unlock(&k->mu);
  if (is_mine) end_watch(w, cause, cause);
  end_watches(taken, BY_CHANGE);
}

static void on_cancel(void *arg) { end_one(arg, BY_CANCELLER); }
static void on_deadline(void *arg) { end_one(arg, BY_DEADLINE); }

/* Registers a watch's callbacks. Until it is linked they only leave a note. */
static weft_status_t *register_watch(watch_t *w, int64_t timeout_ms) {
  weft_keeper_t *k = w->keeper;
  if (timeout_ms < 0 || timeout_ms > INT32_MAX) timeout_ms = INT32_MAX;
  WEFT_RETURN_IF_ERROR(
      weft_timer_add(k->o.timer, weft_clock_deadline_ns(timeout_ms), on_deadline, w, &w->timer_id));
  if (w->canceller == NULL) return NULL;
  w->has_token = weft_canceller_register(w->canceller, on_cancel, w, &w->token);
  if (w->has_token) return NULL;
  weft_mutex_lock(&k->mu);
  w->early = BY_CANCELLER;
  weft_mutex_unlock(&k->mu);
  return NULL;
}

void weft_keeper_watch(weft_keeper_t *k, const weft_keeper_caller_t *who, int64_t timeout_ms,
                       weft_canceller_t *canceller, weft_roll_fn *fn, void *arg) {
  int i = OBSERVER;
  weft_status_t *s = who->task.length == 0 ? NULL : find_member(k, who->task, &i);
  watch_t *w = NULL, *taken = NULL;
  if (s == NULL) w = weft_calloc(1, sizeof *w + (size_t)k->o.num_tasks * sizeof(weft_member_t));
  if (s == NULL && w == NULL)
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a watch of %.*s", WEFT_STR_ARGS(who->task));
  if (s == NULL) {
    *w = (watch_t){.keeper = k,
                   .member = i,
                   .incarnation = who->incarnation,
                   .fn = fn,
                   .arg = arg,
                   .is_presence = who->epoch == WEFT_KEEPER_PRESENCE,
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
  weft_mutex_lock(&k->mu);
  verdict_t verdict = judge_locked(k, i, who);
  bool has_changed = verdict == MAY && i != k->o.own && beat_locked(k, i, who);
  if (verdict == MAY && w->early == BY_CANCELLER && lose_locked(k, i, who->incarnation)) has_changed = true;
  if (has_changed) taken = take_watches(k);
  watch_end_t end = k->stopped                                  ? BY_STOP
                    : verdict != MAY                            ? BY_REFUSAL
                    : w->early != BY_NOBODY                     ? w->early
                    : k->epoch != who->epoch && !w->is_presence ? BY_CHANGE
                                                                : BY_NOBODY;
  if (end == BY_NOBODY) {
    w->next = k->watches;
    if (w->next != NULL) w->next->prev = w;
    k->watches = w;
    w->is_linked = true;
  }
  weft_mutex_unlock(&k->mu);
  if (end == BY_REFUSAL) w->refusal = refusal(k, i, who, verdict);
  if (end != BY_NOBODY) end_watch(w, end, BY_NOBODY);
  end_watches(taken, BY_CHANGE);
}

/* ---- the end ---- */

void weft_keeper_stop(weft_keeper_t *k) {
  weft_mutex_lock(&k->mu);
  if (!k->stopped) {
    record_t *own = &k->records[k->o.own];
    own->state = WEFT_MEMBER_LOST;
    own->has_left = true;
    k->epoch++;
  }
  k->stopped = true;
  watch_t *taken = take(k, true);
  weft_mutex_unlock(&k->mu);
  end_watches(taken, BY_CHANGE);
  weft_store_stop(k->store);
}

void weft_keeper_destroy(weft_keeper_t *k) {
  if (k == NULL) return;
  weft_keeper_stop(k);
  weft_store_destroy(k->store);
  weft_mutex_deinit(&k->mu);
  weft_free(k->records);
  weft_free(k);
}
