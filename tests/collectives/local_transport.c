/* tests/collectives/local_transport.c - a task's end of the hub: what ends, and the questions to the leader.
 */
#include "tests/collectives/local_hub_impl.h"

#include "base/alloc.h"

typedef bool ends_fn(const weft_local_transfer_t *p, const void *arg);

/* Takes all transfers of t for which it is time; linked by `next`. */
static weft_local_transfer_t *take_those_locked(weft_local_hub_t *h, weft_local_task_t *t, ends_fn *is_time,
                                                const void *arg) WEFT_REQUIRES(h->mu) {
  weft_local_transfer_t *list = NULL;
  for (weft_local_transfer_t *p = t->first; p != NULL;) {
    weft_local_transfer_t *next = p->next;
    if (is_time(p, arg)) {
      weft_local_take_locked(h, p);
      p->next = list;
      list = p;
    }
    p = next;
  }
  return list;
}

typedef struct run_id {
  int64_t step_id;
  weft_str_t run;
} run_id_t;

static bool is_run(const weft_local_transfer_t *p, const void *arg) {
  const run_id_t *id = arg;
  return weft_local_is_of_run(p, id->step_id, id->run);
}

static void fail_at(weft_local_hub_t *h, weft_local_task_t *t, run_id_t id, const weft_status_t *why) {
  weft_local_failed_run_t *f = weft_calloc(1, sizeof *f);
  char *run = weft_strndup(id.run.data, id.run.length);
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&h->mu);
  bool is_first = true;
  for (const weft_local_failed_run_t *x = t->failed; x != NULL && is_first; x = x->next) {
    is_first = x->step_id != id.step_id || !weft_str_eq(weft_str_of(x->run, x->run_length), id.run);
  }
  weft_local_transfer_t *list = is_first ? take_those_locked(h, t, is_run, &id) : NULL;
  if (is_first && f != NULL && run != NULL) {
    *f = (weft_local_failed_run_t){t->failed, id.step_id, run, id.run.length, mine};
    t->failed = f;
    f = NULL;
    run = NULL;
    mine = NULL;
  }
  weft_mutex_unlock(&h->mu);
  weft_local_end_all(list, why);
  weft_status_free(mine);
  weft_free(run);
  weft_free(f);
}

static void local_fail(weft_transport_t *base, int64_t step_id, weft_str_t run, const weft_group_t *group,
                       const weft_status_t *why) {
  weft_local_transport_t *t = (weft_local_transport_t *)base;
  const run_id_t id = {step_id, run};
  weft_mutex_lock(&t->hub->mu);
  const bool is_lost = t->task->lost != NULL;
  weft_mutex_unlock(&t->hub->mu);
  fail_at(t->hub, t->task, id, why);
  for (int i = 0; group != NULL && !is_lost && i < group->size; i++) { /* a killed task tells no other */
    weft_mutex_lock(&t->hub->mu);
    weft_local_task_t *peer = weft_local_find_task(t->hub, group->members[i].task);
    weft_mutex_unlock(&t->hub->mu);
    if (peer != NULL && peer != t->task) fail_at(t->hub, peer, id, why);
  }
}

static bool is_step(const weft_local_transfer_t *p, const void *arg) {
  return p->step_id == *(const int64_t *)arg;
}

static void local_end_step(weft_transport_t *base, int64_t step_id, const weft_status_t *why) {
  weft_local_transport_t *t = (weft_local_transport_t *)base;
  weft_local_hub_t *h = t->hub;
  weft_local_task_t *task = t->task;
  weft_status_t *mine =
      why == NULL ? WEFT_ERROR(ABORTED, "step %lld has ended", (long long)step_id) : weft_status_clone(why);
  weft_local_failed_run_t *gone = NULL;
  weft_mutex_lock(&h->mu);
  weft_local_transfer_t *list = take_those_locked(h, task, is_step, &step_id);
  for (weft_local_failed_run_t **at = &task->failed; *at != NULL;) {
    weft_local_failed_run_t *f = *at;
    if (f->step_id != step_id) {
      at = &f->next;
      continue;
    }
    *at = f->next;
    f->next = gone;
    gone = f;
  }
  weft_local_ended_step_t *slot = &task->ended[task->next_ended];
  task->next_ended = (task->next_ended + 1) % WEFT_LOCAL_STEPS_KEPT;
  weft_status_t *old = slot->why;
  *slot = (weft_local_ended_step_t){step_id, weft_status_clone(mine)};
  weft_mutex_unlock(&h->mu);
  weft_local_end_all(list, mine);
  weft_status_free(old);
  weft_status_free(mine);
  while (gone != NULL) {
    weft_local_failed_run_t *f = gone;
    gone = f->next;
    weft_status_free(f->why);
    weft_free(f->run);
    weft_free(f);
  }
}

static bool is_with(const weft_local_transfer_t *p, const void *arg) {
  const weft_local_task_t *t = arg;
  return p->owner == t || (p->has_fetch && p->fetcher == t) || (p->has_offer && p->offer_to == t);
}

static void end_all_with(weft_local_hub_t *h, const weft_local_task_t *lost, const weft_status_t *why) {
  for (weft_local_task_t *t = h->tasks; t != NULL; t = t->next) { /* tasks are only added at the front */
    weft_mutex_lock(&h->mu);
    weft_local_transfer_t *list = take_those_locked(h, t, is_with, lost);
    weft_mutex_unlock(&h->mu);
    weft_local_end_all(list, why);
  }
}

void weft_local_hub_kill(weft_local_hub_t *h, weft_str_t task) {
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "task %.*s was killed", WEFT_STR_ARGS(task));
  weft_mutex_lock(&h->mu);
  weft_local_task_t *t = weft_local_find_task(h, task);
  if (t != NULL && t->lost == NULL) t->lost = weft_status_clone(why);
  weft_mutex_unlock(&h->mu);
  if (t != NULL) {
    end_all_with(h, t, why);
    weft_group_table_lost_task(h->table, task, why);
  }
  weft_status_free(why);
}

static void local_lost_task(weft_transport_t *base, weft_str_t task, const weft_status_t *why) {
  weft_local_transport_t *t = (weft_local_transport_t *)base;
  weft_group_table_lost_task(t->hub->table, task, why);
}

/* ---- the leader ---- */

static void local_complete_group(weft_transport_t *base, const weft_group_request_t *r,
                                 weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  weft_local_transport_t *t = (weft_local_transport_t *)base;
  weft_group_request_t q = *r;
  weft_mutex_lock(&t->hub->mu);
  if (q.incarnation == 0) q.incarnation = t->task->incarnation;
  weft_status_t *lost = t->task->lost == NULL ? NULL : weft_status_clone(t->task->lost);
  weft_mutex_unlock(&t->hub->mu);
  if (lost != NULL)
    fn(arg, lost, NULL);
  else
    weft_group_table_join(t->hub->table, &q, canceller, fn, arg);
}

static void local_complete_instance(weft_transport_t *base, const weft_instance_request_t *r,
                                    weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  weft_local_transport_t *t = (weft_local_transport_t *)base;
  weft_mutex_lock(&t->hub->mu);
  weft_status_t *lost = t->task->lost == NULL ? NULL : weft_status_clone(t->task->lost);
  weft_mutex_unlock(&t->hub->mu);
  if (lost != NULL)
    fn(arg, lost, -1);
  else
    weft_group_table_join_instance(t->hub->table, r, canceller, fn, arg);
}

static double local_cost(weft_transport_t *base, weft_str_t from, weft_str_t to, size_t bytes) {
  return weft_local_hub_cost(((weft_local_transport_t *)base)->hub, from, to, bytes);
}

static void local_destroy(weft_transport_t *base) { weft_free(base); }

static const weft_transport_ops_t local_ops = {.offer = weft_local_offer,
                                               .fail = local_fail,
                                               .lost_task = local_lost_task,
                                               .end_step = local_end_step,
                                               .fetch = weft_local_fetch,
                                               .complete_group = local_complete_group,
                                               .complete_instance = local_complete_instance,
                                               .cost = local_cost,
                                               .destroy = local_destroy};

void weft_transport_destroy(weft_transport_t *t) {
  if (t != NULL) t->ops->destroy(t);
}

weft_status_t *weft_local_transport_create(weft_local_hub_t *h, weft_str_t task, weft_str_t host,
                                           uint64_t incarnation, weft_transport_t **out) {
  weft_status_t *s = NULL, *was_lost = NULL;
  weft_local_transport_t *t = weft_calloc(1, sizeof *t);
  weft_local_task_t *mine = weft_calloc(1, sizeof *mine);
  if (mine != NULL) {
    mine->name = weft_strndup(task.data, task.length);
    mine->host = weft_strndup(host.data == NULL ? "" : host.data, host.length);
  }
  if (t == NULL || mine == NULL || mine->name == NULL || mine->host == NULL) {
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "task %.*s", WEFT_STR_ARGS(task));
    goto done;
  }
  weft_mutex_lock(&h->mu);
  weft_local_task_t *there = weft_local_find_task(h, task);
  if (there == NULL) {
    mine->next = h->tasks;
    h->tasks = there = mine;
    mine = NULL;
  }
  was_lost = there->lost;
  there->lost = NULL;
  there->incarnation = incarnation;
  weft_mutex_unlock(&h->mu);
  *t = (weft_local_transport_t){{&local_ops}, h, there};
  *out = &t->base;
  t = NULL;
done:
  weft_status_free(was_lost);
  weft_free(t);
  if (mine != NULL) {
    weft_free(mine->name);
    weft_free(mine->host);
  }
  weft_free(mine);
  return s;
}
