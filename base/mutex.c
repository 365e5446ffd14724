/* base/mutex.c - pthreads, where a failure can only be a programming error. */
#include "base/mutex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* These fail only on a programming error, which no caller could handle: a lock that is destroyed while a
 * thread has it, say. */
static void must_have(int rc, const char *call) {
  if (rc == 0) return;
  fprintf(stderr, "weft: %s: error %d\n", call, rc);
  abort();
}
#define must(call) must_have((call), #call)

void weft_mutex_init(weft_mutex_t *mu) { must(pthread_mutex_init(&mu->impl, NULL)); }
void weft_mutex_deinit(weft_mutex_t *mu) { must(pthread_mutex_destroy(&mu->impl)); }
void weft_mutex_lock(weft_mutex_t *mu) WEFT_TSA(no_thread_safety_analysis) {
  must(pthread_mutex_lock(&mu->impl));
}
void weft_mutex_unlock(weft_mutex_t *mu) WEFT_TSA(no_thread_safety_analysis) {
  must(pthread_mutex_unlock(&mu->impl));
}

void weft_cond_init(weft_cond_t *cond) {
  pthread_condattr_t attr;
  must(pthread_condattr_init(&attr));
  must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
  must(pthread_cond_init(&cond->impl, &attr));
  must(pthread_condattr_destroy(&attr));
}

void weft_cond_deinit(weft_cond_t *cond) { must(pthread_cond_destroy(&cond->impl)); }
void weft_cond_signal(weft_cond_t *cond) { must(pthread_cond_signal(&cond->impl)); }
void weft_cond_broadcast(weft_cond_t *cond) { must(pthread_cond_broadcast(&cond->impl)); }
void weft_cond_wait(weft_cond_t *cond, weft_mutex_t *mu) { must(pthread_cond_wait(&cond->impl, &mu->impl)); }

bool weft_cond_wait_until(weft_cond_t *cond, weft_mutex_t *mu, int64_t deadline_ns) {
  struct timespec until = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
  int rc = pthread_cond_timedwait(&cond->impl, &mu->impl, &until);
  if (rc != ETIMEDOUT) must_have(rc, "pthread_cond_timedwait");
  return rc == 0;
}
