/* collectives/collectives.c - a task's collectives: what is known of groups and instances, and the runs that
 * go on.
 *
 * The leader is asked once for a group and once for an instance; both answers are kept, so that a repeated
 * step touches two hash tables and asks nobody. A kept group goes when a task of it is lost, or when a run of
 * it failed: the next one asks the leader again. Whoever uses it meanwhile holds a reference.
 *
 * An instance may be used with another shape or kind in a later step. Whoever sees that its own part
 * differs from what was agreed asks the leader again, and ends this step's run under the old agreement at all
 * others: if they go on as before they would wait for us. They then ask the leader, too, who tells all what
 * differs.
 *
 * Locking: `mu` is a leaf; groups' entries and their instances are guarded by it.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "collectives/run.h"

enum {
  MAX_INSTANCES = 1 << 14, /* per group; eager TensorFlow clients use a new key for each call: old ones go */
  DOUBT_MS = 1000, /* for the leader to say who differs: the others' questions are on their way already */
};

typedef struct weft_group_entry {
  atomic_int refs;
  weft_group_t *group;
  weft_map_t instances; /* guarded by the collectives' mu; number -> chain */
  size_t num_instances;
  bool is_doubtful; /* guarded by the collectives' mu: a run has failed, the leader is to be asked for the group again */
} group_entry_t;

struct weft_collectives {
  char *task;
  weft_str_t task_text;
  weft_thread_pool_t *pool;    /* borrowed */
  weft_transport_t *transport; /* borrowed */
  weft_timer_t *timer;
  weft_mutex_t mu;
  weft_cond_t idle;
  weft_map_t groups; /* guarded by mu; key -> group_entry_t, one reference */
  weft_run_t *runs;  /* guarded by mu */
  int num_runs;      /* guarded by mu */
  bool is_ending;    /* guarded by mu */
};

static void forget_instances(group_entry_t *e) {
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

static void entry_release(group_entry_t *e) {
  if (e == NULL || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
  forget_instances(e);
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
typedef bool meant_fn(const weft_run_t *r, const void *arg);

static void fail_runs(weft_collectives_t *c, meant_fn *is_meant, const void *arg, const weft_status_t *why) {
  for (;;) { /* one at a time: failing runs code of others */
    weft_run_t *found = NULL;
    weft_mutex_lock(&c->mu);
    for (weft_run_t *r = c->runs; r != NULL && found == NULL; r = r->next) {
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

static bool any(const weft_run_t *r, const void *arg) {
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
  while (weft_map_next(&c->groups, &at, &slot)) entry_release(slot.value);
  weft_map_deinit(&c->groups);
  weft_cond_deinit(&c->idle);
  weft_mutex_deinit(&c->mu);
  weft_free(c->task);
  weft_free(c);
}

/* ---- starting ---- */

static bool copy_call(weft_run_t *r, const weft_collective_t *call) {
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
  weft_run_t *r = arg;
  weft_collective_run_fail(r,
                           WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled at %.*s",
                                      WEFT_STR_ARGS(r->call.name), WEFT_STR_ARGS(r->call.device)),
                           true);
  weft_run_advance(r);
  weft_run_release(r);
}

static weft_status_t *run_new(weft_collectives_t *c, const weft_collective_t *call,
                              weft_canceller_t *canceller, weft_run_t **out) {
  weft_run_t *r = weft_calloc(1, sizeof *r);
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
  weft_run_t *r = NULL;
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

void weft_run_finished(weft_run_t *r) {
  weft_collectives_t *c = r->owner;
  group_entry_t *e = r->entry;
  r->entry = NULL;
  entry_release(e);
  weft_mutex_lock(&c->mu);
  if (r->prev != NULL) r->prev->next = r->next;
  if (r->prev == NULL) c->runs = r->next;
  if (r->next != NULL) r->next->prev = r->prev;
  c->num_runs--;
  weft_cond_broadcast(&c->idle);
  weft_mutex_unlock(&c->mu);
  weft_run_release(r);
}

/* What was agreed on its instances stays, if the leader then names the same members: who does something else next time
 * must know what to leave. */
void weft_run_forget_group(weft_run_t *r) {
  weft_mutex_lock(&r->owner->mu);
  if (r->entry != NULL) r->entry->is_doubtful = true;
  weft_mutex_unlock(&r->owner->mu);
}

/* ---- the group ---- */

static int rank_of(const weft_group_t *g, weft_str_t device) {
  for (int i = 0; i < g->size; i++) {
    if (weft_str_eq(g->members[i].device, device)) return i;
  }
  return -1;
}

/* The group is known: who am I in it? */
static weft_status_t *enter_group(weft_run_t *r, group_entry_t *e) { /* takes the reference to e */
  r->entry = e;
  weft_group_t *g = e->group;
  const weft_collective_t *call = &r->call;
  const int rank = rank_of(g, call->device);
  if (rank < 0 || g->size != call->group_size || (call->rank >= 0 && call->rank != rank)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Collective %.*s: %.*s wants to be rank %d of %d in group %lld, which has %d members "
                      "and knows it as rank %d",
                      WEFT_STR_ARGS(call->name), WEFT_STR_ARGS(call->device), call->rank, call->group_size,
                      (long long)call->group_key, g->size, rank);
  }
  uint64_t hash = 14695981039346656037u; /* FNV-1a of what was said about the collective */
  const unsigned char *bytes = (const unsigned char *)&r->signature;
  for (size_t i = 0; i < sizeof r->signature; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  weft_mutex_lock(&r->mu);
  r->rank = rank;
  r->group = weft_group_retain(g);
  if (!r->has_failed) { /* from here on a failure is told to the others */
    r->run_length = (size_t)snprintf(
        r->run_text, sizeof r->run_text, "%llx.%llx.%llx.%llx.%x", (unsigned long long)call->group_key,
        (unsigned long long)call->instance_key, (unsigned long long)call->frame_id,
        (unsigned long long)call->iteration, (unsigned)(hash ^ (hash >> 32)));
  }
  weft_mutex_unlock(&r->mu);
  return NULL;
}

static weft_status_t *keep_group(weft_collectives_t *c, weft_group_t *group, group_entry_t **out) {
  group_entry_t *e = weft_calloc(1, sizeof *e), *old = NULL;
  if (e == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective group %lld", (long long)group->key);
  atomic_init(&e->refs, 2); /* the table's, the caller's */
  e->group = weft_group_retain(group);
  weft_mutex_lock(&c->mu);
  group_entry_t *there = weft_map_get_u64(&c->groups, (uint64_t)group->key);
  weft_status_t *s = NULL;
  bool is_there = there != NULL && there->group == group;
  if (is_there) {
    atomic_fetch_add(&there->refs, 1);
  } else {
    /* Another run may have been told the same group: then the one that is there stays. */
    is_there = there != NULL && there->group->size == group->size;
    for (int i = 0; is_there && i < group->size; i++) {
      is_there = there->group->members[i].incarnation == group->members[i].incarnation &&
                 weft_str_eq(there->group->members[i].device, group->members[i].device);
    }
    if (is_there) atomic_fetch_add(&there->refs, 1);
    void *replaced = NULL;
    if (!is_there) s = weft_map_put_u64(&c->groups, (uint64_t)group->key, e, &replaced);
    old = replaced;
  }
  if (is_there) there->is_doubtful = false;
  weft_mutex_unlock(&c->mu);
  entry_release(old);
  if (is_there || s != NULL) {
    atomic_store(&e->refs, 1);
    entry_release(e);
  }
  if (s == NULL) *out = is_there ? there : e;
  return s;
}

static void on_group(void *arg, weft_status_t *s, weft_group_t *group) {
  weft_run_t *r = arg;
  group_entry_t *e = NULL;
  if (s == NULL) s = keep_group(r->owner, group, &e);
  if (s == NULL) s = enter_group(r, e);
  weft_group_release(group);
  weft_run_end(r, s);
}

static weft_status_t *stage_group(weft_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_mutex_lock(&c->mu);
  group_entry_t *e = weft_map_get_u64(&c->groups, (uint64_t)r->call.group_key);
  if (e != NULL) atomic_fetch_add(&e->refs, 1);
  const bool is_doubtful = e != NULL && e->is_doubtful;
  weft_mutex_unlock(&c->mu);
  if (e != NULL && !is_doubtful && rank_of(e->group, r->call.device) >= 0) return enter_group(r, e);
  entry_release(e);
  const weft_group_request_t q = {.group_key = r->call.group_key,
                                  .group_size = r->call.group_size,
                                  .rank = r->call.rank,
                                  .device_type = weft_transport_type_of(r->call.device),
                                  .device = r->call.device,
                                  .timeout_ms = r->call.timeout_ms};
  weft_run_begin(r);
  c->transport->ops->complete_group(c->transport, &q, r->canceller, on_group, r);
  return NULL;
}

/* ---- the instance ---- */

static uint64_t instance_number(const weft_run_t *r) {
  return ((uint64_t)r->call.instance_key * 0x9e3779b97f4a7c15u) ^ (uint64_t)r->rank;
}

static weft_instance_t *find_locked(weft_collectives_t *c, const weft_run_t *r) WEFT_REQUIRES(c->mu) {
  (void)c;
  weft_instance_t *i = weft_map_get_u64(&r->entry->instances, instance_number(r));
  while (i != NULL && (i->key != r->call.instance_key || i->rank != r->rank)) i = i->next;
  return i;
}

static weft_status_t *keep_instance(weft_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_instance_t *spare = weft_calloc(1, sizeof *spare);
  if (spare == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(r->call.name));
  weft_status_t *s = NULL;
  weft_plan_t *old = NULL;
  weft_mutex_lock(&c->mu);
  weft_instance_t *i = find_locked(c, r);
  if (i == NULL) {
    if (r->entry->num_instances >= MAX_INSTANCES) forget_instances(r->entry);
    spare->key = r->call.instance_key;
    spare->rank = r->rank;
    spare->next = weft_map_get_u64(&r->entry->instances, instance_number(r));
    s = weft_map_put_u64(&r->entry->instances, instance_number(r), spare, NULL);
    if (s == NULL) {
      i = spare;
      spare = NULL;
      r->entry->num_instances++;
    }
  }
  if (i != NULL) {
    const bool is_same =
        memcmp(&i->signature, &r->signature, sizeof i->signature) == 0 && i->source == r->source;
    if (!is_same) {
      old = i->plan;
      i->plan = NULL;
    }
    i->signature = r->signature;
    i->is_source = r->call.is_source;
    i->source = r->source;
  }
  weft_mutex_unlock(&c->mu);
  weft_collective_plan_release(old);
  weft_free(spare);
  return s;
}

static void on_instance(void *arg, weft_status_t *s, int source) {
  weft_run_t *r = arg;
  r->source = r->agreed_source = source;
  if (s == NULL) s = keep_instance(r);
  if (s == NULL) {
    weft_run_end(r, NULL);
    return;
  }
  weft_collective_run_fail(
      r, s, weft_status_code(s) != WEFT_INVALID_ARGUMENT); /* a contradiction was told to all by the leader */
  weft_run_end(r, NULL);
}

static void ask(weft_run_t *r, weft_canceller_t *canceller, bool is_doubt, weft_instance_fn *fn) {
  const weft_collective_t *call = &r->call;
  weft_instance_request_t q = {
      .group_key = call->group_key,
      .instance_key = call->instance_key,
      .step_id = call->step_id,
      .rank = r->rank,
      .group_size = call->group_size,
      .name = call->name,
      .device = call->device,
      .kind = call->kind,
      .dtype = (int)call->dtype,
      .reduction = call->reduction,
      .is_mean = call->is_mean,
      .is_source = call->is_source || (call->root >= 0 && call->root == r->rank),
      .algorithm = call->algorithm,
      .root = call->root,
      .details = (uint64_t)r->signature.details * 2 + (uint64_t)r->signature.is_uniform,
      .timeout_ms = is_doubt ? DOUBT_MS : call->timeout_ms};
  q.details = is_doubt ? q.details | WEFT_INSTANCE_DOUBT : q.details & ~WEFT_INSTANCE_DOUBT;
  q.shape.rank = (int)r->signature.rank_of_shape;
  for (int i = 0; i < q.shape.rank; i++) q.shape.dims[i] = r->signature.dims[i];
  weft_run_begin(r);
  r->transport->ops->complete_instance(r->transport, &q, canceller, fn, r);
}

static void on_explained(void *arg, weft_status_t *s, int source) {
  (void)source;
  weft_run_t *r = arg;
  const bool is_known = weft_status_code(s) == WEFT_INVALID_ARGUMENT;
  weft_mutex_lock(&r->mu);
  weft_status_t *old = r->status;
  r->status = NULL;
  weft_mutex_unlock(&r->mu);
  if (!is_known) { /* the one who differs has gone meanwhile */
    weft_status_free(s);
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s", weft_status_message(old));
  }
  weft_status_free(old);
  weft_mutex_lock(&r->mu);
  r->status = s;
  weft_mutex_unlock(&r->mu);
  weft_run_end(r, NULL);
}

void weft_run_explain(weft_run_t *r) {
  weft_mutex_lock(&r->mu);
  const bool asks = r->was_cached && weft_status_code(r->status) == WEFT_FAILED_PRECONDITION;
  r->was_cached = false;
  weft_mutex_unlock(&r->mu);
  if (asks) ask(r, NULL, true, on_explained);
}

/* This rank does something else than was agreed: under the old agreement nobody need wait for it. */
static void leave_agreement(weft_run_t *r, const weft_signature_t *old, int old_source) {
  uint64_t hash = 14695981039346656037u;
  const unsigned char *bytes = (const unsigned char *)old;
  for (size_t i = 0; i < sizeof *old; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  char text[WEFT_RUN_TEXT];
  const int n = snprintf(text, sizeof text, "%llx.%llx.%llx.%llx.%x/%x", (unsigned long long)r->call.group_key,
                         (unsigned long long)r->call.instance_key, (unsigned long long)r->call.frame_id,
                         (unsigned long long)r->call.iteration, (unsigned)(hash ^ (hash >> 32)),
                         (unsigned)(old_source + 1));
  weft_status_t *why =
      WEFT_ERROR(FAILED_PRECONDITION,
                 "Collective %.*s (group_key=%lld, instance_key=%lld): rank %d (%.*s) does something "
                 "else than was agreed",
                 WEFT_STR_ARGS(r->call.name), (long long)r->call.group_key, (long long)r->call.instance_key,
                 r->rank, WEFT_STR_ARGS(r->call.device));
  r->transport->ops->fail(r->transport, r->call.step_id, weft_str_of(text, (size_t)n), r->group, why);
  weft_status_free(why);
}

static weft_status_t *stage_instance(weft_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_signature_t old;
  int old_source = -1;
  weft_mutex_lock(&c->mu);
  const weft_instance_t *i = find_locked(c, r);
  const bool is_known = i != NULL;
  bool is_same = false;
  if (is_known) {
    old = i->signature;
    old_source = i->source;
    is_same = memcmp(&old, &r->signature, sizeof old) == 0 && i->is_source == r->call.is_source;
    r->source = r->agreed_source = i->source;
    const bool fits = is_same && i->plan != NULL && i->plan_owns_input == r->call.takes_input;
    if (fits) r->plan = weft_collective_plan_retain(i->plan);
  }
  weft_mutex_unlock(&c->mu);
  weft_mutex_lock(&r->mu);
  r->was_cached = is_same;
  weft_mutex_unlock(&r->mu);
  if (is_same) return NULL;
  ask(r, r->canceller, false, on_instance);
  if (is_known) leave_agreement(r, &old, old_source);
  return NULL;
}

/* ---- the rest ---- */

/* From the second step on: what is used once, as in TensorFlow's eager calls, is not worth the memory. */
static void keep_plan(weft_run_t *r) {
  weft_collectives_t *c = r->owner;
  weft_mutex_lock(&r->mu);
  const bool is_again = r->was_cached;
  weft_mutex_unlock(&r->mu);
  if (!is_again) return;
  weft_plan_t *old = NULL;
  weft_mutex_lock(&c->mu);
  weft_instance_t *i = find_locked(c, r);
  if (i != NULL && i->plan != r->plan && memcmp(&i->signature, &r->signature, sizeof i->signature) == 0) {
    old = i->plan;
    i->plan = weft_collective_plan_retain(r->plan);
    i->plan_owns_input = r->call.takes_input;
  }
  weft_mutex_unlock(&c->mu);
  weft_collective_plan_release(old);
}

weft_status_t *weft_run_stage(weft_run_t *r, int stage) {
  switch (stage) {
    case 0: return stage_group(r);
    case 1: return stage_instance(r);
    case 2:
      if (r->call.timeout_ms > 0) WEFT_RETURN_IF_ERROR(weft_run_expect_others(r));
      return weft_prepare_has_counts(&r->call) && r->group->size > 1 ? weft_prepare_counts(r) : NULL;
    default:
      WEFT_RETURN_IF_ERROR(weft_prepare_buffers(r));
      if (!weft_prepare_has_counts(&r->call)) keep_plan(r);
      return weft_run_start_actions(r);
  }
}

/* ---- ends from outside ---- */

static bool is_of_step(const weft_run_t *r, const void *arg) {
  return r->call.step_id == *(const int64_t *)arg;
}

void weft_collectives_end_step(weft_collectives_t *c, int64_t step_id, const weft_status_t *why) {
  weft_status_t *aborted = NULL;
  if (why == NULL) aborted = weft_status_mark_derived(WEFT_ERROR(ABORTED, "step %lld has ended", (long long)step_id));
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

static bool is_with_task(const weft_run_t *r, const void *arg) {
  return has_task(r->group, *(const weft_str_t *)arg);
}

/* Takes one kept group of the task out of the table. */
static group_entry_t *take_group_of(weft_collectives_t *c, weft_str_t task) {
  weft_mutex_lock(&c->mu);
  size_t at = 0;
  weft_map_entry_t slot;
  group_entry_t *found = NULL;
  while (found == NULL && weft_map_next(&c->groups, &at, &slot)) {
    group_entry_t *e = slot.value;
    if (has_task(e->group, task)) found = weft_map_remove_u64(&c->groups, (uint64_t)e->group->key);
  }
  weft_mutex_unlock(&c->mu);
  return found;
}

void weft_collectives_lost_task(weft_collectives_t *c, weft_str_t task, const weft_status_t *why) {
  weft_status_t *s = WEFT_ERROR(UNAVAILABLE, "Collective is broken: task %.*s is lost: %s",
                                WEFT_STR_ARGS(task), weft_status_message(why));
  if (c->transport->ops->cause != NULL) s = c->transport->ops->cause(c->transport, task, s);
  for (group_entry_t *e = take_group_of(c, task); e != NULL; e = take_group_of(c, task)) entry_release(e);
  c->transport->ops->lost_task(c->transport, task, s);
  fail_runs(c, is_with_task, &task, s);
  weft_status_free(s);
}
