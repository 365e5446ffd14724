/* membership/membership.c - one task's membership: heartbeats, the watch, and the notification of watchers.
 *
 * Three loops; the first two have one call in flight at most:
 *   tick()        on the timer, every interval: a beat, if none is under way
 *   watch()       a watch; its answer brings the cluster state and starts the next one
 *   be_present()  a call that stays open and breaks when this process ends
 *
 * A tick also looks whether the coordination service has been silent for too long, and starts a watch that
 * has failed. The next presence is made long before the last one ends, so that one is always open.
 *
 * One thread at a time tells the watchers what the view knows and they do not (member_views.h).
 *
 * Locking: `mu` guards the view; it is a leaf. Calls and callbacks run without it.
 */
#include "membership/membership.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/timer.h"
#include "membership/member_views.h"
#include "membership/store_requests.h"
#include "membership/task_membership.h"

/* Until the coordination service is found, it is looked for this often: tasks of a cluster usually start
 * together. */
enum { WATCH_MS = 30000, PRESENCE_MS = 60000, SEARCH_MS = 100, GOODBYE_MS = 200, MAX_WATCHERS = 16 };

struct weft_membership {
  weft_membership_options_t o; /* tasks: owned */
  weft_arena_t arena;
  weft_timer_t *timer;                /* owned */
  weft_coordination_t *service;       /* owned; NULL: another task hosts it */
  weft_coordination_client_t *client; /* owned */
  weft_coordination_client_t
      *self;                   /* owned; on the task that hosts the service: its own address; may be NULL */
  weft_canceller_t *canceller; /* of all calls but requests; cancelled by the stop */
  weft_store_requests_t *requests; /* owned */
  struct {
    weft_member_changed_fn *fn;
    void *arg;
  } watchers[MAX_WATCHERS]; /* constant after the start */
  int num_watchers;
  weft_membership_tick_fn *on_tick;
  void *on_tick_arg;
  weft_membership_replaced_fn *on_replaced;
  void *on_replaced_arg;
  uint64_t secret; /* distinguishes this process from others with its name and incarnation; constant */
  weft_mutex_t mu;
  weft_cond_t idle;         /* in_flight became 0, or the watchers have been told */
  weft_member_views_t view; /* guarded by mu, with all that follows */
  int num_presences;        /* in flight */
  int64_t presence_ns;      /* when the last began */
  int in_flight;            /* calls and ticks */
  int64_t refused_ns;       /* since when the service takes another process for this task; 0: it does not */
  bool is_member;           /* the service has taken a beat */
  bool is_replaced;         /* and that was reported */
  bool is_leaving, is_saying_goodbye;
  bool started, stopping, beating, watching, is_notifying, has_complained;
};

/* ---- life ---- */

int weft_membership_service_task(const weft_str_t *tasks, int num_tasks) {
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
  ms->canceller = weft_canceller_create(NULL);
  bool ok = tasks != NULL && ms->canceller != NULL;
  for (int i = 0; ok && i < o->num_tasks; i++) {
    tasks[i] = weft_arena_str(&ms->arena, o->tasks[i]);
    ok = tasks[i].data != NULL;
  }
  if (!ok) return WEFT_NO_MEMORY("a membership of %d tasks", o->num_tasks);
  ms->o = *o;
  ms->o.tasks = tasks;
  if (o->num_tasks == 1) ms->o.interval_ms = 0; /* there are no others */
  ms->view = (weft_member_views_t){
      .tasks = tasks, .num_tasks = o->num_tasks, .own = o->own, .service_task = o->service_task};
  WEFT_RETURN_IF_ERROR(weft_member_views_init(&ms->view, &ms->arena, o->incarnation));
  WEFT_RETURN_IF_ERROR(weft_store_requests_create(&ms->requests));
  ms->secret = o->secret != 0 ? o->secret : weft_random_id();
  WEFT_RETURN_IF_ERROR(weft_timer_create(&ms->timer));
  if (o->service_task != o->own) return NULL;
  weft_coordination_options_t k = {.tasks = tasks,
                                   .num_tasks = o->num_tasks,
                                   .own = o->own,
                                   .incarnation = o->incarnation,
                                   .secret = ms->secret,
                                   .lost_after_ms = lost_after_ms(&ms->o),
                                   .timer = ms->timer};
  WEFT_RETURN_IF_ERROR(weft_coordination_create(&k, &ms->service));
  return weft_local_coordination_client_create(ms->service, &ms->client);
}

weft_status_t *weft_membership_create(const weft_membership_options_t *o, weft_membership_t **out) {
  if (o->num_tasks < 1 || o->own < 0 || o->own >= o->num_tasks || o->service_task < 0 ||
      o->service_task >= o->num_tasks) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "a membership of %d tasks cannot be that of task %d with the coordination service on task %d",
        o->num_tasks, o->own, o->service_task);
  }
  if (o->interval_ms < 0 || o->interval_ms > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a heartbeat every %lld ms is not possible",
                      (long long)o->interval_ms);
  }
  weft_membership_t *ms = weft_calloc(1, sizeof *ms);
  if (ms == NULL) return WEFT_NO_MEMORY("a membership");
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

weft_coordination_t *weft_membership_service(weft_membership_t *ms) { return ms->service; }

void weft_membership_connect(weft_membership_t *ms, weft_coordination_client_t *c) {
  if (ms->client != NULL) ms->client->ops->destroy(ms->client);
  ms->client = c;
}

void weft_membership_connect_self(weft_membership_t *ms, weft_coordination_client_t *c) { ms->self = c; }

void weft_membership_on_replaced(weft_membership_t *ms, weft_membership_replaced_fn *fn, void *arg) {
  ms->on_replaced = fn;
  ms->on_replaced_arg = arg;
}

void weft_membership_watch(weft_membership_t *ms, weft_member_changed_fn *fn, void *arg) {
  if (ms->num_watchers == MAX_WATCHERS) return;
  ms->watchers[ms->num_watchers].fn = fn;
  ms->watchers[ms->num_watchers++].arg = arg;
}

void weft_membership_on_tick(weft_membership_t *ms, weft_membership_tick_fn *fn, void *arg) {
  ms->on_tick = fn;
  ms->on_tick_arg = arg;
}

/* ---- watchers ---- */

static void notify_watchers(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  if (!ms->is_notifying) {
    weft_member_t m;
    ms->is_notifying = true;
    while (!ms->stopping && weft_member_views_next_change(&ms->view, &m)) {
      uint64_t epoch = ms->view.epoch;
      weft_mutex_unlock(&ms->mu);
      for (int i = 0; i < ms->num_watchers; i++) ms->watchers[i].fn(ms->watchers[i].arg, epoch, &m);
      weft_mutex_lock(&ms->mu);
    }
    ms->is_notifying = false;
    weft_cond_broadcast(&ms->idle);
  }
  weft_mutex_unlock(&ms->mu);
}

/* ---- calls to the coordination service ---- */

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

static void leave(weft_membership_t *ms) { /* a call or a tick has ended */
  weft_mutex_lock(&ms->mu);
  if (--ms->in_flight == 0) weft_cond_broadcast(&ms->idle);
  weft_mutex_unlock(&ms->mu);
}

static weft_coordination_caller_t caller(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  weft_coordination_caller_t c = {.task = ms->o.tasks[ms->o.own],
                                  .incarnation = ms->o.incarnation,
                                  .epoch = ms->view.epoch,
                                  .lost_service = ms->view.lost_service,
                                  .secret = ms->secret};
  weft_mutex_unlock(&ms->mu);
  return c;
}

static void watch(weft_membership_t *ms);

static void on_watched(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members,
                       int n) {
  weft_membership_t *ms = arg;
  bool is_broken = weft_status_code(status) == WEFT_UNAVAILABLE, ok = status == NULL;
  weft_status_free(status); /* the next tick tries again; watchers are told that the service is lost */
  weft_mutex_lock(&ms->mu);
  if (ok) weft_member_views_update(&ms->view, epoch, members, n);
  if (ok) ms->view.answered_ns = weft_clock_ns();
  if (is_broken) weft_member_views_lose_service(&ms->view);
  ms->watching = false;
  weft_mutex_unlock(&ms->mu);
  notify_watchers(ms);
  if (ok) watch(ms);
  leave(ms);
}

static void watch(weft_membership_t *ms) {
  if (!enter(ms, &ms->watching)) return;
  weft_coordination_caller_t self = caller(ms);
  ms->client->ops->watch(ms->client, &self, WATCH_MS, ms->canceller, on_watched, ms);
}

static void on_absent(void *arg, weft_status_t *status, uint64_t epoch, const weft_member_t *members, int n) {
  weft_membership_t *ms = arg;
  weft_mutex_lock(&ms->mu);
  if (status == NULL) weft_member_views_update(&ms->view, epoch, members, n);
  ms->num_presences--;
  if (weft_status_code(status) == WEFT_UNAVAILABLE) weft_member_views_lose_service(&ms->view);
  weft_mutex_unlock(&ms->mu);
  weft_status_free(status); /* as above */
  notify_watchers(ms);
  leave(ms);
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
  weft_coordination_caller_t self = caller(ms);
  self.epoch = WEFT_COORDINATION_PRESENCE;
  ms->client->ops->watch(ms->client, &self, PRESENCE_MS, ms->canceller, on_absent, ms);
}

/* Whether the answer to a beat says that another process is alive as this task. `status` is lent. */
static void verify(weft_membership_t *ms, const weft_status_t *status) {
  const int64_t now = weft_clock_ns(), limit_ns = 2 * lost_after_ms(&ms->o) * 1000000;
  const bool is_refused = weft_status_code(status) == WEFT_ABORTED;
  weft_mutex_lock(&ms->mu);
  if (ms->is_leaving || ms->stopping) {
    weft_mutex_unlock(&ms->mu);
    return;
  }
  const bool is_first = is_refused && ms->refused_ns == 0, is_back = status == NULL && ms->refused_ns != 0;
  if (is_first) ms->refused_ns = now;
  if (is_first && ms->is_member)
    weft_member_views_lose_all(&ms->view); /* the others have dropped this process */
  if (is_back && ms->is_member) weft_member_views_lose_all(&ms->view);
  const bool is_over = is_refused && now - ms->refused_ns > limit_ns && !ms->is_replaced;
  if (is_over) ms->is_replaced = true;
  if (status == NULL) ms->refused_ns = 0;
  if (status == NULL) ms->is_member = true;
  weft_mutex_unlock(&ms->mu);
  if (is_first)
    weft_log(WEFT_LOG_WARNING,
             "the coordination service refuses the heartbeats of this process: %s; trying again",
             weft_status_message(status));
  if (is_back)
    weft_log(WEFT_LOG_INFO, "the coordination service accepts the heartbeats of this process again");
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
  notify_watchers(ms);
  leave(ms);
}

/* On the task that hosts the service: is it this process that answers at the task's address? */
static void check_address(weft_membership_t *ms) {
  if (ms->self == NULL || !enter(ms, &ms->beating)) return;
  weft_coordination_caller_t self = caller(ms);
  ms->self->ops->beat(ms->self, &self, lost_after_ms(&ms->o), ms->canceller, on_checked, ms);
}

static void on_beaten(void *arg, weft_status_t *status, uint64_t epoch) {
  weft_membership_t *ms = arg;
  (void)epoch; /* the watch brings the cluster state */
  verify(ms, status);
  weft_mutex_lock(&ms->mu);
  bool ok = status == NULL;
  weft_code_t code = weft_status_code(status);
  bool is_away = code == WEFT_UNAVAILABLE || code == WEFT_DEADLINE_EXCEEDED || code == WEFT_CANCELLED ||
                 code == WEFT_ABORTED;
  bool complains = !ok && !is_away && !ms->has_complained;
  if (ok) ms->view.answered_ns = weft_clock_ns();
  if (complains) ms->has_complained = true;
  ms->beating = false;
  weft_mutex_unlock(&ms->mu);
  if (complains) {
    weft_log_status(WEFT_LOG_WARNING, "heartbeats fail", status);
  } else {
    weft_status_free(status); /* as above */
  }
  notify_watchers(ms);
  if (ok) watch(ms); /* if it has ended with a failure */
  leave(ms);
}

static void beat(weft_membership_t *ms) {
  if (!enter(ms, &ms->beating)) return;
  weft_coordination_caller_t self = caller(ms);
  ms->client->ops->beat(ms->client, &self, lost_after_ms(&ms->o), ms->canceller, on_beaten, ms);
}

/* ---- the tick ---- */

static bool is_searching(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  bool is_found = weft_member_views_has_service(&ms->view);
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
  if (ms->service != NULL) weft_coordination_sweep(ms->service);
  if (ms->service == NULL) {
    weft_mutex_lock(&ms->mu);
    weft_member_views_check_silence(&ms->view, lost_after_ms(&ms->o) * 1000000);
    weft_mutex_unlock(&ms->mu);
    be_present(
        ms); /* before the first beat: so that the end of a process that peers have seen is always noticed */
    beat(ms);
  } else {
    watch(ms);
    check_address(ms);
  }
  notify_watchers(ms);
  if (ms->on_tick != NULL) ms->on_tick(ms->on_tick_arg);
  uint64_t id = 0; /* never removed: the timer goes first */
  int64_t pause_ms = ms->o.interval_ms;
  if (pause_ms > SEARCH_MS && ms->service == NULL && is_searching(ms)) pause_ms = SEARCH_MS;
  weft_status_t *s = weft_timer_add(ms->timer, weft_clock_ns() + pause_ms * 1000000, tick, ms, &id);
  weft_status_free(s); /* no memory for a tick: this task is then silent, and lost for the others */
  leave(ms);
}

weft_status_t *weft_membership_start(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  bool again = ms->started || ms->stopping;
  ms->started = true;
  ms->view.answered_ns = weft_clock_ns();
  weft_mutex_unlock(&ms->mu);
  if (again || ms->o.interval_ms == 0) return NULL;
  uint64_t id = 0;
  WEFT_RETURN_IF_ERROR(weft_timer_add(ms->timer, weft_clock_ns(), tick, ms, &id));
  return NULL;
}

static void on_goodbye(void *arg, weft_status_t *status, uint64_t epoch) {
  weft_membership_t *ms = arg;
  (void)epoch;
  weft_status_free(status); /* then the other tasks detect the end of the process */
  weft_mutex_lock(&ms->mu);
  ms->is_saying_goodbye = false;
  weft_cond_broadcast(&ms->idle);
  weft_mutex_unlock(&ms->mu);
}

/* The last beat says that this process is being shut down, so that the other tasks report that as the cause.
 */
static void say_goodbye(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  bool is_heard = ms->started && !ms->stopping && ms->o.interval_ms > 0 && ms->service == NULL &&
                  ms->client != NULL && weft_member_views_has_service(&ms->view);
  ms->is_saying_goodbye = is_heard;
  ms->is_leaving = true;
  weft_mutex_unlock(&ms->mu);
  if (!is_heard) return;
  weft_coordination_caller_t self = caller(ms);
  self.is_leaving = true;
  ms->client->ops->beat(ms->client, &self, GOODBYE_MS, NULL, on_goodbye, ms);
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
  if (ms->requests != NULL) weft_store_requests_stop(ms->requests);
  if (ms->service != NULL) weft_coordination_stop(ms->service);
  weft_mutex_lock(&ms->mu);
  while (ms->in_flight > 0 || ms->is_notifying)
    weft_cond_wait(&ms->idle, &ms->mu); /* woken by leave() and tell(); all is cancelled */
  weft_mutex_unlock(&ms->mu);
}

void weft_membership_destroy(weft_membership_t *ms) {
  if (ms == NULL) return;
  weft_membership_stop(ms);
  weft_timer_destroy(ms->timer);
  if (ms->client != NULL) ms->client->ops->destroy(ms->client);
  if (ms->self != NULL) ms->self->ops->destroy(ms->self);
  weft_coordination_destroy(ms->service);
  weft_store_requests_destroy(ms->requests);
  weft_canceller_release(ms->canceller);
  weft_cond_deinit(&ms->idle);
  weft_mutex_deinit(&ms->mu);
  weft_arena_deinit(&ms->arena);
  weft_free(ms);
}

/* ---- what is known ---- */

uint64_t weft_membership_epoch(weft_membership_t *ms) {
  weft_mutex_lock(&ms->mu);
  uint64_t epoch = ms->view.epoch;
  weft_mutex_unlock(&ms->mu);
  return epoch;
}

int weft_membership_list(weft_membership_t *ms, weft_member_t *out, int max) {
  weft_mutex_lock(&ms->mu);
  for (int i = 0; i < ms->o.num_tasks && i < max; i++) out[i] = weft_member_views_member(&ms->view, i);
  weft_mutex_unlock(&ms->mu);
  return ms->o.num_tasks;
}

/* ---- keys and values ---- */

static void send(weft_membership_t *ms, weft_store_request_t r, weft_canceller_t *canceller,
                 weft_value_fn *fn, void *arg) {
  weft_store_requests_send(ms->requests, ms->client, &r, canceller, fn, arg);
}

void weft_membership_set(weft_membership_t *ms, weft_str_t key, weft_str_t value, weft_value_fn *fn,
                         void *arg) {
  send(ms, (weft_store_request_t){.op = WEFT_STORE_SET, .key = key, .value = value}, NULL, fn, arg);
}

void weft_membership_get(weft_membership_t *ms, weft_str_t key, int64_t timeout_ms,
                         weft_canceller_t *canceller, weft_value_fn *fn, void *arg) {
  send(ms, (weft_store_request_t){.op = WEFT_STORE_GET, .key = key, .timeout_ms = timeout_ms}, canceller, fn,
       arg);
}

void weft_membership_add(weft_membership_t *ms, weft_str_t key, int64_t delta, weft_value_fn *fn, void *arg) {
  send(ms, (weft_store_request_t){.op = WEFT_STORE_ADD, .key = key, .delta = delta}, NULL, fn, arg);
}

void weft_membership_compare_set(weft_membership_t *ms, weft_str_t key, weft_str_t expected,
                                 weft_str_t desired, weft_value_fn *fn, void *arg) {
  send(ms,
       (weft_store_request_t){
           .op = WEFT_STORE_COMPARE_SET, .key = key, .expected = expected, .value = desired},
       NULL, fn, arg);
}

void weft_membership_delete(weft_membership_t *ms, weft_str_t key, weft_value_fn *fn, void *arg) {
  send(ms, (weft_store_request_t){.op = WEFT_STORE_DELETE, .key = key}, NULL, fn, arg);
}

void weft_membership_barrier(weft_membership_t *ms, weft_str_t name, int size, int64_t timeout_ms,
                             weft_canceller_t *canceller, weft_value_fn *fn, void *arg) {
  send(ms,
       (weft_store_request_t){.op = WEFT_STORE_BARRIER, .key = name, .size = size, .timeout_ms = timeout_ms},
       canceller, fn, arg);
}
