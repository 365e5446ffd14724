/* jobs/run.c - steps, and what is told and saved between them. */
#include "base/alloc.h"
#include "base/clock.h"
#include "jobs/c_api.h"
#include "jobs/impl.h"

/* A loop ran: what it fetched becomes what WEFT_JobValue() gives. */
static weft_status_t *ran(void *arg, const weft_job_ran_t *run, bool *out_stops) {
  WEFT_Job *j = arg;
  const int64_t done = run->done;
  if (run->values != NULL) {
    weft_job_drop_values(j);
    for (int i = 0; i < j->fetches.n; i++) {
      j->values[i] = run->values[i];
      run->values[i] = NULL;
    }
  }
  WEFT_RETURN_IF_ERROR(weft_job_logging_ran(j, run));
  if (!run->counts) return NULL;
  atomic_store_explicit(&j->done, done, memory_order_relaxed); /* a count that other threads look at */
  *out_stops = j->on_step != NULL && j->on_step(j->step_arg, j, done) != 0;
  if (j->saving.round > 1) {
    weft_job_position_t now = weft_job_splitter_position(&j->splitter, done);
    weft_job_saving_step(&j->saving, &now);
  }
  return NULL;
}

weft_status_t *weft_job_save_now(WEFT_Job *j) {
  weft_str_t path;
  int64_t done = WEFT_JobStepsDone(j);
  const weft_job_position_t now = weft_job_splitter_position(&j->splitter, done);
  weft_job_set_state(j, WEFT_JOB_SAVING);
  weft_strbuf_t note = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_job_saving_save(&j->saving, j->session, &j->iterators, &now, &path, &note);
  if (s == NULL) weft_job_watch_progress(&j->watch);
  if (s == NULL && path.length > 0) {
    const WEFT_JobEvent event = {.kind = WEFT_JOB_EVENT_SAVED,
                                 .step = done,
                                 .saved_step = j->saving.saved_step,
                                 .path = path.data,
                                 .note = note.length == 0 ? NULL : note.data};
    weft_mutex_lock(&j->callback_mu);
    weft_job_notify(j, &event);
    weft_mutex_unlock(&j->callback_mu);
  }
  weft_strbuf_deinit(&note);
  return s;
}

/* The step after which loops stop next. A run that ends within a round saves after the round before it, while
 * iterators stand there; the end finds that saved. */
static int64_t next_pause(const WEFT_Job *j, int64_t done) {
  const weft_job_saving_t *s = &j->saving;
  const int64_t next = weft_job_saving_next_step(s, done);
  if (!s->is_saving || s->round <= 1 || j->iterators.n == 0 || j->run_end <= s->first) return next;
  const int64_t whole = j->run_end - (j->run_end - s->first) % s->round;
  return whole > done && whole < next ? whole : next;
}

/* All loops stand still. */
static weft_status_t *pause_loops(void *arg, int64_t done, int64_t *out_next) {
  WEFT_Job *j = arg;
  const int64_t started_ns = weft_clock_ns();
  *out_next = next_pause(j, done);
  weft_status_t *s = weft_job_save_now(j);
  if (s == NULL) s = weft_job_logging_paused(j, weft_clock_ns() - started_ns);
  weft_job_set_state(j, WEFT_JOB_RUNNING);
  return s;
}

static bool is_due(void *arg) { return weft_job_saving_is_due(&((WEFT_Job *)arg)->saving); }

static weft_status_t *run_loops(WEFT_Job *j, int64_t steps, weft_job_end_t *out_end) {
  weft_job_loops_t *l = &j->loops;
  int64_t first = WEFT_JobStepsDone(j);
  *out_end = WEFT_JOB_END_STEPS;
  if (steps <= first) return NULL;
  l->ran = ran;
  l->arg = j;
  l->profile_every = weft_job_logging_profiles(j);
  if (j->saving.is_saving) {
    l->is_due = is_due;
    l->pause = pause_loops;
    l->round = j->saving.round;
  }
  const int64_t started_ns = weft_clock_ns();
  weft_status_t *s = weft_job_loops_run(l, steps, next_pause(j, first), out_end);
  j->run_ns += weft_clock_ns() - started_ns;
  return s;
}

/* How long the steps since the job was opened waited for data. */
static weft_status_t *count_waits(WEFT_Job *j) {
  weft_free(j->waits);
  j->waits = NULL;
  j->num_waits = 0;
  if (j->iterators.n == 0) return NULL;
  j->wait_ns = (double)j->run_ns;
  j->wait_steps = (double)(WEFT_JobStepsDone(j) - j->saving.first) / weft_job_num_sharing(&j->plan);
  return weft_job_iterators_wait(&j->iterators, j->session, &j->waits, &j->num_waits);
}

/* Is a checkpoint due after the last step of a run? There the loops do not come to a pause. */
static bool is_save_step(const WEFT_Job *j) {
  int64_t done = WEFT_JobStepsDone(j);
  return weft_job_saving_next_step(&j->saving, done - 1) == done || weft_job_saving_is_due(&j->saving);
}

weft_status_t *weft_job_run_steps(WEFT_Job *j, int64_t steps, bool ends, bool *out_stops) {
  weft_job_end_t end = WEFT_JOB_END_STEPS;
  weft_job_trace_t *trace = NULL;
  weft_status_t *s = ends && j->trace_path != NULL ? weft_job_trace_create(&trace) : NULL;
  j->loops.trace = trace;
  j->run_end = ends ? steps : 0;
  if (s == NULL && WEFT_JobStepsDone(j) == j->saving.first)
    j->saving.mark = weft_job_splitter_position(&j->splitter, j->saving.first);
  if (s == NULL) s = weft_job_logging_run(j, steps);
  if (s == NULL) s = run_loops(j, steps, &end);
  if (s != NULL || (end == WEFT_JOB_END_STEPS && WEFT_JobStepsDone(j) < steps)) s = weft_job_cause(j, s);
  bool saves = s == NULL && j->saving.is_saving && !j->loops.is_closed;
  if (saves && (ends || end != WEFT_JOB_END_STEPS || is_save_step(j))) s = weft_job_save_now(j);
  if (s == NULL && ends && !j->loops.is_closed) s = count_waits(j);
  s = weft_status_join(s, weft_job_logging_ended(j, ends && s == NULL && !j->loops.is_closed));
  if (s == NULL && trace != NULL) s = weft_job_trace_write(trace, j->words->trace, j->trace_path);
  j->loops.trace = NULL;
  weft_job_trace_destroy(trace);
  *out_stops = s == NULL && (end != WEFT_JOB_END_STEPS || j->loops.is_over);
  return s;
}
