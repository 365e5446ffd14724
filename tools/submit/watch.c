/* tools/submit/watch.c - the main thread's loop, the job's thread, and one more for closing a session.
 *
 * Locking: `mu` is a leaf. The closing thread calls the session without it.
 */
#define _GNU_SOURCE
#include "tools/submit/watch.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/submit/master_probe.h"

enum { GRACE_MS = 1000, QUIET_MS = 2000, SLOW_MS = 10000, EXIT_FAILED = 1 };

static const int watched[] = {SIGINT, SIGTERM, SIGHUP};

/* A line on standard error; a bar that is in the way is erased. */
static void say(weft_watch_t *w, const char *message) {
  static const char erase[] = "\r\x1b[2K";
  if (w->has_bar && write(STDOUT_FILENO, erase, sizeof erase - 1) < 0) return; /* the terminal is gone */
  fprintf(stderr, "weft: %s\n", message);
}

/* Ends the process while the job hangs in a call. */
static void give_up(weft_watch_t *w, int code, const char *message) {
  say(w, message);
  _exit(code);
}

static bool is_over(weft_watch_t *w) {
  weft_mutex_lock(&w->mu);
  bool yes = w->is_over;
  weft_mutex_unlock(&w->mu);
  return yes;
}

static void *close_session(void *arg) {
  TF_Status *status = TF_NewStatus();
  TF_CloseSession(arg, status); /* what it says does not matter: the job is over */
  TF_DeleteStatus(status);
  return NULL;
}

/* Who wakes us: the end of the job, or the time. */
static void end_job(weft_watch_t *w, int signal_number) {
  int64_t deadline_ns = weft_clock_ns() + GRACE_MS * INT64_C(1000000);
  weft_mutex_lock(&w->mu);
  w->signal_number = signal_number;
  if (w->session != NULL) w->is_closing = pthread_create(&w->closer, NULL, close_session, w->session) == 0;
  bool is_late = false;
  while (!w->is_over && !is_late) is_late = !weft_cond_wait_until(&w->ended, &w->mu, deadline_ns);
  bool has_ended = w->is_over;
  weft_mutex_unlock(&w->mu);
  if (!has_ended) give_up(w, 128 + signal_number, "interrupted (CANCELLED)");
}

/* Nothing has happened for a while: is the master still there? Does the person know what we wait for? */
static void look_after(weft_watch_t *w) {
  weft_mutex_lock(&w->mu);
  int64_t quiet_ms = (weft_clock_ns() - w->progress_ns) / 1000000;
  const char *master = w->session != NULL && quiet_ms >= QUIET_MS ? w->master : NULL;
  bool is_slow = master != NULL && quiet_ms >= SLOW_MS && !w->has_begun && !w->is_slow_told;
  w->is_slow_told = w->is_slow_told || is_slow;
  weft_mutex_unlock(&w->mu);
  if (master == NULL) return;
  bool is_gone = !weft_master_is_there(master) && !weft_master_is_there(master);
  char message[300];
  if (is_gone && !is_over(w)) {
    snprintf(message, sizeof message, "the master at %s is gone; start it again, then the job (UNAVAILABLE)", master);
    give_up(w, EXIT_FAILED, message);
  }
  snprintf(message, sizeof message, "still waiting for %s; are all tasks of its cluster running?", master);
  if (is_slow) say(w, message);
}

static void *run_job(void *arg) {
  weft_watch_t *w = arg;
  w->fn(w->arg);
  weft_mutex_lock(&w->mu);
  w->is_over = true;
  weft_cond_signal(&w->ended);
  weft_mutex_unlock(&w->mu);
  pthread_kill(w->main, SIGTERM); /* wakes it from its wait: it sees that all is over */
  return NULL;
}

/* Who wakes it: a signal, the job's end by one, too, or the time. */
static void wait_for_signals(weft_watch_t *w) {
  const struct timespec pause = {.tv_sec = 1};
  while (!is_over(w)) {
    int number = sigtimedwait(&w->signals, NULL, &pause);
    if (is_over(w)) return;
    if (number > 0) {
      end_job(w, number);
    } else {
      look_after(w);
    }
  }
}

weft_status_t *weft_watch_run(weft_watch_t *w, bool has_bar, weft_watched_fn *fn, void *arg) {
  *w = (weft_watch_t){.main = pthread_self(), .fn = fn, .arg = arg, .has_bar = has_bar};
  pthread_t job;
  weft_mutex_init(&w->mu);
  weft_cond_init(&w->ended);
  sigemptyset(&w->signals);
  for (size_t k = 0; k < sizeof watched / sizeof watched[0]; k++) sigaddset(&w->signals, watched[k]);
  pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
  bool is_running = pthread_create(&job, NULL, run_job, w) == 0;
  if (is_running) {
    wait_for_signals(w);
    pthread_join(job, NULL);
  }
  weft_cond_deinit(&w->ended);
  weft_mutex_deinit(&w->mu);
  return is_running ? NULL : WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for a job");
}

void weft_watch_session(weft_watch_t *w, TF_Session *session, const char *master) {
  weft_mutex_lock(&w->mu);
  w->session = session;
  w->master = master;
  w->progress_ns = weft_clock_ns();
  weft_mutex_unlock(&w->mu);
}

void weft_watch_forget(weft_watch_t *w) {
  weft_mutex_lock(&w->mu);
  bool is_closing = w->is_closing;
  w->is_closing = false;
  if (!is_closing) w->session = NULL;
  weft_mutex_unlock(&w->mu);
  if (is_closing) pthread_join(w->closer, NULL);
}

void weft_watch_progress(weft_watch_t *w) {
  weft_mutex_lock(&w->mu);
  w->has_begun = true;
  w->progress_ns = weft_clock_ns();
  weft_mutex_unlock(&w->mu);
}

int weft_watch_signal(weft_watch_t *w) {
  weft_mutex_lock(&w->mu);
  int number = w->signal_number;
  weft_mutex_unlock(&w->mu);
  return number;
}
