/* master/discover.c - asks workers for their devices, all at once; says now and then whom it still waits for.
 *
 * A tick of the timer adds the next one as its last act, under `mu`: whoever
 * ends the discovery has either seen that tick's id, or waits for the tick when
 * it removes the one before.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "master/create_session.h"

#define PATIENCE_NS 10000000000 /* TensorFlow's masters log as often */

typedef struct discovery discovery_t;

typedef struct question {
  discovery_t *discovery;
  weft_str_t task; /* the worker that was asked; lent by it */
  atomic_bool is_answered;
} question_t;

struct discovery {
  weft_mutex_t mu;
  weft_device_set_t devices; /* guarded by mu */
  weft_status_t *status;     /* guarded by mu; the first failure */
  atomic_int left;
  int num_questions;
  weft_timer_t *timer;
  uint64_t tick; /* guarded by mu; 0: none */
  bool is_over;  /* guarded by mu */
  weft_discovered_fn *fn;
  void *arg;
  question_t questions[]; /* one per worker */
};

static void arm(discovery_t *d);

static void still_waiting(void *arg) {
  discovery_t *d = arg;
  for (int i = 0; i < d->num_questions; i++) {
    if (atomic_load(&d->questions[i].is_answered)) continue;
    weft_log(WEFT_LOG_INFO, "CreateSession still waiting for response from worker: %.*s",
             WEFT_STR_ARGS(d->questions[i].task));
  }
  arm(d);
}

static void arm(discovery_t *d) {
  weft_mutex_lock(&d->mu);
  d->tick = 0;
  weft_status_t *s =
      d->is_over ? NULL : weft_timer_add(d->timer, weft_clock_ns() + PATIENCE_NS, still_waiting, d, &d->tick);
  weft_mutex_unlock(&d->mu);
  weft_status_free(s); /* then we wait in silence */
}

static void disarm(discovery_t *d) {
  weft_mutex_lock(&d->mu);
  d->is_over = true;
  uint64_t tick = d->tick;
  weft_mutex_unlock(&d->mu);
  if (tick != 0) weft_timer_remove(d->timer, tick);
}

static void drop(discovery_t *d) {
  if (atomic_fetch_sub(&d->left, 1) != 1) return;
  disarm(d);
  d->fn(d->arg, d->status, &d->devices);
  weft_device_set_deinit(&d->devices);
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

static void got_status(void *arg, weft_status_t *status, const weft_device_list_t *reported) {
  question_t *q = arg;
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

void weft_discover_devices(weft_worker_client_t *const *workers, int n, weft_timer_t *timer,
                           weft_canceller_t *c, weft_discovered_fn *fn, void *arg) {
  discovery_t *d = weft_calloc(1, sizeof *d + (size_t)n * sizeof(question_t));
  if (d == NULL) {
    fn(arg, WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for asking workers"), NULL);
    return;
  }
  weft_mutex_init(&d->mu);
  atomic_init(&d->left, n + 1);
  d->fn = fn;
  d->arg = arg;
  d->timer = timer;
  d->num_questions = n;
  for (int i = 0; i < n; i++) {
    d->questions[i].discovery = d;
    d->questions[i].task = workers[i]->task;
  }
  arm(d);
  for (int i = 0; i < n; i++) workers[i]->ops->get_status(workers[i], c, got_status, &d->questions[i]);
  drop(d);
}
