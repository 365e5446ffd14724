/* collectives/run.c - the states of a run: stages, failure, end. */
#include "collectives/run.h"

#include "base/alloc.h"

weft_coll_run_t *weft_coll_run_retain(weft_coll_run_t *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

static void free_scratch(weft_coll_run_t *r) {
  if (r->scratch != NULL)
    weft_cpu_allocator()->deallocate(weft_cpu_allocator(), r->scratch, r->plan->scratch_bytes);
  r->scratch = NULL;
}

void weft_coll_run_release(weft_coll_run_t *r) {
  if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  weft_canceller_release(r->canceller);
  weft_canceller_release(r->probe_canceller);
  weft_status_free(r->status);
  weft_status_free(r->loss);
  weft_cached_group_release(r->cached);
  weft_group_release(r->group);
  weft_collective_plan_release(r->plan);
  weft_tensor_release(r->call.input);
  weft_tensor_release(r->placed_input);
  weft_tensor_release(r->output);
  weft_free(r->transfers);
  weft_free(r->extra);
  weft_free(r->ready);
  weft_free(r->pending);
  weft_free(r->answered);
  weft_arena_deinit(&r->arena);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
}

void weft_coll_run_fail(weft_coll_run_t *r, weft_status_t *s, bool tells_peers) {
  weft_status_t *why =
      weft_status_clone(s); /* `s` is the run's as soon as it is known, and may be gone then */
  weft_mutex_lock(&r->mu);
  const bool is_first = !r->has_failed && !r->is_finished;
  if (is_first) {
    r->has_failed = true;
    r->status = s;
  }
  const bool has_run = r->run_length > 0;
  weft_mutex_unlock(&r->mu);
  if (!is_first) {
    weft_status_free(s);
    weft_status_free(why);
    return;
  }
  /* For the other members, the cancellation of this run is an echo of a failure that is reported elsewhere.
   */
  if (weft_status_code(why) == WEFT_CANCELLED) why = weft_status_mark_derived(why);
  if (has_run)
    weft_coll_run_tell(r, weft_str_of(r->run_text, r->run_length), tells_peers ? r->group : NULL, why);
  weft_canceller_cancel(r->canceller);
  weft_status_free(why);
}

void weft_coll_run_lose(weft_coll_run_t *r, weft_status_t *s) {
  weft_mutex_lock(&r->mu);
  const bool is_posting = r->is_posting, is_first = is_posting && r->loss == NULL;
  if (is_first) r->loss = s;
  weft_mutex_unlock(&r->mu);
  if (!is_posting) {
    weft_coll_run_fail(r, s, true);
  } else if (!is_first) {
    weft_status_free(s);
  }
}

void weft_coll_run_begin(weft_coll_run_t *r) {
  weft_coll_run_retain(r);
  weft_mutex_lock(&r->mu);
  r->outstanding++;
  weft_mutex_unlock(&r->mu);
}

void weft_coll_run_end(weft_coll_run_t *r, weft_status_t *s) {
  if (s != NULL) weft_coll_run_fail(r, s, true);
  weft_mutex_lock(&r->mu);
  r->outstanding--;
  weft_mutex_unlock(&r->mu);
  weft_coll_run_advance(r);
  weft_coll_run_release(r);
}

static void finish(weft_coll_run_t *r) {
  if (r->has_cancel && weft_canceller_try_deregister(r->canceller, r->cancel_token)) weft_coll_run_release(r);
  weft_mutex_lock(&r->mu);
  const bool has_timer = r->has_timer;
  const uint64_t id = r->timer_id;
  r->has_timer = false;
  weft_status_t *s = r->status;
  r->status = NULL;
  weft_tensor_t *output = s == NULL ? r->output : NULL;
  if (s == NULL) r->output = NULL;
  weft_mutex_unlock(&r->mu);
  if (has_timer && weft_timer_remove(r->timer, id)) weft_coll_run_release(r);
  weft_coll_run_retain(r);
  /* A failure may mean that a member is another process by now. */
  if (s != NULL && weft_status_code(s) != WEFT_INVALID_ARGUMENT) weft_cached_group_doubt(r->cached);
  weft_collective_done_fn *done = r->done;
  void *arg = r->arg;
  weft_tensor_release(r->output); /* of a failure: nothing of the run is left when its caller learns of it */
  r->output = NULL;
  weft_tensor_release(r->call.input);
  weft_tensor_release(r->placed_input);
  r->call.input = r->placed_input = NULL;
  free_scratch(r);
  done(arg, s, output);
  weft_cached_group_release(r->cached);
  r->cached = NULL;
  r->ops->ended(r);
  weft_coll_run_release(r);
}

/* What comes next when nothing is outstanding; NULL: the end. */
typedef enum coll_step { STEP_STAGE, STEP_EXPLAIN, STEP_WITHDRAW, STEP_WAIT, STEP_FINISH } coll_step_t;

static coll_step_t next_step_locked(weft_coll_run_t *r, bool has_withdrawn) WEFT_REQUIRES(r->mu) {
  if (r->outstanding > 0) return STEP_WAIT;
  if (!r->has_failed && r->stage < r->ops->num_stages) return STEP_STAGE;
  if (r->has_failed && !r->is_explained) return STEP_EXPLAIN;
  if (r->num_present == 0) return STEP_FINISH;
  return has_withdrawn ? STEP_WAIT : STEP_WITHDRAW;
}

void weft_coll_run_advance(weft_coll_run_t *r) {
  bool has_withdrawn = false;
  weft_mutex_lock(&r->mu);
  if (r->is_advancing || r->is_finished) {
    weft_mutex_unlock(&r->mu);
    return;
  }
  r->is_advancing = true;
  coll_step_t step = STEP_WAIT;
  while ((step = next_step_locked(r, has_withdrawn)) < STEP_WAIT) {
    weft_coll_stage_fn *stage = step == STEP_STAGE ? r->ops->stages[r->stage++] : NULL;
    if (step == STEP_EXPLAIN) r->is_explained = true;
    if (step == STEP_WITHDRAW) has_withdrawn = true;
    r->outstanding++; /* nothing ends while the step is taken */
    weft_mutex_unlock(&r->mu);
    weft_status_t *s = NULL;
    if (step == STEP_STAGE) s = stage(r);
    if (step == STEP_EXPLAIN) r->ops->explain(r);
    if (step == STEP_WITHDRAW) weft_coll_run_withdraw_presence(r);
    if (s != NULL) weft_coll_run_fail(r, s, true);
    weft_mutex_lock(&r->mu);
    r->outstanding--;
  }
  r->is_advancing = false;
  r->is_finished = step == STEP_FINISH;
  weft_mutex_unlock(&r->mu);
  if (step == STEP_FINISH) finish(r);
}
