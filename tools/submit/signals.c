/* tools/submit/signals.c - the main thread's loop. SIGWINCH, which is ignored unless it is blocked, is waited
 * for with the others. */
#define _GNU_SOURCE
#include "tools/submit/signals.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { GRACE_MS = 1000 };

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};

void weft_submit_signals_say(const weft_submit_signals_t *w, const char *message) {
  static const char erase[] = "\r\x1b[2K";
  if (w->tick != NULL && write(STDOUT_FILENO, erase, sizeof erase - 1) < 0) return; /* the terminal is gone */
  fprintf(stderr, "weft: %s\n", message);
}

void weft_submit_signals_give_up(const weft_submit_signals_t *w, int code, const char *message) {
  weft_submit_signals_say(w, message);
  _exit(code);
}

static bool is_over(weft_submit_signals_t *w) {
  weft_mutex_lock(&w->mu);
  bool yes = w->is_over;
  weft_mutex_unlock(&w->mu);
  return yes;
}

/* Woken by the end of the job, or by the time. */
static void end_job(weft_submit_signals_t *w, int number) {
  int64_t deadline_ns = weft_clock_ns() + GRACE_MS * INT64_C(1000000);
  bool is_late = false;
  weft_mutex_lock(&w->mu);
  w->number = number;
  if (w->job != NULL) WEFT_JobStop(w->job); /* does not wait */
  while (!w->is_over && !is_late) is_late = !weft_cond_wait_until(&w->ended, &w->mu, deadline_ns);
  bool has_ended = w->is_over;
  weft_mutex_unlock(&w->mu);
  if (!has_ended) weft_submit_signals_give_up(w, 128 + number, "interrupted (CANCELLED)");
}

static void *run(void *arg) {
  weft_submit_signals_t *w = arg;
  w->fn(w->arg);
  weft_mutex_lock(&w->mu);
  w->is_over = true;
  weft_cond_signal(&w->ended);
  weft_mutex_unlock(&w->mu);
  pthread_kill(w->main, SIGTERM); /* wakes it from its wait: it sees that all is over */
  return NULL;
}

weft_status_t *weft_submit_signals_run(weft_submit_signals_t *w, void (*tick)(void *arg),
                                       void (*fn)(void *arg), void *arg) {
  const struct timespec second = {.tv_sec = 1};
  *w = (weft_submit_signals_t){.main = pthread_self(), .fn = fn, .arg = arg, .tick = tick};
  pthread_t job;
  weft_mutex_init(&w->mu);
  weft_cond_init(&w->ended);
  sigemptyset(&w->signals);
  for (size_t k = 0; k < sizeof watched / sizeof watched[0]; k++) sigaddset(&w->signals, watched[k]);
  pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
  bool is_running = pthread_create(&job, NULL, run, w) == 0;
  while (is_running && !is_over(w)) {
    int number = tick == NULL ? sigwaitinfo(&w->signals, NULL) : sigtimedwait(&w->signals, NULL, &second);
    if (is_over(w)) break;
    if (number == SIGWINCH || (number < 0 && errno == EAGAIN)) {
      if (tick != NULL) tick(arg);
    } else if (number > 0) {
      end_job(w, number);
    }
  }
  if (is_running) pthread_join(job, NULL);
  weft_cond_deinit(&w->ended);
  weft_mutex_deinit(&w->mu);
  return is_running ? NULL : WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for a job");
}

int weft_submit_signals_number(weft_submit_signals_t *w) {
  weft_mutex_lock(&w->mu);
  int number = w->number;
  weft_mutex_unlock(&w->mu);
  return number;
}

void weft_submit_signals_job(weft_submit_signals_t *w, WEFT_Job *job) {
  weft_mutex_lock(&w->mu);
  w->job = job;
  if (job != NULL && w->number != 0) WEFT_JobStop(job);
  weft_mutex_unlock(&w->mu);
}
