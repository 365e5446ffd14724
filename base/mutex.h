/* base/mutex.h - a mutex that clang can reason about (-Wthread-safety), and its condition.
 *
 * In C, clang checks functions but not fields: annotate "x_locked" helpers with
 * WEFT_REQUIRES and say in the struct which fields the mutex guards.
 */
#ifndef WEFT_BASE_MUTEX_H_
#define WEFT_BASE_MUTEX_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#define WEFT_TSA(x) __attribute__((x))
#else
#define WEFT_TSA(x)
#endif
#define WEFT_REQUIRES(mu) WEFT_TSA(requires_capability(mu))
#define WEFT_EXCLUDES(mu) WEFT_TSA(locks_excluded(mu))
/* Of a function whose caller holds the locks of an array, which the analysis cannot follow. */
#define WEFT_HOLDS_LOCKS_OF_ARRAY WEFT_TSA(no_thread_safety_analysis)

typedef struct WEFT_TSA(capability("mutex")) weft_mutex {
  pthread_mutex_t impl;
} weft_mutex_t;

/* For a mutex with static storage. */
#define WEFT_MUTEX_INITIALIZER \
  { PTHREAD_MUTEX_INITIALIZER }

void weft_mutex_init(weft_mutex_t *mu);
void weft_mutex_deinit(weft_mutex_t *mu);
void weft_mutex_lock(weft_mutex_t *mu) WEFT_TSA(acquire_capability(mu));
void weft_mutex_unlock(weft_mutex_t *mu) WEFT_TSA(release_capability(mu));

/* Waits are on the monotonic clock. Spurious wake-ups happen: wait in a loop. */
typedef struct weft_cond {
  pthread_cond_t impl;
} weft_cond_t;

void weft_cond_init(weft_cond_t *cond);
void weft_cond_deinit(weft_cond_t *cond);
void weft_cond_signal(weft_cond_t *cond);
void weft_cond_broadcast(weft_cond_t *cond);
void weft_cond_wait(weft_cond_t *cond, weft_mutex_t *mu) WEFT_REQUIRES(mu);
/* False when `deadline_ns` (on weft_clock_ns()'s scale) has passed. */
bool weft_cond_wait_until(weft_cond_t *cond, weft_mutex_t *mu, int64_t deadline_ns) WEFT_REQUIRES(mu);

#endif /* WEFT_BASE_MUTEX_H_ */
