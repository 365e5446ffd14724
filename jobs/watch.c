/* jobs/watch.c - waits for a stop, and looks at the master once a second.
 *
 * Locking: `mu` is a leaf. The session is closed and the master looked at without it.
 */
#include "jobs/watch.h"

#include <signal.h>

#include "base/clock.h"
#include "jobs/master_probe.h"

enum { PERIOD_MS = 1000, QUIET_MS = 2000, SLOW_MS = 10000 };
#define NS_PER_MS INT64_C(1000000)

static void close_locked(weft_job_watch_t *w) WEFT_REQUIRES(w->mu) {
  TF_Session *session = w->session;
  w->is_closing = w->is_closed = true;
  weft_mutex_unlock(&w->mu);
  TF_Status *status = TF_NewStatus();
  if (status != NULL) TF_CloseSession(session, status); /* what it says does not matter: the job is over */
  TF_DeleteStatus(status);
  weft_mutex_lock(&w->mu);
  w->is_closing = false;
  weft_cond_broadcast(&w->changed);
}

/* Nothing has happened for a while: is the master still there? Is the wait for the first answer long enough
 * to be told? */
static void look_at_master_locked(weft_job_watch_t *w) WEFT_REQUIRES(w->mu) {
  int64_t quiet_ms =
      (weft_clock_ns() - atomic_load_explicit(&w->progress_ns, memory_order_relaxed)) / NS_PER_MS;
  if (w->master == NULL || w->session == NULL || quiet_ms < QUIET_MS) return;
  bool is_slow =
      quiet_ms >= SLOW_MS && !atomic_load_explicit(&w->has_begun, memory_order_relaxed) && !w->is_slow_told;
  w->is_slow_told = w->is_slow_told || is_slow;
  weft_mutex_unlock(&w->mu);
  bool is_gone = true;
  for (int i = 0; is_gone && i < 2; i++) is_gone = !weft_job_master_is_there(w->master);
  weft_mutex_lock(&w->mu);
  is_gone = is_gone && w->session != NULL && !w->is_over; /* the job may have ended meanwhile */
  w->is_lost = w->is_lost || is_gone;
  w->is_stopped = w->is_stopped || is_gone;
  weft_mutex_unlock(&w->mu);
  if (is_gone || is_slow) w->fn(w->arg, is_gone);
  weft_mutex_lock(&w->mu);
}

static void *watch(void *arg) {
  weft_job_watch_t *w = arg;
  weft_mutex_lock(&w->mu);
  while (!w->is_over) {
    if (w->is_stopped && w->session != NULL && !w->is_closed) {
      close_locked(w);
    } else if (!weft_cond_wait_until(&w->changed, &w->mu, weft_clock_ns() + PERIOD_MS * NS_PER_MS) &&
               !w->is_stopped) {
      look_at_master_locked(w);
    }
  }
  weft_mutex_unlock(&w->mu);
  return NULL;
}

weft_status_t *weft_job_watch_start(weft_job_watch_t *w, const char *master, weft_job_watch_fn *fn,
                                    void *arg) {
  sigset_t all, before;
  *w = (weft_job_watch_t){.master = master, .fn = fn, .arg = arg};
  weft_mutex_init(&w->mu);
  weft_cond_init(&w->changed);
  atomic_store(&w->progress_ns, weft_clock_ns());
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
  w->is_started = pthread_create(&w->thread, NULL, watch, w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return w->is_started ? NULL : WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for a job");
}

void weft_job_watch_end(weft_job_watch_t *w) {
  if (w->fn == NULL) return; /* never started */
  weft_mutex_lock(&w->mu);
  w->is_over = true;
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
  if (w->is_started) pthread_join(w->thread, NULL);
  weft_cond_deinit(&w->changed);
  weft_mutex_deinit(&w->mu);
  *w = (weft_job_watch_t){.master = NULL};
}

void weft_job_watch_attach(weft_job_watch_t *w, TF_Session *session) {
  weft_mutex_lock(&w->mu);
  w->session = session;
  w->is_closed = false;
  atomic_store_explicit(&w->progress_ns, weft_clock_ns(), memory_order_relaxed);
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
}

void weft_job_watch_detach(weft_job_watch_t *w) {
  if (w->fn == NULL) return;
  weft_mutex_lock(&w->mu);
  w->session = NULL;
  while (w->is_closing) weft_cond_wait(&w->changed, &w->mu);
  weft_mutex_unlock(&w->mu);
}

void weft_job_watch_progress(weft_job_watch_t *w) {
  atomic_store_explicit(&w->progress_ns, weft_clock_ns(), memory_order_relaxed);
  if (!atomic_load_explicit(&w->has_begun, memory_order_relaxed))
    atomic_store_explicit(&w->has_begun, true, memory_order_relaxed);
}

void weft_job_watch_stop(weft_job_watch_t *w) {
  weft_mutex_lock(&w->mu);
  w->is_stopped = true;
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
}

bool weft_job_watch_wait(weft_job_watch_t *w, int64_t until_ns) {
  weft_mutex_lock(&w->mu);
  while (!w->is_stopped && weft_cond_wait_until(&w->changed, &w->mu, until_ns)) continue;
  const bool is_stopped = w->is_stopped;
  weft_mutex_unlock(&w->mu);
  return is_stopped;
}

bool weft_job_watch_is_stopped(weft_job_watch_t *w, bool *out_lost) {
  weft_mutex_lock(&w->mu);
  bool yes = w->is_stopped;
  *out_lost = w->is_lost;
  weft_mutex_unlock(&w->mu);
  return yes;
}
