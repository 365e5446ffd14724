/* base/polling.c - a loop of looks, and the pause after one that found the cores wanted. */
#include "base/polling.h"

#include <sched.h>

#include "base/clock.h"

static void pause_polling(weft_polling_t *p, int64_t now) {
  int64_t pause = 2 * atomic_load_explicit(&p->pause_ns, memory_order_relaxed);
  if (pause < WEFT_POLL_LEAST_PAUSE_NS) pause = WEFT_POLL_LEAST_PAUSE_NS;
  if (pause > WEFT_POLL_MOST_PAUSE_NS) pause = WEFT_POLL_MOST_PAUSE_NS;
  atomic_store_explicit(&p->pause_ns, pause, memory_order_relaxed);
  atomic_store_explicit(&p->not_before_ns, now + pause, memory_order_relaxed);
}

static bool may(const weft_polling_t *p, int64_t now) {
  return now >= atomic_load_explicit(&p->not_before_ns, memory_order_relaxed);
}

bool weft_polling_may(const weft_polling_t *p) { return may(p, weft_clock_ns()); }

bool weft_polling_run(weft_polling_t *p, bool (*look)(void *arg), void *arg) {
  int64_t now = weft_clock_ns();
  if (!may(p, now)) return false;
  for (const int64_t until = now + WEFT_POLL_NS; now < until;) {
    const int64_t given_away = weft_clock_ns();
    sched_yield();
    now = weft_clock_ns();
    const bool was_wanted = now - given_away >= WEFT_POLL_NS;
    if (look(arg)) {
      atomic_store_explicit(&p->pause_ns, 0, memory_order_relaxed);
      return true;
    }
    if (was_wanted) {
      pause_polling(p, now);
      return false;
    }
  }
  return false;
}
