/* jobs/job_state.c - what the parts of a job share: its state, what it fetches, its last values, what the
 * program is told. */
#include "jobs/impl.h"

WEFT_JobState WEFT_JobGetState(const WEFT_Job *j) {
  weft_mutex_t *mu = (weft_mutex_t *)(uintptr_t)&j->mu;
  weft_mutex_lock(mu);
  WEFT_JobState state = j->state;
  weft_mutex_unlock(mu);
  return state;
}
int64_t WEFT_JobStepsDone(const WEFT_Job *j) { return atomic_load(&j->done); }
const char *WEFT_JobLastCheckpoint(const WEFT_Job *j) {
  const weft_series_t *series = &j->saving.series;
  return series->n > 0 ? series->names[series->n - 1].data : NULL;
}

void weft_job_set_state(WEFT_Job *j, WEFT_JobState state) {
  weft_mutex_lock(&j->mu);
  j->state = state;
  weft_mutex_unlock(&j->mu);
}

weft_status_t *weft_job_cause(WEFT_Job *j, weft_status_t *s) {
  bool is_lost = false;
  weft_mutex_lock(&j->mu);
  bool is_stopping = j->is_stopping;
  if (j->has_watch) (void)weft_job_watch_is_stopped(&j->watch, &is_lost);
  weft_mutex_unlock(&j->mu);
  if (!is_stopping && !is_lost) return s;
  weft_status_free(s);
  if (is_lost)
    return WEFT_ERROR(UNAVAILABLE, "the master at %s is gone; start it again, then the job", j->master);
  const char *last = WEFT_JobLastCheckpoint(j);
  return WEFT_ERROR(CANCELLED, "the job was stopped after step %lld%s%s", (long long)atomic_load(&j->done),
                    last == NULL ? "" : "; its last checkpoint is ", last == NULL ? "" : last);
}

weft_status_t *weft_job_add_fetch(WEFT_Job *j, const char *option, weft_str_t name, int *out) {
  TF_Output output;
  WEFT_RETURN_IF_ERROR(weft_job_find_output(j->graph, j->words, option, name, &output));
  for (int i = 0; i < j->fetches.n; i++) {
    if (j->fetches.outputs[i].oper != output.oper || j->fetches.outputs[i].index != output.index) continue;
    *out = i;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_job_names_add(&j->fetches, &j->arena, name, output));
  *out = j->fetches.n - 1;
  return NULL;
}

void weft_job_drop_values(WEFT_Job *j) {
  for (int i = 0; j->values != NULL && i < j->fetches.n; i++) {
    TF_DeleteTensor(j->values[i]);
    j->values[i] = NULL;
  }
}

void weft_job_notify(WEFT_Job *j, const WEFT_JobEvent *event) {
  if (j->on_event != NULL) j->on_event(j->event_arg, j, event);
}
