/* coordinator/shared.c - what the threads of a coordinator share: its references, events, the end of its
 * pauses. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "client/status.h"
#include "client/tensor.h"
#include "coordinator/impl.h"
#include "protos/wire.h"

WEFT_Coordinator *weft_coordinator_retain(WEFT_Coordinator *c) {
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  return c;
}

static void free_task(weft_co_task_t *t) {
  weft_free(t->name);
  weft_free(t->address);
}

void weft_coordinator_release(WEFT_Coordinator *c) {
  if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  for (int i = 0; c->ps != NULL && i < c->num_ps; i++) free_task(&c->ps[i]);
  for (int i = 0; c->workers != NULL && i < c->num_workers; i++) {
    free_task(&c->workers[i].task);
    weft_free((void *)(uintptr_t)c->workers[i].config.data);
  }
  weft_free(c->ps);
  weft_free(c->workers);
  weft_status_free(c->error);
  weft_canceller_release(c->stop);
  weft_cond_deinit(&c->work);
  weft_cond_deinit(&c->room);
  weft_cond_deinit(&c->ended);
  weft_cond_deinit(&c->stopped);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

void weft_co_event(WEFT_Coordinator *c, WEFT_CoordinatorEventKind kind, int worker, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const WEFT_CoordinatorEvent event = {kind, worker, text};
  bool is_worth_a_line =
      kind == WEFT_EVENT_WORKER_LOST || kind == WEFT_EVENT_PS_LOST || kind == WEFT_EVENT_WATCHDOG;
  if (c->on_event != NULL)
    c->on_event(c->event_user, &event);
  else if (is_worth_a_line)
    weft_log(WEFT_LOG_WARNING, "coordinator: %s", text);
}

bool weft_co_pause(WEFT_Coordinator *c, int64_t ms) {
  int64_t deadline = weft_clock_ns() + ms * WEFT_CO_NS_PER_MS;
  weft_mutex_lock(&c->mu);
  while (!c->is_stopping &&
         weft_cond_wait_until(&c->stopped, &c->mu, deadline)) { /* woken by stop_threads() */
  }
  bool goes_on = !c->is_stopping;
  weft_mutex_unlock(&c->mu);
  return goes_on;
}
