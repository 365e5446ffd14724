/* master/discover.c - asks workers for their devices, all at once, and ends when one of them is known to be
 * lost or has not answered for too long.
 *
 * A tick looks at those that have not answered. It adds the next one as its last act, under `mu`: the thread
 * that ends the discovery has either seen that tick's id, or waits for the tick when it removes the one
 * before. A tick that gives up cancels the questions as its last act instead.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/name_list.h"
#include "master/create_session.h"

/* A task that was lost and has just been started again is heard of within a tick. */
enum { TICK_MS = 250 };
#define LOG_NS 10000000000 /* TensorFlow's masters log as often */

typedef struct discovery discovery_t;

typedef struct discovery_query {
  discovery_t *discovery;
  weft_str_t task; /* the worker that was asked; lent by it */
  atomic_bool is_answered;
} discovery_query_t;

struct discovery {
  weft_mutex_t mu;
  weft_device_set_t devices; /* guarded by mu */
  weft_status_t *status;     /* guarded by mu; the first failure */
  atomic_int left;
  int num_questions;
  weft_discover_options_t o;
  weft_canceller_t *canceller; /* of the questions; a child of the caller's */
  int64_t began_ns, logged_ns;
  uint64_t tick; /* guarded by mu; 0: none */
  bool is_over;  /* guarded by mu */
  weft_discovered_fn *fn;
  void *arg;
  discovery_query_t questions[]; /* one per worker */
};

/* ---- those that do not answer ---- */

static void look(void *arg);

static void arm(discovery_t *d) {
  weft_mutex_lock(&d->mu);
  d->tick = 0;
  weft_status_t *s = d->is_over ? NULL
                                : weft_timer_add(d->o.timer, weft_clock_ns() + TICK_MS * INT64_C(1000000),
                                                 look, d, &d->tick);
  weft_mutex_unlock(&d->mu);
  weft_status_free(s); /* then it waits until the caller gives up */
}

static void disarm(discovery_t *d) {
  weft_mutex_lock(&d->mu);
  d->is_over = true;
  uint64_t tick = d->tick;
  weft_mutex_unlock(&d->mu);
  if (tick != 0) weft_timer_remove(d->o.timer, tick);
}

static weft_status_t *too_late(const discovery_t *d) {
  weft_name_list_t names = {0};
  for (int i = 0; i < d->num_questions; i++) {
    if (!atomic_load(&d->questions[i].is_answered))
      weft_name_list_add(&names, "%.*s", WEFT_STR_ARGS(d->questions[i].task));
  }
  return WEFT_ERROR(UNAVAILABLE, "No answer from %s for %lld s; start %s, then the session",
                    names.n == 0 ? "a task" : weft_name_list_text(&names),
                    (long long)(d->o.discovery_timeout_ms / 1000), names.n == 1 ? "it" : "them");
}

/* Why the discovery ends now, or NULL. */
static weft_status_t *give_up(discovery_t *d) {
  int64_t now = weft_clock_ns();
  bool logs = now - d->logged_ns >= LOG_NS;
  if (logs) d->logged_ns = now;
  for (int i = 0; i < d->num_questions; i++) {
    if (atomic_load(&d->questions[i].is_answered)) continue;
    weft_worker_cache_t *cache = d->o.cache;
    weft_status_t *s = cache == NULL || cache->lost == NULL ? NULL : cache->lost(cache, d->questions[i].task);
    if (s != NULL) return s;
    if (logs)
      weft_log(WEFT_LOG_INFO, "CreateSession still waiting for response from worker: %.*s",
               WEFT_STR_ARGS(d->questions[i].task));
  }
  return now - d->began_ns < d->o.discovery_timeout_ms * INT64_C(1000000) ? NULL : too_late(d);
}

static void look(void *arg) {
  discovery_t *d = arg;
  weft_status_t *s = give_up(d);
  if (s == NULL) {
    arm(d);
    return;
  }
  weft_canceller_t *c = weft_canceller_retain(d->canceller);
  weft_mutex_lock(&d->mu);
  bool first = d->status == NULL;
  if (first) d->status = s;
  weft_mutex_unlock(&d->mu);
  if (!first) weft_status_free(s);
  weft_canceller_cancel(c); /* with the last question the discovery is gone */
  weft_canceller_release(c);
}

/* ---- the questions ---- */

static void drop(discovery_t *d) {
  if (atomic_fetch_sub(&d->left, 1) != 1) return;
  disarm(d);
  d->fn(d->arg, d->status, &d->devices);
  weft_device_set_deinit(&d->devices);
  weft_canceller_release(d->canceller);
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

static void got_status(void *arg, weft_status_t *status, const weft_device_list_t *reported) {
  discovery_query_t *q = arg;
  discovery_t *d = q->discovery;
  atomic_store(&q->is_answered, true);
  weft_mutex_lock(&d->mu);
  if (status == NULL) status = weft_device_set_add(&d->devices, q->task, reported);
  bool first = d->status == NULL;
  if (first) d->status = status;
  weft_mutex_unlock(&d->mu);
  if (!first) weft_status_free(status);
  drop(d);
}

void weft_discover_devices(weft_worker_client_t *const *workers, int n, const weft_discover_options_t *o,
                           weft_canceller_t *c, weft_discovered_fn *fn, void *arg) {
  discovery_t *d = weft_calloc(1, sizeof *d + (size_t)n * sizeof(discovery_query_t));
  weft_canceller_t *canceller = d == NULL ? NULL : weft_canceller_create(c);
  if (canceller == NULL) {
    weft_free(d);
    fn(arg, WEFT_NO_MEMORY("asking workers"), NULL);
    return;
  }
  weft_mutex_init(&d->mu);
  atomic_init(&d->left, n + 1);
  d->fn = fn;
  d->arg = arg;
  d->o = *o;
  if (d->o.discovery_timeout_ms <= 0) d->o.discovery_timeout_ms = WEFT_DISCOVERY_TIMEOUT_MS;
  d->canceller = canceller;
  d->began_ns = d->logged_ns = weft_clock_ns();
  d->num_questions = n;
  for (int i = 0; i < n; i++) {
    d->questions[i].discovery = d;
    d->questions[i].task = workers[i]->task;
  }
  arm(d);
  for (int i = 0; i < n; i++)
    workers[i]->ops->get_status(workers[i], canceller, got_status, &d->questions[i]);
  drop(d);
}
