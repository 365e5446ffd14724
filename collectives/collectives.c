/* collectives/collectives.c - a task's collectives: the runs that go on, how they begin, and what ends them
 * from outside. */
#include "collectives/collectives_impl.h"

#include "base/alloc.h"

void weft_group_entry_forget_instances(weft_group_entry_t *e) {
  size_t at = 0;
  weft_map_entry_t slot;
  while (weft_map_next(&e->instances, &at, &slot)) {
    weft_instance_t *i = slot.value;
    while (i != NULL) {
      weft_instance_t *next = i->next;
      weft_collective_plan_release(i->plan);
      weft_free(i);
      i = next;
    }
  }
  weft_map_deinit(&e->instances);
  e->instances = (weft_map_t)WEFT_MAP_INIT;
  e->num_instances = 0;
}

void weft_group_entry_release(weft_group_entry_t *e) {
  if (e == NULL || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
  weft_group_entry_forget_instances(e);
  weft_group_release(e->group);
  weft_free(e);
}

weft_status_t *weft_collectives_create(weft_str_t task, weft_thread_pool_t *pool, weft_transport_t *transport,
                                       weft_collectives_t **out) {
  weft_collectives_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "collectives of %.*s", WEFT_STR_ARGS(task));
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->idle);
  c->pool = pool;
  c->transport = transport;
  weft_status_t *s = weft_timer_create(&c->timer);
  c->task = s == NULL ? weft_strndup(task.data == NULL ? "" : task.data, task.length) : NULL;
  if (s == NULL && c->task == NULL)
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "collectives of %.*s", WEFT_STR_ARGS(task));
  if (s != NULL) {
    weft_collectives_destroy(c);
    return s;
  }
  c->task_text = weft_str_of(c->task, task.length);
  *out = c;
  return NULL;
}

/* Takes references to the runs for which `is_meant`; calls fail on each. */
typedef bool meant_fn(const weft_coll_run_t *r, const void *arg);

static void fail_runs(weft_collectives_t *c, meant_fn *is_meant, const void *arg, const weft_status_t *why) {
  for (;;) { /* one at a time: failing runs code of others */
    weft_coll_run_t *found = NULL;
    weft_mutex_lock(&c->mu);
    for (weft_coll_run_t *r = c->runs; r != NULL && found == NULL; r = r->next) {
      weft_mutex_lock(&r->mu);
      if (!r->has_failed && !r->is_finished && is_meant(r, arg)) found = weft_run_retain(r);
      weft_mutex_unlock(&r->mu);
    }
    weft_mutex_unlock(&c->mu);
    if (found == NULL) return;
    weft_collective_run_fail(found, weft_status_clone(why), true);
    weft_run_advance(found);
    weft_run_release(found);
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
  fail_runs(c, any, NULL, why);
  weft_status_free(why);
  weft_mutex_lock(&c->mu);
  while (c->num_runs > 0)
    weft_cond_wait(&c->idle, &c->mu); /* woken by weft_run_finished(); all runs were failed */
  weft_mutex_unlock(&c->mu);
  weft_timer_destroy(c->timer);
  size_t at = 0;
  weft_map_entry_t slot;
  while (weft_map_next(&c->groups, &at, &slot)) weft_group_entry_release(slot.value);
  weft_map_deinit(&c->groups);
  weft_cond_deinit(&c->idle);
  weft_mutex_deinit(&c->mu);
  weft_free(c->task);
  weft_free(c);
}

/* ---- starting ---- */

static bool copy_call(weft_coll_run_t *r, const weft_collective_t *call) {
  r->call = *call;
  r->call.input = weft_tensor_retain(call->input);
  r->call.name = weft_arena_str(&r->arena, call->name);
  r->call.device = weft_arena_str(&r->arena, call->device);
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
  weft_collective_run_fail(r,
                           WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled at %.*s",
                                      WEFT_STR_ARGS(r->call.name), WEFT_STR_ARGS(r->call.device)),
                           true);
  weft_run_advance(r);
  weft_run_release(r);
}

static weft_status_t *run_new(weft_collectives_t *c, const weft_collective_t *call,
                              weft_canceller_t *canceller, weft_coll_run_t **out) {
  weft_coll_run_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(call->name));
  atomic_init(&r->refs, 1);
  weft_mutex_init(&r->mu);
  r->owner = c;
  r->transport = c->transport;
  r->pool = c->pool;
  r->timer = c->timer;
  r->rank = r->source = r->agreed_source = -1;
  r->canceller = weft_canceller_create(canceller);
  if (call->timeout_ms > 0) r->probe_canceller = weft_canceller_create(r->canceller);
  if (!copy_call(r, call) || r->canceller == NULL || (call->timeout_ms > 0 && r->probe_canceller == NULL)) {
    weft_run_release(r);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(call->name));
  }
  *out = r;
  return NULL;
}

void weft_collectives_run(weft_collectives_t *c, const weft_collective_t *call, weft_canceller_t *canceller,
                          weft_collective_done_fn *done, void *arg) {
  weft_coll_run_t *r = NULL;
  weft_status_t *s = weft_prepare_check(call);
  if (s == NULL) s = run_new(c, call, canceller, &r);
  if (s != NULL) {
    done(arg, s, NULL);
    return;
  }
  r->done = done;
  r->arg = arg;
  weft_prepare_signature(&r->call, &r->signature);
  weft_run_retain(r); /* ours; the first one is given back by weft_run_finished() */
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
  if (is_ending) s = WEFT_ERROR(CANCELLED, "the collectives of %s end", c->task);
  weft_run_retain(r); /* the cancel callback's */
  r->has_cancel = s == NULL && weft_canceller_register(r->canceller, on_cancel, r, &r->cancel_token);
  if (!r->has_cancel) {
    weft_run_release(r);
    if (s == NULL) {
      s = weft_canceller_is_cancelled(r->canceller)
              ? WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled before it began",
                           WEFT_STR_ARGS(call->name))
              : WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(call->name));
    }
  }
  if (s == NULL && call->timeout_ms > 0) {
    s = weft_run_set_timeout(r, WEFT_PATIENCE_LEADER, call->timeout_ms + call->timeout_ms / 4 + 100);
  }
  weft_run_end(r, s);
}

void weft_run_finished(weft_coll_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_group_entry_t *e = r->entry;
  r->entry = NULL;
  weft_group_entry_release(e);
  weft_mutex_lock(&c->mu);
  if (r->prev != NULL) r->prev->next = r->next;
  if (r->prev == NULL) c->runs = r->next;
  if (r->next != NULL) r->next->prev = r->prev;
  c->num_runs--;
  weft_cond_broadcast(&c->idle);
  weft_mutex_unlock(&c->mu);
  weft_run_release(r);
}

/* What was agreed on its instances stays, if the leader then names the same members: who does something else
 * next time must know what to leave. */
void weft_run_forget_group(weft_coll_run_t *r) {
  weft_mutex_lock(&r->owner->mu);
  if (r->entry != NULL) r->entry->is_doubtful = true;
  weft_mutex_unlock(&r->owner->mu);
}

/* ---- ends from outside ---- */

static bool is_of_step(const weft_coll_run_t *r, const void *arg) {
  return r->call.step_id == *(const int64_t *)arg;
}

void weft_collectives_end_step(weft_collectives_t *c, int64_t step_id, const weft_status_t *why) {
  weft_status_t *aborted = NULL;
  if (why == NULL)
    aborted = weft_status_mark_derived(WEFT_ERROR(ABORTED, "step %lld has ended", (long long)step_id));
  fail_runs(c, is_of_step, &step_id, why == NULL ? aborted : why);
  c->transport->ops->end_step(c->transport, step_id, why);
  weft_status_free(aborted);
}

static bool has_task(const weft_group_t *g, weft_str_t task) {
  for (int i = 0; g != NULL && i < g->size; i++) {
    if (weft_str_eq(g->members[i].task, task)) return true;
  }
  return false;
}

static bool is_with_task(const weft_coll_run_t *r, const void *arg) {
  return has_task(r->group, *(const weft_str_t *)arg);
}

/* Takes one kept group of the task out of the table. */
static weft_group_entry_t *take_group_of(weft_collectives_t *c, weft_str_t task) {
  weft_mutex_lock(&c->mu);
  size_t at = 0;
  weft_map_entry_t slot;
  weft_group_entry_t *found = NULL;
  while (found == NULL && weft_map_next(&c->groups, &at, &slot)) {
    weft_group_entry_t *e = slot.value;
    if (has_task(e->group, task)) found = weft_map_remove_u64(&c->groups, (uint64_t)e->group->key);
  }
  weft_mutex_unlock(&c->mu);
  return found;
}

void weft_collectives_lost_task(weft_collectives_t *c, weft_str_t task, const weft_status_t *why) {
  weft_status_t *s = weft_transport_loss(task, why);
  if (c->transport->ops->cause != NULL) s = c->transport->ops->cause(c->transport, task, s);
  for (weft_group_entry_t *e = take_group_of(c, task); e != NULL; e = take_group_of(c, task))
    weft_group_entry_release(e);
  c->transport->ops->lost_task(c->transport, task, s);
  fail_runs(c, is_with_task, &task, s);
  weft_status_free(s);
}
