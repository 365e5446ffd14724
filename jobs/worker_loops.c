/* jobs/worker_loops.c - one thread per worker loop, but the first loop's, which is the caller's.
 *
 * Locking: `callback_mu`, then `mu`. Under mu nothing is allocated or called back. A loop at the safepoint
 * wakes when another loop's run ends, when a pause ends, and when all is over. So does a loop that has made
 * its share of the steps: another whose data end leaves it the rest of its own.
 */
#include "jobs/worker_loops.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "jobs/c_api.h"
#include "jobs/reach.h"
#include "jobs/run_options.h"

struct weft_job_loop_run { /* Confined to its thread, but for the counts between runs. */
  weft_job_loops_t *all;
  const weft_job_loop_t *loop;
  int index;
  int64_t ran;         /* runs in all */
  int64_t ended;       /* the same, for other threads; guarded by all->mu */
  int64_t quota;       /* its share of the steps: where it stops; guarded by all->mu */
  bool is_last;        /* the run that begins is the last of its share */
  bool is_profiled;    /* it is traced for the log */
  int64_t traced_step; /* its step, if loops do not share the steps */
  bool counts;         /* each run is one of the steps */
  bool is_dry;         /* its inputs have ended; guarded by all->mu */
  weft_job_part_t part;
  TF_Tensor **values;  /* owned array; its tensors live for a run */
  TF_Status *status;   /* owned */
  TF_Buffer *options;  /* owned; NULL: none */
  TF_Buffer *metadata; /* of a run that is traced; lives for a run */
  pthread_t thread;
  bool is_started;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("worker loops"); }

/* Ends all loops; the first cause counts. */
static void end(weft_job_loops_t *l, weft_status_t *failure) {
  weft_mutex_lock(&l->mu);
  bool is_first = !l->is_over;
  l->is_over = true;
  l->is_draining = false;
  if (is_first) {
    l->failure = failure;
  } else {
    weft_status_free(failure); /* an echo: the first failure closed the session */
  }
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
  if (!is_first || failure == NULL || l->plan->num_loops == 1) return;
  TF_Status *status = TF_NewStatus();
  if (status != NULL) TF_CloseSession(l->session, status); /* wakes the loops that wait for this one */
  TF_DeleteStatus(status);
}

static void has_ended(weft_job_loops_t *l, int loop) {
  weft_mutex_lock(&l->mu);
  l->safepoint.loops[loop].has_ended = true;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}

/* ---- the safepoint ---- */

static void pause_now_locked(weft_job_loops_t *l) WEFT_REQUIRES(l->mu) {
  int64_t done = l->done, next = INT64_MAX;
  if (l->end == WEFT_JOB_END_ASKED) { /* what the pause was for */
    l->is_over = true;
    weft_cond_broadcast(&l->changed);
    return;
  }
  l->is_pausing = true;
  l->safepoint.pause_at = INT64_MIN; /* nothing starts */
  weft_mutex_unlock(&l->mu);
  weft_status_t *s = l->pause(l->arg, done, &next);
  if (s != NULL) end(l, s);
  weft_mutex_lock(&l->mu);
  l->is_pausing = false;
  l->safepoint.pause_at = next;
  weft_cond_broadcast(&l->changed);
}

/* Has the update loop runs to make, for which every other loop has made its own? */
static bool has_updates_locked(const weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  if (!l->is_draining || !l->plan->loops[loop].is_update) return false;
  for (int i = 0; i < l->plan->num_loops; i++) {
    if (!l->plan->loops[i].is_update && l->safepoint.loops[i].started <= l->safepoint.loops[loop].started)
      return false;
  }
  return true;
}

/* Has the loop made its share of the steps? */
static bool has_share_locked(const weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  return l->safepoint.loops[loop].started >= l->loops[loop].quota;
}

/* May another loop leave steps to this one? */
static bool may_get_more_locked(const weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  for (int i = 0; i < l->plan->num_loops; i++) {
    const bool is_at_work = l->safepoint.loops[i].is_busy || !has_share_locked(l, i);
    if (i != loop && !l->loops[i].is_dry && is_at_work) return l->shares_steps;
  }
  return false;
}

/* Waits until the loop has a share of the steps to make; false: all are made, or it is over. To a safepoint
 * it has ended meanwhile. */
static bool has_steps_locked(weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  while (has_share_locked(l, loop) && !l->is_over && may_get_more_locked(l, loop)) {
    if (!l->safepoint.loops[loop].has_ended) weft_cond_broadcast(&l->changed);
    l->safepoint.loops[loop].has_ended = true;
    weft_cond_wait(&l->changed, &l->mu);
  }
  const bool yes = !has_share_locked(l, loop);
  l->safepoint.loops[loop].has_ended = !yes;
  return yes;
}

/* A run of a loop begins, the n-th of it: is it traced? Loops that share the steps take turns, as it were. */
static void begin_run_locked(weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  weft_job_loop_run_t *r = &l->loops[loop];
  const int64_t n = l->safepoint.loops[loop].started, each = l->shares_steps ? l->plan->num_loops : 1;
  const int64_t step = l->safepoint.first + n * each, every = l->profile_every;
  r->is_last = has_share_locked(l, loop);
  r->is_profiled = every > 0 && step / every != (step - each) / every;
  r->traced_step = step;
}

/* Waits until the loop may start another run; false: its steps are made, or all is over. */
static bool goes_on(weft_job_loops_t *l, int loop) {
  weft_mutex_lock(&l->mu);
  bool yes = has_steps_locked(l, loop);
  while (yes && (!l->is_over || has_updates_locked(l, loop)) &&
         !weft_job_safepoint_may_start(&l->safepoint, loop, l->done)) {
    if (!l->is_pausing && weft_job_safepoint_is_still(&l->safepoint, l->done)) {
      pause_now_locked(l);
    } else {
      weft_cond_wait(&l->changed, &l->mu);
    }
  }
  yes = yes && (!l->is_over || has_updates_locked(l, loop));
  l->safepoint.loops[loop].started += yes;
  l->safepoint.loops[loop].is_busy = yes;
  begin_run_locked(l, loop);
  weft_mutex_unlock(&l->mu);
  return yes;
}

static void run_is_over(weft_job_loops_t *l, int loop) {
  weft_mutex_lock(&l->mu);
  l->safepoint.loops[loop].is_busy = false;
  if (l->is_due != NULL && l->safepoint.pause_at > l->done && l->is_due(l->arg)) {
    weft_job_safepoint_stop_soon(&l->safepoint, l->done, l->round);
  }
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}

/* ---- the end ---- */

static bool others_run_locked(const weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  bool any = false;
  for (int i = 0; i < l->plan->num_loops; i++)
    any = any || (i != loop && (l->safepoint.loops[i].is_busy || has_updates_locked(l, i)));
  return any;
}

/* No further run starts. A loop whose run does not end soon waits for what will not come: a token of an
 * update that was applied without its gradient, or the run of a loop whose inputs have ended. It changes no
 * variable; those are saved, and it is cancelled. */
static void cancel_late(weft_job_loops_t *l, int loop) {
  enum { GRACE_MS = 1000 };
  int64_t deadline_ns = weft_clock_ns() + GRACE_MS * INT64_C(1000000), next;
  bool is_late = false;
  weft_mutex_lock(&l->mu);
  while (!l->is_closed && (l->is_pausing || (others_run_locked(l, loop) && !is_late))) {
    if (l->is_pausing) {
      weft_cond_wait(&l->changed, &l->mu);
    } else {
      is_late = !weft_cond_wait_until(&l->changed, &l->mu, deadline_ns);
    }
  }
  is_late = is_late && !l->is_closed; /* else another loop, which waited as well, saves and cancels */
  bool saves = is_late && !l->is_stopped && l->failure == NULL && l->pause != NULL;
  int64_t done = l->done;
  if (is_late) l->is_closed = l->is_pausing = true;
  l->is_draining = false;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
  if (!is_late) return;
  weft_status_t *s = saves ? l->pause(l->arg, done, &next) : NULL;
  TF_Status *status = TF_NewStatus();
  if (status != NULL) TF_CloseSession(l->session, status);
  TF_DeleteStatus(status);
  weft_mutex_lock(&l->mu);
  l->failure = weft_status_join(l->failure, s);
  l->is_pausing = false;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}

/* Is there another loop that goes on with its own part of the data, when this one has ended? */
static bool others_go_on_locked(const weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  bool any = false, is_free = l->safepoint.kind == WEFT_SAFEPOINT_FREE;
  for (int i = 0; i < l->plan->num_loops; i++) any = any || !l->loops[i].is_dry;
  return any && l->plan->reads_data && (is_free || l->plan->loops[loop].leave != NULL);
}

/* Loops that wait for the slowest no longer wait for this one. */
static void leave(weft_job_loops_t *l, int loop) {
  const TF_Operation *op = l->plan->loops[loop].leave;
  if (op == NULL) return;
  weft_job_loop_run_t *r = &l->loops[loop];
  TF_SessionRun(l->session, r->options, NULL, NULL, 0, NULL, NULL, 0, &op, 1, NULL, r->status);
  weft_status_t *s = weft_job_c_api_status(r->status);
  if (s != NULL) end(l, s);
}

/* `all` steps, those made included, for the loops that have data, as evenly as may be: they stay level, and a
 * share never gets smaller. */
static void share_locked(weft_job_loops_t *l, int64_t all) WEFT_REQUIRES(l->mu) {
  int n = 0, k = 0;
  for (int i = 0; i < l->plan->num_loops; i++) n += !l->loops[i].is_dry;
  for (int i = 0; i < l->plan->num_loops; i++) {
    if (l->loops[i].is_dry) continue; /* n is not 0 then */
    l->loops[i].quota = all / n + (k < all % n);
    k++;
  }
}

/* The others make the steps that a loop without data leaves. */
static void leave_steps_locked(weft_job_loops_t *l, int loop) WEFT_REQUIRES(l->mu) {
  int64_t all = l->loops[loop].quota - l->safepoint.loops[loop].started;
  if (!l->shares_steps || all == 0) return;
  for (int i = 0; i < l->plan->num_loops; i++) {
    if (!l->loops[i].is_dry) all += l->loops[i].quota;
  }
  l->loops[loop].quota = l->safepoint.loops[loop].started;
  share_locked(l, all);
}

static void end_of_input(weft_job_loops_t *l, int loop) {
  weft_mutex_lock(&l->mu);
  l->safepoint.loops[loop].started--;
  l->safepoint.loops[loop].is_busy = false;
  l->loops[loop].is_dry = true;
  if (!l->is_over && others_go_on_locked(l, loop)) {
    leave_steps_locked(l, loop);
    weft_cond_broadcast(&l->changed);
    weft_mutex_unlock(&l->mu);
    leave(l, loop);
    return;
  }
  bool is_first = !l->is_over;
  l->is_over = true;
  if (is_first) l->end = WEFT_JOB_END_INPUT;
  if (is_first) l->is_draining = l->plan->in_step;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
  if (is_first) cancel_late(l, loop);
}

/* ---- a run ---- */

static bool others_fetch_locked(const weft_job_loops_t *l) WEFT_REQUIRES(l->mu) {
  bool any = false;
  for (int i = 0; i < l->plan->num_loops; i++)
    any = any || (!l->plan->loops[i].is_update && l->safepoint.loops[i].is_busy);
  return any;
}

/* The first update ends before the runs whose gradients it has taken, and a step is told with what was
 * fetched. */
static void wait_for_values(weft_job_loops_t *l) {
  weft_mutex_lock(&l->mu);
  while (!l->has_values && !l->is_over && others_fetch_locked(l)) weft_cond_wait(&l->changed, &l->mu);
  weft_mutex_unlock(&l->mu);
}

static weft_status_t *notify(weft_job_loop_run_t *r) {
  weft_job_loops_t *l = r->all;
  bool is_update = r->loop->is_update, stops = false;
  weft_job_ran_t ran = {.values = is_update ? NULL : r->values,
                        .rows = weft_job_part_rows(&r->part, l->splitter->inputs),
                        .counts = r->counts,
                        .traced_step = r->traced_step};
  if (r->metadata != NULL) ran.statistics = weft_str_of(r->metadata->data, r->metadata->length);
  if (is_update && r->counts) wait_for_values(l);
  weft_mutex_lock(l->callback_mu);
  weft_mutex_lock(&l->mu);
  if (r->counts) l->done++;
  r->ended = r->ran;
  ran.done = l->done;
  if (l->shares_steps && l->plan->num_loops > 1) ran.traced_step = l->done;
  bool is_told = l->failure == NULL && !l->is_stopped &&
                 (r->counts || !l->is_over); /* a step that was in flight at the end counts */
  weft_mutex_unlock(&l->mu);
  weft_status_t *s = !is_told ? NULL : l->ran(l->arg, &ran, &stops);
  weft_mutex_lock(&l->mu);
  if (!is_update) l->has_values = true;
  if (stops && !l->is_over) {
    l->end = WEFT_JOB_END_ASKED;
    weft_job_safepoint_stop_soon(&l->safepoint, l->done, 1);
  }
  if (is_update && !l->plan->in_step && l->done >= l->steps) l->is_over = true;
  weft_mutex_unlock(&l->mu);
  weft_mutex_unlock(l->callback_mu);
  return s;
}

static weft_status_t *run_session(weft_job_loop_run_t *r) {
  weft_job_loops_t *l = r->all;
  const weft_job_loop_t *p = r->loop;
  bool is_drawn = l->trace != NULL && r->is_last, is_traced = is_drawn || r->is_profiled;
  TF_Buffer *options = is_traced ? weft_job_run_options(true, l->plan->collective_graph_key) : r->options;
  r->metadata = is_traced ? TF_NewBuffer() : NULL;
  TF_SessionRun(l->session, options, p->feeds, r->part.tensors, p->num_feeds, p->fetches, r->values,
                p->num_fetches, p->targets, p->num_targets, r->metadata, r->status);
  weft_job_watch_progress(l->watch);
  weft_status_t *s = weft_job_c_api_status(r->status);
  if (s == NULL && is_drawn && r->metadata != NULL)
    s = weft_job_trace_add(l->trace, weft_str_of(r->metadata->data, r->metadata->length));
  if (is_traced && options != NULL) TF_DeleteBuffer(options);
  return s;
}

/* The node that a failure names first, where it began: "... [[{{node NAME}}]]"; "" if it names none. */
static weft_str_t failed_node(const weft_status_t *s) {
  static const char before[] = "{{node ";
  const char *at = strstr(weft_status_message(s), before);
  const char *end = at != NULL ? strstr(at, "}}") : NULL;
  if (end == NULL) return WEFT_STR("");
  at += strlen(before);
  return weft_str_of(at, (size_t)(end - at));
}

/* Is it the end of a source in the graph, which is no failure? As TensorFlow's coordinated sessions take it;
 * but OUT_OF_RANGE from anything else is one. A node in a function is not in the graph. */
static bool is_end_of_data(const weft_job_loops_t *l, const weft_status_t *s) {
  char name[1024];
  if (!l->plan->reads_data || weft_status_code(s) != WEFT_OUT_OF_RANGE) return false;
  const weft_str_t node = failed_node(s);
  if (node.length == 0 || node.length >= sizeof name) return true;
  snprintf(name, sizeof name, "%.*s", WEFT_STR_ARGS(node));
  const TF_Operation *op = TF_GraphOperationByName(l->plan->graph, name);
  if (op != NULL) return weft_job_is_reader(op);
  return weft_str_starts_with(weft_str(weft_status_message(s)), "End of sequence");
}

/* *out_has_ended: there was nothing to feed or to read, and no step was made. */
static weft_status_t *run_once(weft_job_loop_run_t *r, bool *out_has_ended) {
  *out_has_ended = false;
  weft_status_t *s =
      r->loop->num_feeds == 0 ? NULL : weft_job_splitter_next(r->all->splitter, &r->part, out_has_ended);
  if (s == NULL && !*out_has_ended) {
    s = run_session(r);
    *out_has_ended = is_end_of_data(r->all, s);
    r->ran += !*out_has_ended;
    if (s == NULL) s = notify(r);
    if (*out_has_ended) {
      weft_status_free(s);
      s = NULL;
    }
    for (int i = 0; i < r->loop->num_fetches; i++) {
      TF_DeleteTensor(r->values[i]);
      r->values[i] = NULL;
    }
    if (r->metadata != NULL) TF_DeleteBuffer(r->metadata);
    r->metadata = NULL;
  }
  weft_job_part_clear(&r->part);
  return s;
}

static void *run_loop(void *arg) {
  weft_job_loop_run_t *r = arg;
  weft_job_loops_t *l = r->all;
  bool has_input_ended = false;
  while (!has_input_ended && goes_on(l, r->index)) {
    weft_status_t *s = run_once(r, &has_input_ended);
    if (has_input_ended) {
      end_of_input(l, r->index);
    } else {
      run_is_over(l, r->index);
    }
    if (s != NULL) end(l, s);
  }
  if (r->loop->is_update && !l->plan->in_step) cancel_late(l, r->index);
  has_ended(l, r->index);
  return NULL;
}

/* ---- all loops ---- */

static weft_status_t *init_loop(weft_job_loops_t *l, int i) {
  weft_job_loop_run_t *r = &l->loops[i];
  *r = (weft_job_loop_run_t){.all = l, .loop = &l->plan->loops[i], .index = i};
  r->values = weft_calloc((size_t)r->loop->num_fetches + 1, sizeof(TF_Tensor *));
  r->status = TF_NewStatus();
  r->options = weft_job_run_options(false, l->plan->collective_graph_key);
  if (r->values == NULL || r->status == NULL) return no_memory();
  return weft_job_part_init(&r->part, l->splitter->inputs->n);
}

weft_status_t *weft_job_loops_init(weft_job_loops_t *l, int64_t first) {
  int n = l->plan->num_loops;
  bool has_update = false;
  weft_mutex_init(&l->mu);
  weft_cond_init(&l->changed);
  l->done = first;
  l->loops = weft_calloc((size_t)n + 1, sizeof *l->loops);
  weft_status_t *s = l->loops == NULL ? no_memory() : weft_job_safepoint_init(&l->safepoint, l->plan, first);
  for (int i = 0; s == NULL && i < n; i++) s = init_loop(l, i);
  for (int i = 0; s == NULL && i < n; i++) has_update = has_update || l->plan->loops[i].is_update;
  for (int i = 0; s == NULL && i < n; i++) l->loops[i].counts = !has_update || l->plan->loops[i].is_update;
  return s;
}

void weft_job_loops_deinit(weft_job_loops_t *l) {
  if (l->plan == NULL) return; /* never made */
  for (int i = 0; l->loops != NULL && i < l->plan->num_loops; i++) {
    weft_job_loop_run_t *r = &l->loops[i];
    weft_job_part_deinit(&r->part);
    weft_free(r->values);
    TF_DeleteStatus(r->status);
    if (r->options != NULL) TF_DeleteBuffer(r->options);
  }
  weft_free(l->loops);
  weft_job_safepoint_deinit(&l->safepoint);
  weft_cond_deinit(&l->changed);
  weft_mutex_deinit(&l->mu);
  *l = (weft_job_loops_t){0};
}

/* How often each loop has run when all steps are done. The counts of earlier runs of loops are in it, so that
 * loops that wait for each other stay level. */
static void set_quotas(weft_job_loops_t *l, int64_t steps) {
  int n = l->plan->num_loops;
  int64_t all = steps - l->done;
  weft_mutex_lock(&l->mu);
  l->shares_steps = true;
  for (int i = 0; i < n; i++) l->shares_steps = l->shares_steps && !l->plan->loops[i].is_update;
  for (int i = 0; i < n; i++) {
    if (!l->loops[i].is_dry) all += l->loops[i].ran;
    l->loops[i].quota = l->loops[i].is_dry ? l->loops[i].ran : steps - l->safepoint.first;
    l->safepoint.loops[i].has_ended = false;
  }
  if (l->shares_steps) share_locked(l, all);
  weft_mutex_unlock(&l->mu);
}

weft_status_t *weft_job_loops_run(weft_job_loops_t *l, int64_t steps, int64_t pause_at,
                                  weft_job_end_t *out_end) {
  int n = l->plan->num_loops;
  set_quotas(l, steps);
  l->steps = steps;
  l->safepoint.pause_at = l->pause != NULL ? pause_at : INT64_MAX;
  l->end = WEFT_JOB_END_STEPS;
  for (int i = 1; i < n; i++) {
    weft_job_loop_run_t *r = &l->loops[i];
    r->is_started = pthread_create(&r->thread, NULL, run_loop, r) == 0;
    if (r->is_started) continue;
    end(l, WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for worker loop %d", i));
    has_ended(l, i);
  }
  run_loop(&l->loops[0]);
  for (int i = 1; i < n; i++) {
    if (l->loops[i].is_started) pthread_join(l->loops[i].thread, NULL);
  }
  weft_mutex_lock(&l->mu); /* the loops have ended, but another thread may stop the job now */
  weft_status_t *s = l->failure;
  l->failure = NULL;
  l->is_over = l->is_over || l->end == WEFT_JOB_END_INPUT;
  *out_end = l->end;
  weft_mutex_unlock(&l->mu);
  return s;
}

int64_t weft_job_loops_runs(weft_job_loops_t *l, int loop) {
  const weft_job_loop_run_t *r = &l->loops[loop];
  weft_mutex_lock(&l->mu);
  const int64_t runs = r->loop->is_update || r->is_dry ? -1 : r->ended;
  weft_mutex_unlock(&l->mu);
  return runs;
}

void weft_job_loops_stop(weft_job_loops_t *l) {
  weft_mutex_lock(&l->mu);
  l->is_over = l->is_stopped = true;
  l->is_draining = false;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}
