/* resources/kv_clock.c - clocks of workers.
 *
 * Locking: room.mu guards the clocks; it is a leaf.
 */
#include "resources/kv_clock.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"

const weft_resource_type_t weft_clock_type = {.name = "N4weft5ClockE",
                                              .text = "Clock",
                                              .abandon = weft_clocked_abandon,
                                              .task_lost = weft_clocked_task_changed};

static void free_workers(weft_clocked_t *c) {
  for (int i = 0; c->workers != NULL && i < c->num_workers; i++) weft_free(c->workers[i].task);
  weft_free(c->workers);
}

weft_status_t *weft_clocked_init(weft_clocked_t *c, int num_workers, const weft_str_t *tasks, int num_tasks) {
  if (num_workers < 0 || num_workers > WEFT_MAX_CLOCK_WORKERS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_workers must be at most %d, but is %d", WEFT_MAX_CLOCK_WORKERS,
                      num_workers);
  }
  if (num_tasks > num_workers) {
    return WEFT_ERROR(INVALID_ARGUMENT, "worker_tasks has %d entries for %d workers", num_tasks, num_workers);
  }
  c->num_workers = num_workers;
  c->workers = weft_calloc((size_t)num_workers + 1, sizeof c->workers[0]);
  bool ok = c->workers != NULL;
  for (int i = 0; ok && i < num_tasks; i++) {
    if (tasks[i].length == 0) continue;
    c->workers[i].task = weft_strndup(tasks[i].data, tasks[i].length);
    ok = c->workers[i].task != NULL;
  }
  if (!ok) {
    free_workers(c);
    return WEFT_NO_MEMORY("making %d clocks", num_workers);
  }
  weft_wait_room_init(&c->room);
  c->room.in_any_order = true;
  atomic_init(&c->object.refs, 1);
  return NULL;
}

void weft_clocked_deinit(weft_clocked_t *c) {
  free_workers(c);
  weft_wait_room_deinit(&c->room);
}

void weft_clocked_abandon(weft_object_t *o) { weft_wait_cancel_line(&((weft_clocked_t *)o)->room, 0); }

static void clock_destroy(weft_object_t *o) {
  weft_clocked_deinit((weft_clocked_t *)o);
  weft_free(o);
}

weft_status_t *weft_clock_create(int num_workers, const weft_str_t *tasks, int num_tasks,
                                 weft_object_t **out) {
  weft_clocked_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("making a clock");
  weft_status_t *s = weft_clocked_init(c, num_workers, tasks, num_tasks);
  if (s != NULL) {
    weft_free(c);
    return s;
  }
  c->object.destroy = clock_destroy;
  *out = &c->object;
  return NULL;
}

/* ---- with the lock held ---- */

weft_status_t *weft_clocked_check(const weft_clocked_t *c, int64_t worker) {
  if (worker >= 0 && worker < c->num_workers) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "worker %" PRId64 " is not one of the %d workers of the clock", worker,
                    c->num_workers);
}

int64_t weft_clocked_slowest_locked(const weft_clocked_t *c) {
  int64_t slowest = INT64_MAX;
  for (int i = 0; i < c->num_workers; i++) {
    const weft_worker_clock_t *w = &c->workers[i];
    if (!w->is_removed && w->clock < slowest) slowest = w->clock;
  }
  return slowest;
}

/* No worker is there: it goes on where it was. A removed worker never falls behind where it was. */
int64_t weft_clocked_join_locked(weft_clocked_t *c, int64_t worker) {
  weft_worker_clock_t *w = &c->workers[worker];
  if (w->is_removed) {
    int64_t slowest = weft_clocked_slowest_locked(c);
    if (slowest != INT64_MAX && slowest > w->clock) w->clock = slowest;
    w->is_removed = false;
    if (c->changed != NULL) c->changed(c);
  }
  return w->clock;
}

int64_t weft_clocked_advance_locked(weft_clocked_t *c, int64_t worker) {
  (void)weft_clocked_join_locked(c, worker);
  weft_worker_clock_t *w = &c->workers[worker];
  w->clock++;
  if (c->changed != NULL) c->changed(c);
  return w->clock;
}

/* ---- on their own ---- */

weft_status_t *weft_clocked_advance(weft_clocked_t *c, int64_t worker, int64_t *out_clock) {
  WEFT_RETURN_IF_ERROR(weft_clocked_check(c, worker));
  weft_mutex_lock(&c->room.mu);
  *out_clock = weft_clocked_advance_locked(c, worker);
  weft_mutex_unlock(&c->room.mu);
  weft_wait_flush(&c->room);
  return NULL;
}

weft_status_t *weft_clocked_join(weft_clocked_t *c, int64_t worker, int64_t *out_clock) {
  WEFT_RETURN_IF_ERROR(weft_clocked_check(c, worker));
  weft_mutex_lock(&c->room.mu);
  *out_clock = weft_clocked_join_locked(c, worker);
  weft_mutex_unlock(&c->room.mu);
  return NULL;
}

static void remove_locked(weft_clocked_t *c, int64_t worker) WEFT_REQUIRES(c->room.mu) {
  if (c->workers[worker].is_removed) return;
  c->workers[worker].is_removed = true;
  if (c->changed != NULL) c->changed(c);
}

weft_status_t *weft_clocked_remove(weft_clocked_t *c, int64_t worker) {
  WEFT_RETURN_IF_ERROR(weft_clocked_check(c, worker));
  weft_mutex_lock(&c->room.mu);
  remove_locked(c, worker);
  weft_mutex_unlock(&c->room.mu);
  weft_wait_flush(&c->room);
  return NULL;
}

weft_status_t *weft_clocked_reset(weft_clocked_t *c) {
  if (c->changed != NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "the clocks of a table are set by WeftKvImport alone");
  weft_mutex_lock(&c->room.mu);
  for (int i = 0; i < c->num_workers; i++) {
    c->workers[i].clock = 0;
    c->workers[i].is_removed = false;
  }
  weft_mutex_unlock(&c->room.mu);
  return NULL;
}

void weft_clocked_task_changed(weft_object_t *o, weft_str_t task) {
  weft_clocked_t *c = (weft_clocked_t *)o;
  weft_mutex_lock(&c->room.mu);
  for (int i = 0; i < c->num_workers; i++) {
    if (c->workers[i].task != NULL && weft_str_is(task, c->workers[i].task)) remove_locked(c, i);
  }
  weft_mutex_unlock(&c->room.mu);
  weft_wait_flush(&c->room);
}

void weft_clocked_read(weft_clocked_t *c, int64_t *out_clocks) {
  weft_mutex_lock(&c->room.mu);
  for (int i = 0; i < c->num_workers; i++)
    out_clocks[i] = c->workers[i].is_removed ? -1 : c->workers[i].clock;
  weft_mutex_unlock(&c->room.mu);
}

/* ---- waiting ---- */

void weft_clock_timeout_set(weft_clock_timeout_t p, weft_room_waiter_t *w) {
  static const double longest_s = 1e9; /* so that nanoseconds fit */
  if (p.timer == NULL || !(p.seconds > 0)) return;
  w->timer = p.timer;
  w->deadline_ns = weft_clock_ns() + (int64_t)((p.seconds < longest_s ? p.seconds : longest_s) * 1e9);
}

void weft_clocked_missing_locked(const weft_clocked_t *c, int64_t needs, weft_clock_missing_t *out) {
  *out = (weft_clock_missing_t){0};
  for (int i = 0; i < c->num_workers; i++) {
    if (c->workers[i].is_removed || c->workers[i].clock >= needs) continue;
    if (out->n < WEFT_LISTED_NAMES) {
      out->first[out->n].worker = i;
      out->first[out->n].clock = c->workers[i].clock;
    }
    out->n++;
  }
}

weft_status_t *weft_clocked_too_late(const weft_clocked_t *c, int64_t worker, int64_t needs, double seconds,
                                     const weft_clock_missing_t *missing) {
  weft_name_list_t names = {0};
  for (int i = 0; i < missing->n && i < WEFT_LISTED_NAMES; i++) {
    const char *task = c->workers[missing->first[i].worker].task;
    weft_name_list_add(&names, "worker %d (%s%sat clock %" PRId64 ")", missing->first[i].worker,
                       task == NULL ? "" : task, task == NULL ? "" : ", ", missing->first[i].clock);
  }
  names.n = missing->n;
  return WEFT_ERROR(DEADLINE_EXCEEDED, "worker %" PRId64 " has waited %g s for %s to come to clock %" PRId64,
                    worker, seconds, names.n == 0 ? "the others" : weft_name_list_text(&names), needs);
}

typedef struct clock_wait {
  weft_room_waiter_t waiter; /* first; waiter.owner is the clocked object */
  int64_t worker, needs, slowest;
  double seconds;
  weft_clock_missing_t missing;
} clock_wait_t;

/* Runs under the room's lock. */
static weft_wait_result_t try_wait(weft_room_waiter_t *w) {
  clock_wait_t *t = (clock_wait_t *)w;
  t->slowest = weft_clocked_slowest_locked((weft_clocked_t *)w->owner);
  return t->slowest >= t->needs ? WEFT_WAIT_DONE : WEFT_WAIT_STUCK;
}

/* Runs under the room's lock. */
static void note_missing(weft_room_waiter_t *w) {
  clock_wait_t *t = (clock_wait_t *)w;
  weft_clocked_missing_locked((weft_clocked_t *)w->owner, t->needs, &t->missing);
}

static void finish_wait(weft_room_waiter_t *w) {
  clock_wait_t *t = (clock_wait_t *)w;
  const weft_resource_call_t call = w->call;
  weft_status_t *s = weft_wait_failure(w);
  if (w->is_late) {
    s = weft_clocked_too_late((weft_clocked_t *)w->owner, t->worker, t->needs, t->seconds, &t->missing);
  } else if (s == NULL) {
    s = weft_tensor_scalar(WEFT_I64, &t->slowest, &call.outputs[0].tensor);
  }
  weft_free(t);
  weft_resource_call_end(&call, s);
}

static weft_status_t *make_wait(weft_clocked_t *c, const weft_resource_call_t *call, int64_t worker,
                                int64_t needs, weft_clock_timeout_t timeout, clock_wait_t **out) {
  clock_wait_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("waiting for a clock");
  t->worker = worker;
  t->needs = needs;
  t->seconds = timeout.seconds;
  t->waiter.call = *call;
  t->waiter.owner = weft_object_retain(&c->object);
  t->waiter.cancelled = "The wait for the slowest worker was cancelled";
  t->waiter.attempt = try_wait;
  t->waiter.finish = finish_wait;
  t->waiter.expired = note_missing;
  weft_clock_timeout_set(timeout, &t->waiter);
  *out = t;
  return NULL;
}

void weft_clocked_wait(weft_clocked_t *c, const weft_resource_call_t *call, int64_t worker, int64_t staleness,
                       weft_clock_timeout_t timeout) {
  weft_status_t *s = weft_clocked_check(c, worker);
  clock_wait_t *t = NULL;
  if (s == NULL && staleness < 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "staleness must be at least 0, but is %" PRId64, staleness);
  }
  int64_t needs = 0;
  if (s == NULL) {
    weft_mutex_lock(&c->room.mu);
    int64_t own = weft_clocked_join_locked(c, worker);
    needs = staleness < own ? own - staleness : 0;
    weft_mutex_unlock(&c->room.mu);
    s = make_wait(c, call, worker, needs, timeout, &t);
  }
  if (s != NULL) {
    weft_resource_call_end(call, s);
  } else {
    weft_wait(&c->room, &t->waiter);
  }
}
