/* coordinator/judge.c - finds the cause of a failure: the call, its worker or a parameter server.
 *
 * The text of a failure is never read, and its code only as a last resort: the tasks themselves are probed. A
 * worker that does not answer, or answers as another process than the one that the session was made with, is
 * lost. So is a parameter server that is another process, or that was unreachable more often in a row than is
 * allowed. When all tasks are alive and unchanged, calls that failed with the code of a lost connection, a
 * timeout or a cancellation that this coordinator did not request are retried a few times; all other failures
 * are the call's own.
 */
#include "base/alloc.h"
#include "coordinator/impl.h"

enum { MAX_REPEATS = 5 };

static bool may_pass(const weft_status_t *s) {
  switch (weft_status_code(s)) {
    case WEFT_UNAVAILABLE:
    case WEFT_ABORTED:
    case WEFT_CANCELLED:
    case WEFT_DEADLINE_EXCEEDED: return true;
    default: return weft_status_is_restarted(s) || weft_status_is_derived(s);
  }
}

/* What a parameter server's answer means. */
static weft_co_verdict_t judge_ps(WEFT_Coordinator *c, int i, uint64_t known, const weft_co_answer_t *a) {
  weft_co_task_t *t = &c->ps[i];
  if (a->came && a->incarnation == known) {
    weft_mutex_lock(&c->mu);
    t->reports = 0;
    weft_mutex_unlock(&c->mu);
    return WEFT_CO_OWN;
  }
  if (known == 0) return WEFT_CO_TRANSIENT; /* its loss was reported, and it has not been seen since */
  if (a->came) return WEFT_CO_PS_LOST;
  weft_mutex_lock(&c->mu);
  int reports = ++t->reports;
  weft_mutex_unlock(&c->mu);
  weft_co_event(c, WEFT_EVENT_PS_REPORTED, -1, "%s is out of reach (%d of %d)", t->name, reports,
                c->max_reports);
  return reports > c->max_reports ? WEFT_CO_PS_LOST : WEFT_CO_TRANSIENT;
}

weft_co_verdict_t weft_co_judge(weft_co_worker_t *w, const weft_status_t *failure, int *repeats, int *ps,
                                uint64_t *ps_incarnation) {
  WEFT_Coordinator *c = w->coordinator;
  const int n = c->num_ps + 1;
  weft_co_task_t **tasks = weft_calloc((size_t)n, sizeof *tasks);
  weft_co_answer_t *answers = weft_calloc((size_t)n, sizeof *answers);
  uint64_t *known = weft_calloc((size_t)n, sizeof *known);
  weft_co_verdict_t verdict = WEFT_CO_OWN;
  weft_mutex_lock(&c->mu);
  bool is_dropped = c->is_stopping || w->reason == WEFT_CO_DROPPED;
  for (int i = 0; i < n && known != NULL; i++)
    known[i] = i < c->num_ps ? c->ps[i].incarnation : w->task.incarnation;
  weft_mutex_unlock(&c->mu);
  if (is_dropped) verdict = WEFT_CO_CANCELLED;
  if (is_dropped || tasks == NULL || answers == NULL || known == NULL) goto done;
  for (int i = 0; i < n; i++) tasks[i] = i < c->num_ps ? &c->ps[i] : &w->task;
  weft_co_probe(c, tasks, n, 2 * c->poll_ms, answers);
  if (!answers[c->num_ps].came || answers[c->num_ps].incarnation != known[c->num_ps]) {
    verdict = WEFT_CO_WORKER_LOST;
    goto done;
  }
  for (int i = 0; i < c->num_ps && verdict != WEFT_CO_PS_LOST; i++) {
    weft_co_verdict_t one = judge_ps(c, i, known[i], &answers[i]);
    if (one == WEFT_CO_OWN) continue;
    verdict = one;
    *ps = i;
    *ps_incarnation = known[i];
  }
  if (verdict == WEFT_CO_OWN && may_pass(failure) && *repeats < MAX_REPEATS) {
    (*repeats)++;
    verdict = WEFT_CO_TRANSIENT;
  }
done:
  weft_free(tasks);
  weft_free(answers);
  weft_free(known);
  return verdict;
}

void weft_co_ps_lost(WEFT_Coordinator *c, int worker, int ps, uint64_t incarnation, weft_co_call_t *call,
                     weft_status_t *cause) {
  weft_co_task_t *t = &c->ps[ps];
  weft_mutex_lock(&c->mu);
  bool is_news = t->incarnation == incarnation && incarnation != 0;
  if (is_news) {
    t->incarnation = 0;
    t->reports = 0;
    for (int i = 0; i < c->num_workers; i++)
      c->workers[i].is_lost = true; /* their sessions know the old process */
  }
  weft_mutex_unlock(&c->mu);
  if (!is_news) { /* it was reported already */
    weft_status_free(cause);
    if (call != NULL) weft_co_put_back(c, call);
    return;
  }
  weft_status_t *s =
      WEFT_ERROR(UNAVAILABLE,
                 "parameter server %s is lost, and its variables with it (%s): start it again and restore "
                 "them from a checkpoint",
                 t->name, cause == NULL ? "it was restarted" : weft_status_message(cause));
  weft_status_free(cause);
  weft_co_fail(c, worker, call, s, ps);
}
