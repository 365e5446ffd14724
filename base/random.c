/* base/random.c - getrandom(2), with a buffer per thread so that a step's ids cost no system call.
 *
 * A child made by fork() has a copy of the buffer: it must not use it, or two
 * processes would call different things by one id.
 */
#define _GNU_SOURCE
#include "base/random.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/random.h>

#include "base/clock.h"

static atomic_uint generation = 1; /* of this process: the number of forks since its first ancestor */

static void on_fork(void) { atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed); }
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, on_fork); }

static void fill(uint64_t *pool, size_t n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  if (getrandom(pool, n * sizeof *pool, 0) == (ssize_t)(n * sizeof *pool)) return;
  /* Not possible for 512 bytes once the generator is seeded; stay unique all the same. */
  for (size_t i = 0; i < n; i++) pool[i] = (uint64_t)weft_clock_ns() * 0x9e3779b97f4a7c15u + i;
}

uint64_t weft_random_id(void) {
  enum { POOL = 64 };
  static _Thread_local uint64_t pool[POOL];
  static _Thread_local size_t left = 0;
  static _Thread_local unsigned filled_in = 0;
  unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);
  if (filled_in != now) left = 0;
  uint64_t id = 0;
  while (id == 0) {
    if (left == 0) {
      fill(pool, POOL);
      left = POOL;
      filled_in = now;
    }
    id = pool[--left];
  }
  return id;
}
