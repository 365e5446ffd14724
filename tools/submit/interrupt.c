/* tools/submit/interrupt.c - one thread for the signals, one more for closing a session once it is needed.
 *
 * Locking: `mu` is a leaf. The closing thread calls the session without it.
 */
#define _GNU_SOURCE
#include "tools/submit/interrupt.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { GRACE_MS = 1000, LONG_S = 10 };

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

static void *close_session(void *arg) {
  TF_Status *status = TF_NewStatus();
  TF_CloseSession(arg, status); /* what it says does not matter: the job is over */
  TF_DeleteStatus(status);
  return NULL;
}

/* Gives the job a second to end; the process ends anyway. */
static void end_job(weft_interrupt_t *i, int signal_number) {
  int64_t deadline_ns = weft_clock_ns() + GRACE_MS * INT64_C(1000000);
  weft_mutex_lock(&i->mu);
  i->signal_number = signal_number;
  if (i->session != NULL) i->is_closing = pthread_create(&i->closer, NULL, close_session, i->session) == 0;
  bool is_late = false;
  while (!i->is_over && !is_late) is_late = !weft_cond_wait_until(&i->ended, &i->mu, deadline_ns);
  bool is_over = i->is_over;
  weft_mutex_unlock(&i->mu);
  if (is_over) return;
  fprintf(stderr, "weft: interrupted (CANCELLED)\n");
  _exit(128 + signal_number);
}

/* Once per wait. */
static void say_what_takes_long(weft_interrupt_t *i) {
  weft_mutex_lock(&i->mu);
  const char *what = i->waiting_for;
  if (what != NULL && weft_clock_ns() - i->waiting_since_ns < LONG_S * INT64_C(1000000000)) what = NULL;
  if (what != NULL) i->waiting_for = NULL;
  weft_mutex_unlock(&i->mu);
  if (what != NULL) fprintf(stderr, "weft: still waiting for %s\n", what);
}

static bool is_over(weft_interrupt_t *i) {
  weft_mutex_lock(&i->mu);
  bool yes = i->is_over;
  weft_mutex_unlock(&i->mu);
  return yes;
}

/* Who wakes it: a signal, weft_interrupt_stop() by one, too, or the time. */
static void *wait_for_signals(void *arg) {
  weft_interrupt_t *i = arg;
  const struct timespec pause = {.tv_sec = LONG_S / 4};
  while (!is_over(i)) {
    int number = sigtimedwait(&i->signals, NULL, &pause);
    if (is_over(i)) break;
    if (number > 0) {
      end_job(i, number);
      break;
    }
    say_what_takes_long(i);
  }
  return NULL;
}

weft_status_t *weft_interrupt_start(weft_interrupt_t *i) {
  *i = (weft_interrupt_t){.session = NULL};
  weft_mutex_init(&i->mu);
  weft_cond_init(&i->ended);
  sigemptyset(&i->signals);
  for (size_t k = 0; k < sizeof signals / sizeof signals[0]; k++) sigaddset(&i->signals, signals[k]);
  pthread_sigmask(SIG_BLOCK, &i->signals, NULL);
  if (pthread_create(&i->thread, NULL, wait_for_signals, i) == 0) return NULL;
  weft_cond_deinit(&i->ended);
  weft_mutex_deinit(&i->mu);
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for signals");
}

void weft_interrupt_stop(weft_interrupt_t *i) {
  weft_interrupt_watch(i, NULL);
  weft_mutex_lock(&i->mu);
  i->is_over = true;
  weft_cond_signal(&i->ended);
  weft_mutex_unlock(&i->mu);
  pthread_kill(i->thread, SIGTERM); /* wakes it from its wait: it sees that all is over */
  pthread_join(i->thread, NULL);
  weft_cond_deinit(&i->ended);
  weft_mutex_deinit(&i->mu);
}

void weft_interrupt_watch(weft_interrupt_t *i, TF_Session *session) {
  weft_mutex_lock(&i->mu);
  i->session = session;
  bool is_closing = i->is_closing;
  i->is_closing = false;
  weft_mutex_unlock(&i->mu);
  if (is_closing) pthread_join(i->closer, NULL);
}

void weft_interrupt_expect(weft_interrupt_t *i, const char *waiting_for) {
  weft_mutex_lock(&i->mu);
  i->waiting_for = waiting_for;
  i->waiting_since_ns = weft_clock_ns();
  weft_mutex_unlock(&i->mu);
}

int weft_interrupt_signal(weft_interrupt_t *i) {
  weft_mutex_lock(&i->mu);
  int number = i->signal_number;
  weft_mutex_unlock(&i->mu);
  return number;
}
