/* collectives/remote/remote_transport.c - the table of functions, and the transport's life.
 *
 * The parts of the transport: collectives/remote/remote_impl.h.
 */
#include "collectives/remote/remote_transport.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "collectives/remote/remote_impl.h"

/* ---- the table of functions ---- */

/* An offer that a lost task would have to fetch by a call waits for ever: the loss ended only what was held
 * when it was known. */
static void end_what_is_held_for_lost(weft_remote_t *t, weft_str_t task) {
  if (!weft_peer_table_is_lost(t->known, task)) return;
  weft_status_t *why = weft_peer_table_cause(
      t->known, task,
      WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s: the task failed or was stopped",
                 WEFT_STR_ARGS(task)));
  weft_transfer_filter_t by_task = {.task = task};
  weft_remote_abort(t, &by_task, why);
  weft_status_free(why);
}

static void transport_offer(weft_transport_t *base, int64_t step_id, weft_str_t key, weft_str_t to_task,
                            weft_str_t to_device, const void *data, size_t bytes, bool is_kept,
                            weft_transfer_done_fn *done, void *arg) {
  weft_remote_t *t = weft_remote_of(base);
  weft_remote_offer_t *o = weft_calloc(1, sizeof *o);
  if (o != NULL) o->name = weft_transfers_name(step_id, to_device, key, to_task, &o->key, &o->to_task);
  if (o == NULL || o->name == NULL) {
    weft_free(o);
    done(arg, weft_remote_no_memory(key));
    return;
  }
  o->t = t;
  o->step_id = step_id;
  o->data = data;
  o->bytes = bytes;
  o->done = done;
  o->arg = arg;
  o->incarnation = weft_peer_table_incarnation_of(t->known, to_task);
  o->link = weft_str_is(to_task, t->task) ? NULL : weft_host_links_find(t->links, to_task);
  bool is_requested = false; /* by a call, though there is a link by now */
  weft_status_t *s = weft_transfers_begin_offer(t->transfers, o, &is_requested);
  if (s != NULL) {
    weft_remote_end_offer(o, s);
  } else if (o->link != NULL && !is_requested) {
    weft_remote_announce(t, o, key, to_device, is_kept);
  } else {
    weft_remote_hold(t, o);
    end_what_is_held_for_lost(t, to_task);
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
    f->name = weft_transfers_name(wanted->step_id, wanted->to_device, wanted->key, weft_str_of(texts, size),
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
  f->incarnation = weft_peer_table_incarnation_of(t->known, f->from_task);
  f->step_id = wanted->step_id;
  f->f = *wanted;
  f->done = done;
  f->arg = arg;
  weft_transfers_begin(t->transfers, f->step_id);
  weft_status_t *s =
      link == NULL ? weft_transfers_begin_call(t->transfers, f) : weft_transfers_check(t->transfers, f);
  if (s != NULL) {
    weft_remote_end_fetch(f, s, true);
    weft_host_link_release(link);
  } else if (link != NULL) {
    weft_remote_wait(t, f, link);
  } else {
    weft_remote_call(t, f, is_own);
  }
}

static void transport_fail(weft_transport_t *base, int64_t step_id, weft_str_t run, const weft_group_t *group,
                           const weft_status_t *why) {
  weft_remote_fail(weft_remote_of(base), step_id, run, group, why);
}

static void transport_lost_task(weft_transport_t *base, weft_str_t task, const weft_status_t *why) {
  weft_remote_t *t = weft_remote_of(base);
  weft_transfer_filter_t by_task = {.task = task};
  (void)weft_peer_table_note_loss(t->known, task, 0, why, false);
  weft_remote_abort(t, &by_task, why);
  (void)weft_host_links_break(t->links, task);
  weft_group_table_lost_task(t->groups, task, why);
  weft_remote_lost_leader(t, task);
}

static weft_status_t *transport_cause(weft_transport_t *base, weft_str_t task, weft_status_t *why) {
  return weft_peer_table_cause(weft_remote_of(base)->known, task, why);
}

static void transport_begin_step(weft_transport_t *base, int64_t step_id) {
  weft_transfers_begin_step(weft_remote_of(base)->transfers, step_id);
}

static void transport_end_step(weft_transport_t *base, int64_t step_id, const weft_status_t *why) {
  weft_remote_t *t = weft_remote_of(base);
  bool is_known = weft_transfers_end_step(t->transfers, step_id);
  if (!is_known && why == NULL) return; /* a step without collectives */
  weft_status_t *cause =
      why != NULL ? weft_status_clone(why)
                  : weft_status_mark_derived(WEFT_ERROR(ABORTED, "step %" PRId64 " has ended", step_id));
  weft_transfers_add_ended(t->transfers, step_id, NULL, NULL, weft_status_clone(cause));
  weft_host_links_tell_ended(t->links, step_id, why);
  weft_transfer_filter_t w = {.has_step = true, .step_id = step_id};
  weft_remote_abort(t, &w, cause);
  weft_status_free(cause);
}

/* Seconds. The leader asks for a group, and tells all members, so that they choose alike; what it has
 * measured on its own links stands for those of other tasks. */
static double cost_between(weft_remote_t *t, weft_str_t from, weft_str_t to, size_t bytes) {
  if (weft_str_eq(from, to)) return 5e-6 + (double)bytes / 10e9; /* a closure, and memory's pace */
  weft_str_t a = weft_peer_table_host_of(t->known, from), b = weft_peer_table_host_of(t->known, to);
  bool is_near = a.length > 0 && weft_str_eq(a, b);
  weft_link_t l = weft_link_costs_of(&t->costs, is_near ? WEFT_WAY_NEAR : WEFT_WAY_FAR);
  return l.alpha_s + (double)bytes * l.byte_s;
}

/* Measures what reading a peer's memory costs before there is a peer, by reading this process's own. */
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

static weft_str_t host_of(void *arg, weft_str_t task) {
  return weft_peer_table_host_of(((const weft_remote_t *)arg)->known, task);
}

static bool is_lost(void *arg, weft_str_t task) {
  return weft_peer_table_is_lost(((const weft_remote_t *)arg)->known, task);
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
  weft_str_t failed = {NULL, 0};
  weft_remote_stop_broadcasts(t);
  weft_status_t *why = weft_peer_table_departure_cause(t->known, &failed);
  weft_host_links_leave(t->links, failed, why);
  weft_transfer_filter_t all = {.has_step = false};
  if (why != NULL) weft_remote_abort(t, &all, why); /* peers that wait for this task get the cause, too */
  weft_status_free(why);
  why = weft_remote_departure_status(t);
  weft_group_table_leave(t->groups, why);
  weft_status_free(why);
}

void weft_remote_transport_stop(weft_transport_t *base) {
  weft_remote_t *t = weft_remote_of(base);
  weft_remote_transport_leave(base);
  weft_host_links_stop(t->links);
  weft_status_t *why = weft_remote_departure_status(t);
  weft_transfer_filter_t all = {.with_announced = true};
  weft_remote_abort(t, &all, why);
  weft_status_free(why);
}

/* Of a transport that may be half made. */
static void transport_destroy(weft_transport_t *base) {
  weft_remote_t *t = weft_remote_of(base);
  if (t->links != NULL) weft_remote_transport_stop(base);
  if (t->transfers != NULL)
    weft_transfers_wait_idle(t->transfers); /* calls are cancelled, reads end by themselves */
  weft_abort_broadcasts_deinit(&t->broadcasts);
  weft_host_links_destroy(t->links);
  weft_group_table_destroy(t->groups);
  weft_link_counters_destroy(t->counters);
  weft_transfers_destroy(t->transfers);
  weft_peer_table_destroy(t->known);
  weft_scratch_blocks_deinit(&t->scratch);
  weft_mutex_deinit(&t->leader_calls.mu);
  weft_link_costs_deinit(&t->costs);
  weft_free(t->task);
  weft_free(t);
}

weft_status_t *weft_remote_transport_create(const weft_remote_transport_options_t *o,
                                            weft_transport_t **out) {
  static const weft_transport_ops_t ops = {.offer = transport_offer,
                                           .fail = transport_fail,
                                           .lost_task = transport_lost_task,
                                           .cause = transport_cause,
                                           .begin_step = transport_begin_step,
                                           .end_step = transport_end_step,
                                           .fetch = transport_fetch,
                                           .post = weft_remote_post,
                                           .max_posting = WEFT_POST_RANKS,
                                           .complete_group = weft_remote_complete_group,
                                           .complete_instance = weft_remote_complete_instance,
                                           .cost = transport_cost,
                                           .destroy = transport_destroy};
  weft_remote_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("the transport of collectives");
  t->base.ops = &ops;
  weft_mutex_init(&t->scratch.mu);
  weft_mutex_init(&t->leader_calls.mu);
  weft_link_costs_init(&t->costs);
  t->incarnation = o->incarnation;
  t->pool = o->pool;
  t->peers = o->peers;
  t->task = weft_strndup(o->task.data, o->task.length);
  weft_group_table_env_t env = {
      .tasks = cluster_tasks, .is_lost = is_lost, .host_of = host_of, .cost = leader_cost, .arg = t};
  weft_status_t *s = weft_abort_broadcasts_init(&t->broadcasts);
  if (s == NULL && t->task == NULL) s = weft_remote_no_memory(o->task);
  if (s == NULL) s = weft_peer_table_create(&t->known);
  if (s == NULL) s = weft_transfers_create(&t->transfers);
  if (s == NULL) s = weft_link_counters_create(&t->counters);
  if (s == NULL) s = weft_group_table_create(&env, &t->groups);
  if (s == NULL)
    s = weft_host_links_create(weft_str(t->task), o->only_rpc ? 0 : o->incarnation, &weft_remote_link_ops, t,
                               &t->links);
  if (s != NULL) {
    transport_destroy(&t->base);
    return s;
  }
  if (weft_host_links_host(t->links).length > 0) measure_reading(t);
  *out = &t->base;
  return NULL;
}
