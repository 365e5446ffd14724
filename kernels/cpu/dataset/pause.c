/* kernels/cpu/dataset/pause.c - waiting with a canceller and a clock. */
#include "kernels/cpu/dataset/pause.h"

#include "base/clock.h"
#include "base/mutex.h"

/* A pause that the canceller ends. */
typedef struct pause {
  weft_mutex_t mu;
  weft_cond_t woken;
  bool is_cancelled; /* guarded by mu */
} pause_t;

static void wake(void *arg) {
  pause_t *p = arg;
  weft_mutex_lock(&p->mu);
  p->is_cancelled = true;
  weft_cond_signal(&p->woken);
  weft_mutex_unlock(&p->mu);
}

/* INT64_MAX, which is never: what the clock cannot say. */
static int64_t deadline_of(int64_t micros) {
  const int64_t now = weft_clock_ns();
  return micros < (INT64_MAX - now) / 1000 ? now + micros * 1000 : INT64_MAX;
}

weft_status_t *weft_iterator_pause(const weft_iterator_t *it, int64_t micros) {
  pause_t p = {.is_cancelled = false};
  uint64_t token;
  bool is_starved = false;
  const int64_t deadline = deadline_of(micros);
  weft_mutex_init(&p.mu);
  weft_cond_init(&p.woken);
  if (weft_canceller_register(it->canceller, wake, &p, &token)) {
    weft_mutex_lock(&p.mu);
    while (!p.is_cancelled && weft_cond_wait_until(&p.woken, &p.mu, deadline)) continue;
    weft_mutex_unlock(&p.mu);
    (void)weft_canceller_deregister(it->canceller, token);
  } else {
    p.is_cancelled = weft_canceller_is_cancelled(it->canceller);
    is_starved = !p.is_cancelled;
  }
  weft_cond_deinit(&p.woken);
  weft_mutex_deinit(&p.mu);
  if (is_starved) return WEFT_NO_MEMORY("a pause of an iterator");
  return p.is_cancelled ? WEFT_ERROR(CANCELLED, "Iterator was cancelled") : NULL;
}
