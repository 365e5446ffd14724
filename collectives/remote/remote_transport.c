/* collectives/remote/remote_transport.c - the table of functions, and the transport's life.
 *
 * What is in which table, and who ends it: collectives/remote/transport_impl.h.
 */
#include "collectives/remote/remote_transport.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "collectives/remote/transport_impl.h"

/* ---- the table of functions ---- */

void weft_remote_hold(weft_remote_t *t, weft_remote_offer_t *o) {
  weft_mutex_lock(&t->mu);
  weft_status_t *s = weft_remote_ended_locked(t, o->step_id, o->key, WEFT_STR(""));
  weft_remote_asked_t *a = s == NULL ? weft_map_remove(&t->asked, weft_str(o->name)) : NULL;
  if (a != NULL) {
    a->is_waiting = false;
  } else if (s == NULL && weft_map_get(&t->offers, weft_str(o->name)) != NULL) {
    s = WEFT_ERROR(INTERNAL, "'%.*s' is offered twice", WEFT_STR_ARGS(o->key));
  } else if (s == NULL) {
    s = weft_map_put(&t->offers, weft_str(o->name), o, NULL);
  }
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    weft_remote_end_offer(o, s);
  } else if (a != NULL) {
    weft_remote_give(a, o);
  }
}

/* All that the peer has said before its link broke is known now: it may have left because of another. */
static void end_untold(void *arg) {
  weft_remote_offer_t *o = arg;
  weft_status_t *why = o->why;
  if (!weft_remote_is_lost(o->t, o->to_task)) {
    weft_status_t *loss = weft_transport_loss(o->to_task, why);
    weft_remote_note_loss(o->t, o->to_task, loss, false);
    weft_status_free(loss);
  }
  weft_remote_end_offer(o, weft_remote_cause(o->t, o->to_task, why));
}

/* Tells the receiver over the link, which o holds. Few bytes go with the message; they are done then, unless
 * is_kept. `key` is the caller's: o may be gone as soon as the peer knows of it. */
static void tell(weft_remote_t *t, weft_remote_offer_t *o, weft_str_t key, weft_str_t to_device,
                 bool is_kept) {
  weft_host_link_t *link = weft_host_link_retain(o->link);
  bool is_inline = o->bytes <= WEFT_HOST_LINK_INLINE, is_sent = is_inline && !is_kept;
  weft_host_offer_t told = {.step_id = o->step_id,
                            .key = key,
                            .to_device = to_device,
                            .bytes = o->bytes,
                            .address = (uint64_t)(uintptr_t)o->data};
  if (is_inline) told.inline_data = o->bytes == 0 ? "" : o->data;
  weft_status_t *s = NULL;
  bool is_broken = false;
  if (!is_sent) {
    weft_mutex_lock(&t->mu);
    told.id = o->id = ++t->next_id;
    s = weft_map_put_u64(&t->told, told.id, o, NULL);
    weft_mutex_unlock(&t->mu);
  }
  if (s == NULL && !weft_host_link_offer(link, &told)) {
    s = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s", WEFT_STR_ARGS(weft_host_link_task(link)));
    is_broken = true;
    weft_mutex_lock(&t->mu);
    if (!is_sent) o = weft_map_remove_u64(&t->told, told.id); /* NULL: its end was noticed before */
    weft_mutex_unlock(&t->mu);
  }
  if (o != NULL && is_broken) {
    o->t = t;
    o->why = s;
    s = NULL;
    weft_host_links_settle(t->links, end_untold, o);
  } else if (o != NULL && (is_sent || s != NULL)) {
    weft_remote_end_offer(o, s);
    s = NULL;
  }
  weft_status_free(s);
  weft_host_link_release(link);
}

static void transport_offer(weft_transport_t *base, int64_t step_id, weft_str_t key, weft_str_t to_task,
                            weft_str_t to_device, const void *data, size_t bytes, bool is_kept,
                            weft_transfer_done_fn *done, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  weft_remote_offer_t *o = weft_calloc(1, sizeof *o);
  if (o != NULL) o->name = weft_remote_name(step_id, to_device, key, to_task, &o->key, &o->to_task);
  if (o == NULL || o->name == NULL) {
    weft_free(o);
    done(arg, weft_remote_no_memory(key));
    return;
  }
  o->step_id = step_id;
  o->data = data;
  o->bytes = bytes;
  o->done = done;
  o->arg = arg;
  o->link = weft_str_is(to_task, t->task) ? NULL : weft_host_links_find(t->links, to_task);
  weft_mutex_lock(&t->mu);
  weft_remote_mark_step_locked(t, step_id);
  weft_status_t *s = weft_remote_ended_locked(t, step_id, o->key, WEFT_STR(""));
  bool is_asked =
      weft_map_get(&t->asked, weft_str(o->name)) != NULL; /* by a call, though there is a link by now */
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    weft_remote_end_offer(o, s);
  } else if (o->link != NULL && !is_asked) {
    tell(t, o, key, to_device, is_kept);
  } else {
    weft_remote_hold(t, o);
  }
}

static char *copy_texts(const weft_fetch_t *f, weft_remote_fetch_t *out) {
  size_t size = f->from_task.length + f->from_device.length + f->to_device.length;
  char *texts = weft_malloc(size + 1), *p = texts;
  if (texts == NULL) return NULL;
  const weft_str_t *from[3] = {&f->from_task, &f->from_device, &f->to_device};
  weft_str_t *to[3] = {&out->from_task, &out->from_device, &out->to_device};
  for (int i = 0; i < 3; i++) {
    if (from[i]->length > 0) memcpy(p, from[i]->data, from[i]->length);
    *to[i] = weft_str_of(p, from[i]->length);
    p += from[i]->length;
  }
  return texts;
}

static void transport_fetch(weft_transport_t *base, const weft_fetch_t *wanted, weft_canceller_t *canceller,
                            weft_transfer_done_fn *done, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  bool is_own = weft_str_is(wanted->from_task, t->task);
  weft_host_link_t *link = is_own ? NULL : weft_host_links_find(t->links, wanted->from_task);
  weft_remote_fetch_t *f = weft_calloc(1, sizeof *f);
  weft_str_t more = {NULL, 0};
  char *texts = f == NULL ? NULL : copy_texts(wanted, f);
  if (texts != NULL) {
    size_t size = f->from_task.length + f->from_device.length + f->to_device.length;
    f->name = weft_remote_name(wanted->step_id, wanted->to_device, wanted->key, weft_str_of(texts, size),
                               &f->key, &more);
  }
  weft_free(texts);
  if (f != NULL && f->name != NULL && link == NULL) f->canceller = weft_canceller_create(canceller);
  if (f == NULL || f->name == NULL || (link == NULL && f->canceller == NULL)) {
    if (f != NULL) weft_free(f->name);
    weft_free(f);
    weft_host_link_release(link);
    done(arg, weft_remote_no_memory(wanted->key));
    return;
  }
  f->from_task = weft_str_of(more.data, wanted->from_task.length);
  f->from_device = weft_str_of(f->from_task.data + f->from_task.length, wanted->from_device.length);
  f->to_device = weft_str_of(f->from_device.data + f->from_device.length, wanted->to_device.length);
  if (link != NULL) f->canceller = weft_canceller_retain(canceller);
  f->t = t;
  f->step_id = wanted->step_id;
  f->f = *wanted;
  f->done = done;
  f->arg = arg;
  weft_mutex_lock(&t->mu);
  weft_remote_begin_locked(t, f->step_id);
  weft_status_t *s = NULL;
  if (link == NULL) {
    s = weft_remote_ended_locked(t, f->step_id, f->key, f->from_task);
    if (s == NULL) s = weft_remote_keep_locked(&t->calls, f);
  } else { /* what has come is good, even if the one who sent it ended the step since; but not if we did */
    s = weft_remote_ended_locked(t, f->step_id, f->key, WEFT_STR(""));
  }
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    weft_remote_end_fetch(f, s, true);
    weft_host_link_release(link);
  } else if (link != NULL) {
    weft_remote_want(t, f, link);
  } else {
    weft_remote_call_for(t, f, is_own);
  }
}

static void transport_fail(weft_transport_t *base, int64_t step_id, weft_str_t run, const weft_group_t *group,
                           const weft_status_t *why) {
  weft_remote_t *t = weft_remote_of(base);
  for (int i = 0; group != NULL && i < group->size; i++) {
    weft_str_t task = group->members[i].task;
    bool is_told = weft_str_is(task, t->task);
    for (int k = 0; k < i && !is_told; k++) is_told = weft_str_eq(group->members[k].task, task);
    if (is_told) continue;
    weft_host_link_t *link = weft_host_links_find(t->links, task);
    if (link != NULL) (void)weft_host_link_ended(link, step_id, run, why);
    if (link == NULL) weft_remote_tell_ended(t, task, step_id, run, why);
    weft_host_link_release(link);
  }
  weft_remote_fail_here(t, step_id, run, why);
}

static void transport_lost_task(weft_transport_t *base, weft_str_t task, const weft_status_t *why) {
  weft_remote_t *t = weft_remote_of(base);
  weft_remote_which_t by_task = {.task = task};
  weft_remote_note_loss(t, task, why, false);
  weft_remote_end_matching(t, &by_task, false, why);
  (void)weft_host_links_break(t->links, task);
  weft_group_table_lost_task(t->groups, task, why);
}

static weft_status_t *transport_cause(weft_transport_t *base, weft_str_t task, weft_status_t *why) {
  return weft_remote_cause(weft_remote_of(base), task, why);
}

static void transport_end_step(weft_transport_t *base, int64_t step_id, const weft_status_t *why) {
  weft_remote_t *t = weft_remote_of(base);
  weft_mutex_lock(&t->mu);
  bool is_known = weft_map_remove_u64(&t->steps, (uint64_t)step_id) != NULL;
  if (t->last_step == step_id) t->last_step = 0;
  weft_mutex_unlock(&t->mu);
  if (!is_known && why == NULL) return; /* a step without collectives */
  weft_status_t *cause =
      why != NULL ? weft_status_clone(why)
                  : weft_status_mark_derived(WEFT_ERROR(ABORTED, "step %" PRId64 " has ended", step_id));
  weft_remote_add_ending(t, step_id, NULL, NULL, weft_status_clone(cause));
  weft_host_links_tell_ended(t->links, step_id, why);
  weft_remote_which_t w = {.has_step = true, .step_id = step_id};
  weft_remote_end_matching(t, &w, false, cause);
  weft_status_free(cause);
}

/* Seconds. The leader asks for a group, and tells all members, so that they choose alike; what it has
 * measured on its own ways stands for those of others. */
static double cost_between(weft_remote_t *t, weft_str_t from, weft_str_t to, size_t bytes) {
  if (weft_str_eq(from, to)) return 5e-6 + (double)bytes / 10e9; /* a closure, and memory's pace */
  weft_str_t a = weft_remote_host_of(t, from), b = weft_remote_host_of(t, to);
  bool is_near = a.length > 0 && weft_str_eq(a, b);
  weft_link_t l = weft_link_costs_of(&t->costs, is_near ? WEFT_WAY_NEAR : WEFT_WAY_FAR);
  return l.alpha_s + (double)bytes * l.byte_s;
}

/* What reading a peer's memory costs is known before the first peer: our own is as far. */
static void measure_reading(weft_remote_t *t) {
  char *from = weft_calloc(1, WEFT_HOST_LINK_BLOCK), *to = weft_calloc(1, WEFT_HOST_LINK_BLOCK);
  for (int i = 0; i < 4 && from != NULL && to != NULL; i++) {
    const double seconds = weft_host_links_time_read(t->links, from, to, WEFT_HOST_LINK_BLOCK);
    if (seconds > 0)
      weft_link_costs_note(&t->costs, WEFT_WAY_NEAR, WEFT_HOST_LINK_BLOCK,
                           seconds + weft_link_costs_of(&t->costs, WEFT_WAY_NEAR).alpha_s);
  }
  weft_free(from);
  weft_free(to);
}

static double transport_cost(weft_transport_t *base, weft_str_t from_task, weft_str_t to_task, size_t bytes) {
  return cost_between(weft_remote_of(base), from_task, to_task, bytes);
}
static double leader_cost(void *arg, weft_str_t from_task, weft_str_t to_task, size_t bytes) {
  return cost_between(arg, from_task, to_task, bytes);
}

static const weft_str_t *cluster_tasks(void *arg, int *out_n) {
  const weft_remote_t *t = arg;
  *out_n = 0;
  return t->peers.tasks == NULL ? NULL : t->peers.tasks(t->peers.arg, out_n);
}

weft_link_counters_t *weft_remote_transport_counters(weft_transport_t *t) {
  return weft_remote_of(t)->counters;
}

/* ---- life ---- */

void weft_remote_transport_leave(weft_transport_t *base) {
  weft_remote_t *t = weft_remote_of(base);
  weft_str_t dead = {NULL, 0};
  weft_remote_end_tellings(t);
  weft_status_t *why = weft_remote_why_we_leave(t, &dead);
  weft_host_links_leave(t->links, dead, why);
  weft_remote_which_t all = {.has_step = false};
  if (why != NULL) weft_remote_end_matching(t, &all, false, why); /* who waits for us hears it, too */
  if (why == NULL) why = WEFT_ERROR(UNAVAILABLE, "The task %s was shut down", t->task);
  weft_group_table_leave(t->groups, why);
  weft_status_free(why);
}

void weft_remote_transport_stop(weft_transport_t *base) {
  weft_remote_t *t = weft_remote_of(base);
  weft_str_t dead = {NULL, 0};
  weft_remote_transport_leave(base);
  weft_host_links_stop(t->links);
  weft_status_t *why = weft_remote_why_we_leave(t, &dead);
  if (why == NULL) why = WEFT_ERROR(UNAVAILABLE, "The task %s was shut down", t->task);
  weft_remote_which_t all = {.has_step = false};
  weft_remote_end_matching(t, &all, true, why);
  weft_status_free(why);
}

static void transport_destroy(weft_transport_t *base) {
  weft_remote_t *t = weft_remote_of(base);
  if (t->links != NULL) weft_remote_transport_stop(base);
  weft_mutex_lock(&t->mu);
  while (t->num_busy > 0)
    weft_cond_wait(&t->idle, &t->mu); /* woken by end_busy; calls are cancelled, reads end by themselves */
  weft_mutex_unlock(&t->mu);
  weft_host_links_destroy(t->links);
  weft_group_table_destroy(t->groups);
  weft_link_counters_destroy(t->counters);
  for (size_t i = 0; i < WEFT_REMOTE_ENDINGS; i++) {
    weft_free(t->endings[i].run);
    weft_free(t->endings[i].task);
    weft_status_free(t->endings[i].why);
  }
  for (int i = 0; i < WEFT_REMOTE_SCRATCH; i++) weft_free(t->scratch[i]);
  for (int i = 0; i < WEFT_REMOTE_LOSSES; i++) weft_status_free(t->losses[i].why);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->seen, &at, &e);) weft_group_release(e.value);
  weft_map_t *maps[] = {&t->offers, &t->told,  &t->wants, &t->calls, &t->come,
                        &t->asked,  &t->steps, &t->hosts, &t->seen};
  for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) weft_map_deinit(maps[i]);
  weft_arena_deinit(&t->arena);
  weft_cond_deinit(&t->idle);
  weft_link_costs_deinit(&t->costs);
  weft_mutex_deinit(&t->mu);
  weft_status_free(t->failure);
  weft_canceller_release(t->tellings);
  weft_free(t->task);
  weft_free(t);
}

weft_status_t *weft_remote_transport_create(const weft_remote_transport_options_t *o,
                                            weft_transport_t **out) {
  static const weft_transport_ops_t ops = {.offer = transport_offer,
                                           .fail = transport_fail,
                                           .lost_task = transport_lost_task,
                                           .cause = transport_cause,
                                           .end_step = transport_end_step,
                                           .fetch = transport_fetch,
                                           .complete_group = weft_remote_complete_group,
                                           .complete_instance = weft_remote_complete_instance,
                                           .cost = transport_cost,
                                           .destroy = transport_destroy};
  static const weft_host_link_ops_t link_ops = {weft_remote_offered, weft_remote_finished,
                                                weft_remote_refused, weft_remote_met,
                                                weft_remote_ended,   weft_remote_broken};
  weft_remote_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for the transport of collectives");
  t->base.ops = &ops;
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->idle);
  weft_link_costs_init(&t->costs);
  t->incarnation = o->incarnation;
  t->pool = o->pool;
  t->peers = o->peers;
  t->task = weft_strndup(o->task.data, o->task.length);
  weft_group_table_env_t env = {
      .tasks = cluster_tasks, .host_of = weft_remote_host_of, .cost = leader_cost, .arg = t};
  t->tellings = weft_canceller_create(NULL);
  weft_status_t *s = t->task == NULL || t->tellings == NULL ? weft_remote_no_memory(o->task) : NULL;
  if (s == NULL) s = weft_link_counters_create(&t->counters);
  if (s == NULL) s = weft_group_table_create(&env, &t->groups);
  if (s == NULL)
    s = weft_host_links_create(weft_str(t->task), o->only_rpc ? 0 : o->incarnation, &link_ops, t, &t->links);
  if (s != NULL) {
    transport_destroy(&t->base);
    return s;
  }
  if (weft_host_links_host(t->links).length > 0) measure_reading(t);
  *out = &t->base;
  return NULL;
}
