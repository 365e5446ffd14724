/* base/timer.c - a list sorted by deadline and a thread that waits for its head.
 *
 * Most entries are removed before they are due. So the thread is woken only for an entry that is due before
 * it wakes by itself, and may wake for one that is gone.
 *
 * Locking: `mu` is a leaf, not held while a callback runs; `running` names the
 * entry whose callback runs, so that remove can wait for it.
 */
#include "base/timer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"

typedef struct timer_entry {
  struct timer_entry *next;
  int64_t deadline_ns;
  uint64_t id;
  weft_timer_fn *fn;
  void *arg;
} timer_entry_t;

struct weft_timer {
  weft_mutex_t mu;
  weft_cond_t changed; /* an entry is due before wakes_ns, or `stopping` changed */
  weft_cond_t idle;    /* `running` became 0 */
  timer_entry_t *head; /* guarded by mu; soonest first */
  uint64_t next_id;    /* guarded by mu */
  uint64_t running;    /* guarded by mu */
  int64_t wakes_ns;    /* guarded by mu: when the thread wakes by itself, INT64_MAX: never; 0: it is awake */
  bool started, stopping; /* guarded by mu */
  pthread_t thread;
};

static void *run(void *arg) {
  weft_timer_t *t = arg;
  weft_mutex_lock(&t->mu);
  while (!t->stopping) {
    timer_entry_t *e = t->head;
    t->wakes_ns = e == NULL ? INT64_MAX : e->deadline_ns;
    if (e == NULL) {
      weft_cond_wait(&t->changed, &t->mu); /* woken by add and destroy */
    } else if (weft_clock_ns() < e->deadline_ns) {
      weft_cond_wait_until(&t->changed, &t->mu, e->deadline_ns);
    } else {
      t->wakes_ns = 0;
      t->head = e->next;
      t->running = e->id;
      weft_mutex_unlock(&t->mu);
      e->fn(e->arg);
      weft_free(e);
      weft_mutex_lock(&t->mu);
      t->running = 0;
      weft_cond_broadcast(&t->idle);
    }
  }
  weft_mutex_unlock(&t->mu);
  return NULL;
}

weft_status_t *weft_timer_create(weft_timer_t **out) {
  weft_timer_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("a timer");
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->changed);
  weft_cond_init(&t->idle);
  t->next_id = 1;
  *out = t;
  return NULL;
}

void weft_timer_destroy(weft_timer_t *t) {
  if (t == NULL) return;
  weft_mutex_lock(&t->mu);
  t->stopping = true;
  bool started = t->started;
  weft_cond_broadcast(&t->changed);
  weft_mutex_unlock(&t->mu);
  if (started) pthread_join(t->thread, NULL);
  while (t->head != NULL) {
    timer_entry_t *e = t->head;
    t->head = e->next;
    weft_free(e);
  }
  weft_cond_deinit(&t->changed);
  weft_cond_deinit(&t->idle);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

weft_status_t *weft_timer_add(weft_timer_t *t, int64_t deadline_ns, weft_timer_fn *fn, void *arg,
                              uint64_t *out_id) {
  timer_entry_t *e = weft_calloc(1, sizeof *e);
  if (e == NULL) return WEFT_NO_MEMORY("a timer");
  *e = (timer_entry_t){.deadline_ns = deadline_ns, .fn = fn, .arg = arg};
  weft_mutex_lock(&t->mu);
  if (!t->started && pthread_create(&t->thread, NULL, run, t) != 0) {
    weft_mutex_unlock(&t->mu);
    weft_free(e);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start the timer's thread");
  }
  t->started = true;
  *out_id = e->id = t->next_id++;
  timer_entry_t **at = &t->head;
  while (*at != NULL && (*at)->deadline_ns <= deadline_ns) at = &(*at)->next;
  e->next = *at;
  *at = e;
  if (deadline_ns < t->wakes_ns) {
    t->wakes_ns = deadline_ns; /* or as soon as it can: no need to wake it twice */
    weft_cond_signal(&t->changed);
  }
  weft_mutex_unlock(&t->mu);
  return NULL;
}

bool weft_timer_remove(weft_timer_t *t, uint64_t id) {
  weft_mutex_lock(&t->mu);
  timer_entry_t **at = &t->head;
  while (*at != NULL && (*at)->id != id) at = &(*at)->next;
  timer_entry_t *e = *at;
  if (e != NULL) *at = e->next;
  bool is_own = t->started && pthread_equal(t->thread, pthread_self());
  while (e == NULL && t->running == id && !is_own) weft_cond_wait(&t->idle, &t->mu); /* woken by run() */
  weft_mutex_unlock(&t->mu);
  bool found = e != NULL;
  weft_free(e);
  return found;
}
