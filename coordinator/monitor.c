/* coordinator/monitor.c - probes the tasks between calls.
 *
 * A connection that breaks ends its calls at once, without the monitor. The monitor finds failures that break
 * no connection: a process that hangs, a host that is gone, a worker or a parameter server that was replaced
 * while it had nothing to do. What we find is not believed but acted upon: calls are cancelled, and their
 * threads judge.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "coordinator/impl.h"

enum { SILENT_POLLS = 2 };

typedef struct monitor {
  WEFT_Coordinator *c;
  int n; /* ps, then workers; of all arrays */
  weft_co_task_t **tasks;
  weft_co_answer_t *answers;
  uint64_t *known;
} monitor_t;

/* Cancels what a worker does; its thread will find out why. */
static void suspect(weft_co_worker_t *w, bool is_its_own) {
  WEFT_Coordinator *c = w->coordinator;
  weft_canceller_t *canceller = NULL;
  weft_mutex_lock(&c->mu);
  if (w->current != NULL && w->reason == WEFT_CO_NONE) {
    w->reason = WEFT_CO_SUSPECT;
    canceller = weft_canceller_retain(w->current);
  } else if (w->current == NULL && is_its_own && !w->is_lost) {
    w->is_suspect = true;
    weft_cond_broadcast(&c->work);
  }
  weft_mutex_unlock(&c->mu);
  if (canceller != NULL) weft_canceller_cancel(canceller);
  weft_canceller_release(canceller);
}

/* Is it still the process that was probed? */
static bool is_current(WEFT_Coordinator *c, const weft_co_task_t *t, uint64_t known) {
  weft_mutex_lock(&c->mu);
  bool yes = t->incarnation == known;
  weft_mutex_unlock(&c->mu);
  return yes;
}

static void look_at(monitor_t *m, int i) {
  WEFT_Coordinator *c = m->c;
  weft_co_task_t *t = m->tasks[i];
  const weft_co_answer_t *a = &m->answers[i];
  if (m->known[i] == 0 || !is_current(c, t, m->known[i])) {
    t->missed = 0;
    return;
  }
  t->missed = a->came ? 0 : t->missed + 1;
  bool is_other = a->came && a->incarnation != m->known[i], is_silent = t->missed >= SILENT_POLLS;
  if (!is_other && !is_silent) return;
  if (i >= c->num_ps) {
    suspect(&c->workers[i - c->num_ps], true);
  } else if (is_other) {
    weft_co_ps_lost(c, -1, i, m->known[i], NULL, NULL);
  } else {
    for (int k = 0; k < c->num_workers; k++) suspect(&c->workers[k], false);
  }
}

static void poll_once(monitor_t *m) {
  WEFT_Coordinator *c = m->c;
  weft_mutex_lock(&c->mu);
  for (int i = 0; i < m->n; i++) m->known[i] = m->tasks[i]->incarnation;
  for (int i = 0; i < c->num_workers; i++) {
    if (c->workers[i].is_lost) m->known[c->num_ps + i] = 0; /* its thread looks for it */
  }
  weft_mutex_unlock(&c->mu);
  weft_co_probe(c, m->tasks, m->n, 2 * c->poll_ms, m->answers);
  for (int i = 0; i < m->n; i++) look_at(m, i);
}

/* ---- the watchdog ---- */

static void dump(WEFT_Coordinator *c, int64_t idle_ns) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (weft_strbuf_reserve(&text, 256 + 64 * (size_t)c->num_workers) == NULL)
    return; /* nothing is allocated under mu */
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&c->mu);
  weft_strbuf_printf(&text,
                     "no call has ended for %" PRId64 " s: %d wait, %d are under way, %" PRId64 " have ended",
                     idle_ns / (1000 * WEFT_CO_NS_PER_MS), c->num_queued, c->num_inflight, c->num_ended);
  for (int i = 0; i < c->num_workers; i++) {
    const weft_co_worker_t *w = &c->workers[i];
    const char *state = w->is_lost ? "lost" : w->current == NULL ? "idle" : "busy";
    weft_strbuf_printf(&text, "; worker %d: %s", i, state);
    if (w->current != NULL)
      weft_strbuf_printf(&text, " for %" PRId64 " s", (now - w->since_ns) / (1000 * WEFT_CO_NS_PER_MS));
  }
  weft_mutex_unlock(&c->mu);
  weft_co_event(c, WEFT_EVENT_WATCHDOG, -1, "%s", text.failed ? "no memory to say more" : text.data);
  weft_strbuf_deinit(&text);
}

static void watch_progress(WEFT_Coordinator *c) {
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&c->mu);
  int64_t idle_ns = now - c->progress_ns;
  bool is_stuck = c->watchdog_ns > 0 && c->num_queued + c->num_inflight > 0 && idle_ns > c->watchdog_ns;
  if (is_stuck) c->progress_ns = now; /* not again before as much time has passed */
  weft_mutex_unlock(&c->mu);
  if (is_stuck) dump(c, idle_ns);
}

void *weft_co_monitor_main(void *arg) {
  WEFT_Coordinator *c = arg;
  const int n = c->num_ps + c->num_workers;
  monitor_t m = {.c = c, .n = n};
  pthread_setname_np(pthread_self(), "weft-co-watch");
  m.tasks = weft_calloc((size_t)n, sizeof *m.tasks);
  m.answers = weft_calloc((size_t)n, sizeof *m.answers);
  m.known = weft_calloc((size_t)n, sizeof *m.known);
  bool has_memory = m.tasks != NULL && m.answers != NULL && m.known != NULL;
  for (int i = 0; has_memory && i < n; i++)
    m.tasks[i] = i < c->num_ps ? &c->ps[i] : &c->workers[i - c->num_ps].task;
  while (weft_co_pause(c, c->poll_ms)) {
    if (has_memory) poll_once(&m);
    watch_progress(c);
  }
  weft_free(m.tasks);
  weft_free(m.answers);
  weft_free(m.known);
  return NULL;
}
