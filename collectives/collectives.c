/* collectives/collectives.c - a task's collectives: the runs that go on, their stages, and what ends them
 * from outside.
 *
 * Locking: `mu` guards the list of runs; a run's lock may be taken under it.
 */
#include "base/alloc.h"
#include "collectives/run.h"

struct weft_collectives {
  char *task;
  weft_thread_pool_t *pool;    /* borrowed */
  weft_transport_t *transport; /* borrowed */
  weft_timer_t *timer;
  weft_group_cache_t *groups;
  weft_group_losses_t *losses;
  weft_meetings_t *meetings;
  weft_joints_t *joints;
  weft_mutex_t mu;
  weft_cond_t idle;      /* num_runs became 0 */
  weft_coll_run_t *runs; /* guarded by mu, as all below */
  int num_runs;
  bool is_ending;
};

weft_status_t *weft_collectives_create(weft_str_t task, weft_thread_pool_t *pool, weft_transport_t *transport,
                                       weft_collectives_t **out) {
  weft_collectives_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("collectives of %.*s", WEFT_STR_ARGS(task));
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->idle);
  c->pool = pool;
  c->transport = transport;
  weft_status_t *s = weft_timer_create(&c->timer);
  if (s == NULL) s = weft_group_cache_create(&c->groups);
  if (s == NULL) s = weft_group_losses_create(&c->losses);
  if (s == NULL) s = weft_meetings_create(weft_coll_run_left, &c->meetings);
  if (s == NULL) s = weft_joints_create(&c->joints);
  c->task = s == NULL ? weft_strndup(task.data == NULL ? "" : task.data, task.length) : NULL;
  if (s == NULL && c->task == NULL) s = WEFT_NO_MEMORY("collectives of %.*s", WEFT_STR_ARGS(task));
  if (s != NULL) {
    weft_collectives_destroy(c);
    return s;
  }
  *out = c;
  return NULL;
}

typedef bool meant_fn(const weft_coll_run_t *r, const void *arg);
typedef void end_fn(weft_coll_run_t *r, weft_status_t *s); /* consumes s */

static weft_status_t *step_ended(int64_t step_id) {
  return weft_status_mark_derived(WEFT_ERROR(ABORTED, "step %lld has ended", (long long)step_id));
}

static void fail(weft_coll_run_t *r, weft_status_t *s) { weft_coll_run_fail(r, s, true); }

/* Calls `end` for the runs for which `is_meant`, until there is none; one at a time, because it calls code of
 * others. `why` NULL: their step has ended. */
static void end_runs(weft_collectives_t *c, meant_fn *is_meant, const void *arg, end_fn *end,
                     const weft_status_t *why) {
  for (;;) {
    weft_coll_run_t *found = NULL;
    weft_mutex_lock(&c->mu);
    for (weft_coll_run_t *r = c->runs; r != NULL && found == NULL; r = r->next) {
      weft_mutex_lock(&r->mu);
      if (!r->has_failed && !r->is_finished && is_meant(r, arg)) found = weft_coll_run_retain(r);
      weft_mutex_unlock(&r->mu);
    }
    weft_mutex_unlock(&c->mu);
    if (found == NULL) return;
    end(found, why == NULL ? step_ended(found->call.step_id) : weft_status_clone(why));
    weft_coll_run_advance(found);
    weft_coll_run_release(found);
  }
}

static bool any(const weft_coll_run_t *r, const void *arg) {
  (void)r;
  (void)arg;
  return true;
}

void weft_collectives_destroy(weft_collectives_t *c) {
  if (c == NULL) return;
  weft_mutex_lock(&c->mu);
  c->is_ending = true;
  weft_mutex_unlock(&c->mu);
  weft_status_t *why = WEFT_ERROR(CANCELLED, "the collectives of %s end", c->task == NULL ? "" : c->task);
  end_runs(c, any, NULL, fail, why);
  weft_status_free(why);
  weft_mutex_lock(&c->mu);
  while (c->num_runs > 0) weft_cond_wait(&c->idle, &c->mu); /* woken by on_ended(); all runs were failed */
  weft_mutex_unlock(&c->mu);
  weft_timer_destroy(c->timer);
  weft_group_cache_destroy(c->groups);
  weft_group_losses_destroy(c->losses);
  weft_meetings_destroy(c->meetings);
  weft_joints_destroy(c->joints);
  weft_cond_deinit(&c->idle);
  weft_mutex_deinit(&c->mu);
  weft_free(c->task);
  weft_free(c);
}

/* ---- stages ---- */

static weft_status_t *exchange_counts(weft_coll_run_t *r) {
  if (r->call.timeout_ms > 0) WEFT_RETURN_IF_ERROR(weft_coll_run_watch_others(r));
  return weft_collective_has_counts(&r->call) && r->group->size > 1 ? weft_coll_run_exchange_counts(r) : NULL;
}

static weft_status_t *move_data(weft_coll_run_t *r) {
  if (r->is_together || r->is_posted) return NULL;
  WEFT_RETURN_IF_ERROR(weft_coll_run_make_buffers(r));
  if (!weft_collective_has_counts(&r->call)) weft_coll_run_keep_plan(r);
  return weft_coll_run_start_actions(r);
}

static void on_ended(weft_coll_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_mutex_lock(&c->mu);
  if (r->prev != NULL) r->prev->next = r->next;
  if (r->prev == NULL) c->runs = r->next;
  if (r->next != NULL) r->next->prev = r->prev;
  c->num_runs--;
  weft_cond_broadcast(&c->idle);
  weft_mutex_unlock(&c->mu);
  weft_coll_run_release(r);
}

static weft_coll_stage_fn *const stages[] = {
    weft_coll_run_join_group,    weft_coll_run_agree,       exchange_counts,    weft_coll_run_together,
    weft_coll_run_jointly,       weft_coll_run_bring_input, weft_coll_run_post, move_data,
    weft_coll_run_return_output,
};
static const weft_coll_run_ops_t run_ops = {.stages = stages,
                                            .num_stages = sizeof stages / sizeof stages[0],
                                            .explain = weft_coll_run_explain,
                                            .ended = on_ended};

/* ---- starting ---- */

static bool copy_call(weft_coll_run_t *r, const weft_collective_t *call) {
  r->call = *call;
  r->call.input = weft_tensor_retain(call->input);
  if (call->place != NULL) { /* a copy in the host's memory is the run's own */
    r->placed_input = weft_tensor_retain(call->input);
    r->takes_placed_input = call->takes_input;
    r->call.takes_input = call->input != NULL;
  }
  r->call.name = weft_arena_str(&r->arena, call->name);
  r->call.device = weft_arena_str(&r->arena, call->device);
  if (call->shared_name.length > 0) r->call.shared_name = weft_arena_str(&r->arena, call->shared_name);
  const size_t n = call->group_size > 0 ? (size_t)call->group_size : 0;
  if (call->splits != NULL && n > 0) {
    int64_t *splits = weft_arena_calloc(&r->arena, n, sizeof *splits);
    if (splits == NULL) return false;
    memcpy(splits, call->splits, n * sizeof *splits);
    r->call.splits = splits;
  }
  if (call->targets != NULL && n > 0) {
    int *targets = weft_arena_calloc(&r->arena, n, sizeof *targets);
    if (targets == NULL) return false;
    memcpy(targets, call->targets, n * sizeof *targets);
    r->call.targets = targets;
  }
  return r->call.name.data != NULL && r->call.device.data != NULL;
}

static void on_cancel(void *arg) {
  weft_coll_run_t *r = arg;
  weft_coll_run_fail(r,
                     WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled at %.*s",
                                WEFT_STR_ARGS(r->call.name), WEFT_STR_ARGS(r->call.device)),
                     true);
  weft_coll_run_advance(r);
  weft_coll_run_release(r);
}

static weft_status_t *run_new(weft_collectives_t *c, const weft_collective_t *call,
                              weft_canceller_t *canceller, weft_coll_run_t **out) {
  weft_coll_run_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(call->name));
  atomic_init(&r->refs, 1);
  weft_mutex_init(&r->mu);
  r->owner = c;
  r->ops = &run_ops;
  r->groups = c->groups;
  r->meetings = c->meetings;
  r->joints = c->joints;
  r->transport = c->transport;
  r->pool = c->pool;
  r->caller = pthread_self();
  r->timer = c->timer;
  r->rank = r->source = r->agreed_source = -1;
  r->canceller = weft_canceller_create(canceller);
  if (call->timeout_ms > 0) r->probe_canceller = weft_canceller_create(r->canceller);
  if (!copy_call(r, call) || r->canceller == NULL || (call->timeout_ms > 0 && r->probe_canceller == NULL)) {
    weft_coll_run_release(r);
    return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(call->name));
  }
  *out = r;
  return NULL;
}

void weft_collectives_run(weft_collectives_t *c, const weft_collective_t *call, weft_canceller_t *canceller,
                          weft_collective_done_fn *done, void *arg) {
  weft_coll_run_t *r = NULL;
  weft_status_t *s = weft_collective_check(call);
  if (s == NULL) s = run_new(c, call, canceller, &r);
  if (s != NULL) {
    done(arg, s, NULL);
    return;
  }
  r->done = done;
  r->arg = arg;
  weft_collective_sign(&r->call, &r->signature);
  weft_coll_run_retain(r); /* ours; the first one is given back by on_ended() */
  weft_mutex_lock(&c->mu);
  const bool is_ending = c->is_ending;
  r->next = c->runs;
  if (c->runs != NULL) c->runs->prev = r;
  c->runs = r;
  c->num_runs++;
  weft_mutex_unlock(&c->mu);
  weft_mutex_lock(&r->mu);
  r->outstanding = 1; /* nothing finishes before we are done here */
  weft_mutex_unlock(&r->mu);
  s = is_ending ? WEFT_ERROR(CANCELLED, "the collectives of %s end", c->task)
                : weft_group_losses_find(c->losses, call->step_id, call->group_key);
  weft_coll_run_retain(r); /* the cancel callback's */
  r->has_cancel = s == NULL && weft_canceller_register(r->canceller, on_cancel, r, &r->cancel_token);
  if (!r->has_cancel) {
    weft_coll_run_release(r);
    if (s == NULL) {
      s = weft_canceller_is_cancelled(r->canceller)
              ? WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled before it began",
                           WEFT_STR_ARGS(call->name))
              : WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(call->name));
    }
  }
  if (s == NULL && call->timeout_ms > 0) {
    s = weft_coll_run_set_timeout(r, WEFT_WATCHDOG_LEADER, call->timeout_ms + call->timeout_ms / 4 + 100);
  }
  weft_coll_run_end(r, s);
}

/* ---- ends from outside ---- */

static bool is_of_step(const weft_coll_run_t *r, const void *arg) {
  return r->call.step_id == *(const int64_t *)arg;
}

void weft_collectives_end_step(weft_collectives_t *c, int64_t step_id, const weft_status_t *why) {
  end_runs(c, is_of_step, &step_id, fail, why);
  c->transport->ops->end_step(c->transport, step_id, why);
  weft_meetings_forget_step(c->meetings, step_id);
  weft_group_losses_forget_step(c->losses, step_id);
}

int64_t weft_collectives_losses(const weft_collectives_t *c) { return weft_group_losses_count(c->losses); }

weft_status_t *weft_collectives_begin_step(weft_collectives_t *c, int64_t step_id, int64_t losses) {
  if (c->transport->ops->begin_step != NULL) c->transport->ops->begin_step(c->transport, step_id);
  weft_meetings_forget_step(c->meetings, step_id);
  return weft_group_losses_note_step(c->losses, step_id, losses);
}

static bool is_with_task(const weft_coll_run_t *r, const void *arg) {
  return r->loss == NULL && weft_group_has_task(r->group, *(const weft_str_t *)arg);
}

void weft_collectives_lost_task(weft_collectives_t *c, weft_str_t task, const weft_status_t *why) {
  weft_status_t *s = weft_transport_loss(task, why);
  if (c->transport->ops->cause != NULL) s = c->transport->ops->cause(c->transport, task, s);
  weft_group_cache_lose_task(c->groups, task, c->losses, s);
  c->transport->ops->lost_task(c->transport, task, s);
  end_runs(c, is_with_task, &task, weft_coll_run_lose, s);
  weft_status_free(s);
}
