/* membership/membership.c - one task's view: beats, the watch, and who is told what.
 *
 * Three loops; the first two have one call in flight at most:
 *   tick()   on the timer, every interval: a beat, if none is under way; looks
 *            whether the keeper has been silent for too long
 *   watch()  a watch; its answer brings the record and starts the next one. After
 *            a failure the next tick starts it
 *   be_present()  a call that is only there to break; another is made long before
 *            it ends, so that there is always one
 *
 * What watchers were told is kept per member, beside what is known: whoever finds
 * a difference tells it, one thread at a time. A restart that came as one change
 * is told as two, a loss and a return.
 *
 * Locking: `mu` guards the view; it is a leaf. Calls and callbacks run without it.
 */
#include "membership/membership.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "membership/membership_impl.h"
#include "membership/task_membership.h"

/* Until the keeper is found, it is looked for this often: tasks of a cluster usually start together. */
enum { WATCH_MS = 30000, PRESENCE_MS = 60000, SEARCH_MS = 100, GOODBYE_MS = 200 };

/* ---- making ---- */

int weft_membership_keeper_of(const weft_str_t *tasks, int num_tasks) {
  static const char *const jobs[] = {"/job:chief/", "/job:master/", "/job:worker/", ""};
  for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
    for (int i = 0; i < num_tasks; i++) {
      if (weft_str_starts_with(tasks[i], jobs[j])) return i;
    }
  }
  return -1;
}

static int64_t lost_after_ms(const weft_membership_options_t *o) {
  return o->interval_ms * (o->misses > 0 ? o->misses : WEFT_HEARTBEAT_MISSES);
}

static weft_status_t *build(weft_membership_t *ms, const weft_membership_options_t *o) {
  weft_str_t *tasks = weft_arena_calloc(&ms->arena, (size_t)o->num_tasks + 1, sizeof *tasks);
  ms->views = weft_arena_calloc(&ms->arena, (size_t)o->num_tasks + 1, sizeof *ms->views);
  ms->canceller = weft_canceller_create(NULL);
  bool ok = tasks != NULL && ms->views != NULL && ms->canceller != NULL;
  for (int i = 0; ok && i < o->num_tasks; i++) {
    tasks[i] = weft_arena_str(&ms->arena, o->tasks[i]);
    ok = tasks[i].data != NULL;
  }
  if (!ok) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a membership of %d tasks", o->num_tasks);
  ms->o = *o;
  ms->o.tasks = tasks;
  if (o->num_tasks == 1) ms->o.interval_ms = 0; /* nobody to hear from */
  ms->epoch = o->keeper == o->own ? 1 : 0;
  ms->views[o->own].state = ms->views[o->own].told_state = WEFT_MEMBER_ALIVE;
  ms->views[o->own].incarnation = ms->views[o->own].told_incarnation = o->incarnation;
  ms->secret = o->secret != 0 ? o->secret : weft_random_id();
  WEFT_RETURN_IF_ERROR(weft_timer_create(&ms->timer));
  if (o->keeper != o->own) return NULL;
  weft_keeper_options_t k = {.tasks = tasks,
                             .num_tasks = o->num_tasks,
                             .own = o->own,
                             .incarnation = o->incarnation,
                             .secret = ms->secret,
                             .lost_after_ms = lost_after_ms(&ms->o),
                             .timer = ms->timer};
  WEFT_RETURN_IF_ERROR(weft_keeper_create(&k, &ms->keeper));
  return weft_local_keeper_client_create(ms->keeper, &ms->client);
}

weft_status_t *weft_membership_create(const weft_membership_options_t *o, weft_membership_t **out) {
  if (o->num_tasks < 1 || o->own < 0 || o->own >= o->num_tasks || o->keeper < 0 ||
      o->keeper >= o->num_tasks) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a membership of %d tasks cannot be that of task %d with keeper %d",
                      o->num_tasks, o->own, o->keeper);
  }
  if (o->interval_ms < 0 || o->interval_ms > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a heartbeat every %lld ms is not possible",
                      (long long)o->interval_ms);
  }
  weft_membership_t *ms = weft_calloc(1, sizeof *ms);
  if (ms == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a membership");
  weft_mutex_init(&ms->mu);
  weft_cond_init(&ms->idle);
  weft_status_t *s = build(ms, o);
  if (s != NULL) {
    weft_membership_destroy(ms);
    return s;
  }
  *out = ms;
  return NULL;
}

weft_keeper_t *weft_membership_keeper(weft_membership_t *ms) { return ms->keeper; }

void weft_membership_connect(weft_membership_t *ms, weft_keeper_client_t *c) {
  if (ms->client != NULL) ms->client->ops->destroy(ms->client);
  ms->client = c;
}

void weft_membership_connect_self(weft_membership_t *ms, weft_keeper_client_t *c) { ms->self = c; }

void weft_membership_on_replaced(weft_membership_t *ms, weft_membership_replaced_fn *fn, void *arg) {
  ms->on_replaced = fn;
  ms->on_replaced_arg = arg;
}

void weft_membership_watch(weft_membership_t *ms, weft_member_changed_fn *fn, void *arg) {
  if (ms->num_watchers == WEFT_MAX_WATCHERS) return;
  ms->watchers[ms->num_watchers].fn = fn;
  ms->watchers[ms->num_watchers++].arg = arg;
}

void weft_membership_on_tick(weft_membership_t *ms, weft_membership_tick_fn *fn, void *arg) {
  ms->on_tick = fn;
  ms->on_tick_arg = arg;
}

/* ---- telling ---- */

/* The next thing that watchers do not know; false: they know all. */
static bool next_change_locked(weft_membership_t *ms, weft_member_t *out) WEFT_REQUIRES(ms->mu) {
  for (int i = 0; i < ms->o.num_tasks; i++) {
    weft_member_view_t *v = &ms->views[i];
    bool is_other = v->incarnation != v->told_incarnation || v->losses != v->told_losses;
    if (v->state == v->told_state && !(is_other && v->state == WEFT_MEMBER_ALIVE)) continue;
    bool is_over = v->incarnation == v->told_incarnation;
    bool is_return = v->state == WEFT_MEMBER_ALIVE && v->told_state == WEFT_MEMBER_ALIVE; /* is_other, too */
    if (is_return) {
      v->told_state = WEFT_MEMBER_LOST;
    } else {
      if (v->state == WEFT_MEMBER_ALIVE) v->told_losses = v->losses;
      v->told_state = v->state;
      v->told_incarnation = v->incarnation;
    }
    *out = (weft_member_t){ms->o.tasks[i], v->told_incarnation,
                           v->told_state,  is_return && is_over ? -1 : v->silent_ms,
                           v->losses,      v->has_left && v->told_state == WEFT_MEMBER_LOST};
    return true;
  }
  return false;
}

static void tell(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  if (!ms->telling) {
    weft_member_t m;
    ms->telling = true;
    while (!ms->stopping && next_change_locked(ms, &m)) {
      uint64_t epoch = ms->epoch;
      weft_mutex_unlock(&ms->mu);
      for (int i = 0; i < ms->num_watchers; i++) ms->watchers[i].fn(ms->watchers[i].arg, epoch, &m);
      weft_mutex_lock(&ms->mu);
    }
    ms->telling = false;
    weft_cond_broadcast(&ms->idle);
  }
  weft_mutex_unlock(&ms->mu);
}

/* ---- what the keeper says ---- */

static void keeper_answers_locked(weft_membership_t *ms) WEFT_REQUIRES(ms->mu) {
  ms->keeper_ns = weft_clock_ns();
}

static void lose_keeper_locked(weft_membership_t *ms) WEFT_REQUIRES(ms->mu) {
  weft_member_view_t *v = &ms->views[ms->o.keeper];
  if (ms->keeper != NULL || v->state != WEFT_MEMBER_ALIVE) return;
  v->silent_ms = (weft_clock_ns() - ms->keeper_ns) / 1000000;
  v->state = WEFT_MEMBER_LOST;
  v->has_left = false;
  v->losses++;
  ms->lost_keeper++;
  ms->epoch++;
}

/* This task was silent and is lost for the others. They have dropped what they had in common with it: so does
 * it. */
static void lose_all_locked(weft_membership_t *ms) WEFT_REQUIRES(ms->mu) {
  for (int i = 0; i < ms->o.num_tasks; i++) {
    if (i != ms->o.own && ms->views[i].state == WEFT_MEMBER_ALIVE) ms->views[i].losses++;
  }
}

/* Losses that are not known yet: a keeper that was restarted counts from 0 again. */
static uint64_t new_losses(weft_member_view_t *v, const weft_member_t *m) {
  uint64_t n =
      m->incarnation == v->incarnation && m->losses > v->seen_losses ? m->losses - v->seen_losses : 0;
  v->seen_losses = m->losses;
  return n;
}

/* A keeper that was restarted has not heard of everybody yet: whom we know alive stays so for a while. */
static void take_member_locked(weft_membership_t *ms, int i, const weft_member_t *m, int64_t now)
    WEFT_REQUIRES(ms->mu) {
  weft_member_view_t *v = &ms->views[i];
  v->silent_ms = m->silent_ms;
  uint64_t losses = new_losses(v, m);
  if (i == ms->o.own) {
    if (losses > 0) lose_all_locked(ms);
    return;
  }
  v->losses += losses;
  if (m->state == WEFT_MEMBER_UNKNOWN) {
    if (v->state == WEFT_MEMBER_ALIVE && v->unknown_since_ns == 0) v->unknown_since_ns = now;
    return;
  }
  v->unknown_since_ns = 0;
  v->state = m->state;
  v->has_left = m->has_left;
  v->incarnation = m->incarnation;
}

static void take_record(weft_membership_t *ms, uint64_t epoch, const weft_member_t *members, int n) {
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&ms->mu);
  ms->heard_ns = now;
  if (epoch > ms->epoch) ms->epoch = epoch;
  for (int k = 0; k < n; k++) {
    for (int j = 0; j < ms->o.num_tasks; j++) {
      int i = (k + j) % ms->o.num_tasks; /* usually the very place */
      if (!weft_str_eq(ms->o.tasks[i], members[k].task)) continue;
      take_member_locked(ms, i, &members[k], now);
      break;
    }
  }
  weft_mutex_unlock(&ms->mu);
}

static bool enter(weft_membership_t *ms, bool *flag) {
  weft_mutex_lock(&ms->mu);
  bool ok = !ms->stopping && !ms->is_leaving && !*flag;
  if (ok) {
    *flag = true;
    ms->in_flight++;
  }
  weft_mutex_unlock(&ms->mu);
  return ok;
}

void weft_membership_leave(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  if (--ms->in_flight == 0) weft_cond_broadcast(&ms->idle);
  weft_mutex_unlock(&ms->mu);
}

weft_keeper_caller_t weft_membership_self(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  weft_keeper_caller_t who = {
      ms->o.tasks[ms->o.own], ms->o.incarnation, ms->epoch, ms->lost_keeper, false, ms->secret, {NULL, 0}};
  weft_mutex_unlock(&ms->mu);
  return who;
}

static void watch(weft_membership_t *ms);

static void on_watched(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members,
                       int n) {
  weft_membership_t *ms = arg;
  bool is_broken = weft_status_code(status) == WEFT_UNAVAILABLE, ok = status == NULL;
  weft_status_free(
      status); /* the next tick tries again; whoever needs to know is told of the keeper's loss */
  if (ok) take_record(ms, epoch, members, n);
  weft_mutex_lock(&ms->mu);
  if (ok) keeper_answers_locked(ms);
  if (is_broken) lose_keeper_locked(ms);
  ms->watching = false;
  weft_mutex_unlock(&ms->mu);
  tell(ms);
  if (ok) watch(ms);
  weft_membership_leave(ms);
}

static void watch(weft_membership_t *ms) {
  if (!enter(ms, &ms->watching)) return;
  weft_keeper_caller_t who = weft_membership_self(ms);
  ms->client->ops->watch(ms->client, &who, WATCH_MS, ms->canceller, on_watched, ms);
}

static void on_absent(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members, int n) {
  weft_membership_t *ms = arg;
  if (status == NULL) take_record(ms, epoch, members, n);
  weft_mutex_lock(&ms->mu);
  ms->num_presences--;
  if (weft_status_code(status) == WEFT_UNAVAILABLE) lose_keeper_locked(ms);
  weft_mutex_unlock(&ms->mu);
  weft_status_free(status); /* as above */
  tell(ms);
  weft_membership_leave(ms);
}

static void be_present(weft_membership_t *ms) {
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&ms->mu);
  bool is_fresh = ms->num_presences > 0 && now - ms->presence_ns < (int64_t)PRESENCE_MS * 1000000 / 2;
  bool goes_on = !ms->stopping && !ms->is_leaving && !is_fresh;
  if (goes_on) {
    ms->in_flight++;
    ms->num_presences++;
    ms->presence_ns = now;
  }
  weft_mutex_unlock(&ms->mu);
  if (!goes_on) return;
  weft_keeper_caller_t who = weft_membership_self(ms);
  who.epoch = WEFT_KEEPER_PRESENCE;
  ms->client->ops->watch(ms->client, &who, PRESENCE_MS, ms->canceller, on_absent, ms);
}

/* What the answer to a beat says about who is this task. `status` is lent. */
static void verify(weft_membership_t *ms, const weft_status_t *status) {
  const int64_t now = weft_clock_ns(), patience_ns = 2 * lost_after_ms(&ms->o) * 1000000;
  const bool is_refused = weft_status_code(status) == WEFT_ABORTED;
  weft_mutex_lock(&ms->mu);
  if (ms->is_leaving || ms->stopping) {
    weft_mutex_unlock(&ms->mu);
    return;
  }
  const bool is_first = is_refused && ms->refused_ns == 0, is_back = status == NULL && ms->refused_ns != 0;
  if (is_first) ms->refused_ns = now;
  if (is_first && ms->is_member) lose_all_locked(ms); /* the others have dropped this process */
  if (is_back && ms->is_member) lose_all_locked(ms);
  const bool is_over = is_refused && now - ms->refused_ns > patience_ns && !ms->is_replaced;
  if (is_over) ms->is_replaced = true;
  if (status == NULL) ms->refused_ns = 0;
  if (status == NULL) ms->is_member = true;
  weft_mutex_unlock(&ms->mu);
  if (is_first)
    weft_log(WEFT_LOG_WARNING, "the cluster does not take this process for its task: %s; asking again",
             weft_status_message(status));
  if (is_back) weft_log(WEFT_LOG_INFO, "the cluster takes this process for its task");
  if (is_over && ms->on_replaced != NULL) ms->on_replaced(ms->on_replaced_arg, status);
}

static void on_checked(void *arg, weft_status_t *status, uint64_t epoch) {
  weft_membership_t *ms = arg;
  (void)epoch;
  verify(ms, status);
  weft_status_free(status); /* an address that does not answer says nothing */
  weft_mutex_lock(&ms->mu);
  ms->beating = false;
  weft_mutex_unlock(&ms->mu);
  tell(ms);
  weft_membership_leave(ms);
}

/* Of the task that keeps the record: is it this process that answers at the task's address? */
static void check_address(weft_membership_t *ms) {
  if (ms->self == NULL || !enter(ms, &ms->beating)) return;
  weft_keeper_caller_t who = weft_membership_self(ms);
  ms->self->ops->beat(ms->self, &who, lost_after_ms(&ms->o), ms->canceller, on_checked, ms);
}

static void on_beaten(void *arg, weft_status_t *status, uint64_t epoch) {
  weft_membership_t *ms = arg;
  (void)epoch; /* the watch brings the record */
  verify(ms, status);
  weft_mutex_lock(&ms->mu);
  bool ok = status == NULL;
  weft_code_t code = weft_status_code(status);
  bool is_away = code == WEFT_UNAVAILABLE || code == WEFT_DEADLINE_EXCEEDED || code == WEFT_CANCELLED ||
                 code == WEFT_ABORTED;
  bool complains = !ok && !is_away && !ms->has_complained;
  if (ok) keeper_answers_locked(ms);
  if (complains) ms->has_complained = true;
  ms->beating = false;
  weft_mutex_unlock(&ms->mu);
  if (complains) {
    weft_log_status(WEFT_LOG_WARNING, "no heartbeats", status);
  } else {
    weft_status_free(status); /* as above */
  }
  tell(ms);
  if (ok) watch(ms); /* if it has ended with a failure */
  weft_membership_leave(ms);
}

static void beat(weft_membership_t *ms) {
  if (!enter(ms, &ms->beating)) return;
  weft_keeper_caller_t who = weft_membership_self(ms);
  ms->client->ops->beat(ms->client, &who, lost_after_ms(&ms->o), ms->canceller, on_beaten, ms);
}

/* ---- the tick ---- */

/* Time alone has made somebody lost. */
static void notice_silence(weft_membership_t *ms) {
  int64_t now = weft_clock_ns(), patience = lost_after_ms(&ms->o) * 1000000;
  weft_mutex_lock(&ms->mu);
  if (ms->tick_ns > 0 && now - ms->tick_ns > patience / 2)
    ms->keeper_ns = now; /* we were stopped, not the others */
  ms->tick_ns = now;
  if (now - ms->keeper_ns > patience) lose_keeper_locked(ms);
  for (int i = 0; i < ms->o.num_tasks; i++) {
    weft_member_view_t *v = &ms->views[i];
    if (v->unknown_since_ns == 0 || now - v->unknown_since_ns <= patience) continue;
    v->unknown_since_ns = 0;
    if (v->state != WEFT_MEMBER_ALIVE || ms->views[ms->o.keeper].state != WEFT_MEMBER_ALIVE) continue;
    v->state = WEFT_MEMBER_LOST;
    ms->epoch++;
  }
  weft_mutex_unlock(&ms->mu);
}

static bool is_searching(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  bool is_found = ms->views[ms->o.keeper].state == WEFT_MEMBER_ALIVE;
  weft_mutex_unlock(&ms->mu);
  return !is_found;
}

static void tick(void *arg) {
  weft_membership_t *ms = arg;
  weft_mutex_lock(&ms->mu);
  bool goes_on = !ms->stopping;
  if (goes_on) ms->in_flight++;
  weft_mutex_unlock(&ms->mu);
  if (!goes_on) return;
  if (ms->keeper != NULL) weft_keeper_sweep(ms->keeper);
  if (ms->keeper == NULL) {
    notice_silence(ms);
    be_present(ms); /* first: nobody hears of us before our end would be noticed */
    beat(ms);
  } else {
    watch(ms);
    check_address(ms);
  }
  tell(ms);
  if (ms->on_tick != NULL) ms->on_tick(ms->on_tick_arg);
  uint64_t id = 0; /* never removed: the timer goes first */
  int64_t pause_ms = ms->o.interval_ms;
  if (pause_ms > SEARCH_MS && ms->keeper == NULL && is_searching(ms)) pause_ms = SEARCH_MS;
  weft_status_t *s = weft_timer_add(ms->timer, weft_clock_ns() + pause_ms * 1000000, tick, ms, &id);
  weft_status_free(s); /* no memory for a tick: who is silent is lost for the others, as it must be */
  weft_membership_leave(ms);
}

weft_status_t *weft_membership_start(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  bool again = ms->started || ms->stopping;
  ms->started = true;
  ms->keeper_ns = weft_clock_ns();
  weft_mutex_unlock(&ms->mu);
  if (again || ms->o.interval_ms == 0) return NULL;
  uint64_t id = 0;
  WEFT_RETURN_IF_ERROR(weft_timer_add(ms->timer, weft_clock_ns(), tick, ms, &id));
  return NULL;
}

static void on_goodbye(void *arg, weft_status_t *status, uint64_t epoch) {
  weft_membership_t *ms = arg;
  (void)epoch;
  weft_status_free(status); /* then the others notice the end of the process */
  weft_mutex_lock(&ms->mu);
  ms->is_saying_goodbye = false;
  weft_cond_broadcast(&ms->idle);
  weft_mutex_unlock(&ms->mu);
}

/* Tells the keeper that this process is being shut down, so that the others know why it is gone. */
static void say_goodbye(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  bool is_heard = ms->started && !ms->stopping && ms->o.interval_ms > 0 && ms->keeper == NULL &&
                  ms->client != NULL && ms->views[ms->o.keeper].state == WEFT_MEMBER_ALIVE;
  ms->is_saying_goodbye = is_heard;
  ms->is_leaving = true;
  weft_mutex_unlock(&ms->mu);
  if (!is_heard) return;
  weft_keeper_caller_t who = weft_membership_self(ms);
  who.is_leaving = true;
  ms->client->ops->beat(ms->client, &who, GOODBYE_MS, NULL, on_goodbye, ms);
  weft_mutex_lock(&ms->mu);
  while (ms->is_saying_goodbye)
    weft_cond_wait(&ms->idle, &ms->mu); /* woken by on_goodbye(), after GOODBYE_MS at the latest */
  weft_mutex_unlock(&ms->mu);
}

void weft_membership_stop(weft_membership_t *ms) {
  say_goodbye(ms);
  weft_mutex_lock(&ms->mu);
  ms->stopping = true;
  weft_mutex_unlock(&ms->mu);
  if (ms->canceller != NULL) weft_canceller_cancel(ms->canceller);
  weft_membership_cancel_asked(ms);
  if (ms->keeper != NULL) weft_keeper_stop(ms->keeper);
  weft_mutex_lock(&ms->mu);
  while (ms->in_flight > 0 || ms->telling)
    weft_cond_wait(&ms->idle, &ms->mu); /* woken by weft_membership_leave() and tell(); all is cancelled */
  weft_mutex_unlock(&ms->mu);
}

void weft_membership_destroy(weft_membership_t *ms) {
  if (ms == NULL) return;
  weft_membership_stop(ms);
  weft_timer_destroy(ms->timer);
  if (ms->client != NULL) ms->client->ops->destroy(ms->client);
  if (ms->self != NULL) ms->self->ops->destroy(ms->self);
  weft_keeper_destroy(ms->keeper);
  weft_canceller_release(ms->canceller);
  weft_cond_deinit(&ms->idle);
  weft_mutex_deinit(&ms->mu);
  weft_arena_deinit(&ms->arena);
  weft_free(ms);
}

/* ---- what is known ---- */

uint64_t weft_membership_epoch(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  uint64_t epoch = ms->epoch;
  weft_mutex_unlock(&ms->mu);
  return epoch;
}

int weft_membership_list(weft_membership_t *ms, weft_member_t *out, int max) {
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&ms->mu);
  for (int i = 0; i < ms->o.num_tasks && i < max; i++) {
    const weft_member_view_t *v = &ms->views[i];
    int64_t since = i == ms->o.keeper && ms->keeper == NULL ? (now - ms->keeper_ns) / 1000000
                    : v->state == WEFT_MEMBER_UNKNOWN       ? 0
                                                            : v->silent_ms + (now - ms->heard_ns) / 1000000;
    out[i] = (weft_member_t){ms->o.tasks[i], v->incarnation, v->state, i == ms->o.own ? 0 : since,
                             v->losses,      v->has_left};
  }
  weft_mutex_unlock(&ms->mu);
  return ms->o.num_tasks;
}
