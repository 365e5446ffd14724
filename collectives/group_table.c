/* collectives/group_table.c - forming groups; the table's own life.
 *
 * A group's record is forming (members come and go), complete (`group`), or failed
 * (`error`). The last member's thread builds the group:
 *
 *   forming --last join--> building --publish--> complete
 *      |  \--contradiction, lost task--> failed      | lost task
 *      |                                   ^---------/
 *      \<--- a member with a new incarnation, or the lost task, joins --- failed, complete
 *
 * Records live until the table ends or too many others have come; only waiters and the table point to them.
 *
 * Locking: `mu` is a leaf. Under it we relink; the few small allocations for a group
 * that has become complete, once in its life, are made under it, too, because its
 * members could otherwise change meanwhile. Callbacks run after giving it back.
 */
#include "collectives/group_table.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "collectives/group_records.h"

weft_status_t *weft_group_table_create(const weft_group_table_env_t *env, weft_group_table_t **out) {
  weft_group_table_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a table of collective groups");
  weft_status_t *s = weft_timer_create(&t->timer);
  if (s != NULL) {
    weft_free(t);
    return s;
  }
  if (env != NULL) t->env = *env;
  weft_mutex_init(&t->mu);
  *out = t;
  return NULL;
}

static void drop_members(weft_group_record_t *g) {
  while (g->members != NULL) {
    weft_group_came_t *m = g->members;
    g->members = m->next;
    weft_free(m);
  }
  g->num_members = 0;
}

static void answer_all_waiters(weft_group_table_t *t, const weft_status_t *why) {
  weft_waiter_list_t all = {NULL, NULL};
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_GROUP_BUCKETS; i++) {
    for (weft_group_record_t *g = t->groups[i]; g != NULL; g = g->next)
      weft_waiter_take_all(&g->waiters, &all);
  }
  for (int i = 0; i < WEFT_INSTANCE_BUCKETS; i++) {
    for (weft_instance_record_t *r = t->instances[i]; r != NULL; r = r->next)
      weft_waiter_take_all(&r->waiters, &all);
  }
  weft_mutex_unlock(&t->mu);
  weft_waiter_answer_all(&all, t->timer, why, NULL, -1);
}

void weft_group_table_leave(weft_group_table_t *t, const weft_status_t *why) {
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&t->mu);
  if (t->left == NULL) {
    t->left = mine;
    mine = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(mine);
  answer_all_waiters(t, why);
}

static void record_free(weft_group_record_t *g) {
  drop_members(g);
  weft_group_release(g->group);
  weft_status_free(g->error);
  weft_free(g);
}

void weft_group_table_destroy(weft_group_table_t *t) {
  if (t == NULL) return;
  weft_status_t *why = WEFT_ERROR(CANCELLED, "the leader of collective groups ends");
  answer_all_waiters(t, why);
  weft_status_free(why);
  weft_status_free(t->left);
  weft_timer_destroy(t->timer);
  for (int i = 0; i < WEFT_GROUP_BUCKETS; i++) {
    while (t->groups[i] != NULL) {
      weft_group_record_t *g = t->groups[i];
      t->groups[i] = g->next;
      record_free(g);
    }
  }
  weft_instances_free_all(t);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

static weft_group_record_t *find_locked(weft_group_table_t *t, int64_t key) WEFT_REQUIRES(t->mu) {
  weft_group_record_t *g = t->groups[(uint64_t)key % WEFT_GROUP_BUCKETS];
  while (g != NULL && g->key != key) g = g->next;
  return g;
}

/* Takes out the group that nothing waits for and that was asked for least recently; NULL if something waits
 * for each. What waits for its instances is moved to `unanswered`. */
static weft_group_record_t *forget_locked(weft_group_table_t *t, weft_waiter_list_t *unanswered)
    WEFT_REQUIRES(t->mu) {
  weft_group_record_t **oldest = NULL;
  for (int i = 0; i < WEFT_GROUP_BUCKETS; i++) {
    for (weft_group_record_t **at = &t->groups[i]; *at != NULL; at = &(*at)->next) {
      const bool is_idle = (*at)->waiters.first == NULL && (*at)->building == NULL;
      if (is_idle && (oldest == NULL || (*at)->age < (*oldest)->age)) oldest = at;
    }
  }
  if (oldest == NULL) return NULL;
  weft_group_record_t *g = *oldest;
  *oldest = g->next;
  t->num_groups--;
  weft_instances_drop_locked(t, g->key, unanswered);
  return g;
}

/* The group is to be formed anew; nobody waits for it now. */
static void reset(weft_group_record_t *g, weft_group_t **old_group, weft_status_t **old_error) {
  *old_group = g->group;
  *old_error = g->error;
  g->group = g->building = NULL;
  g->error = NULL;
  g->lost_task_length = 0;
  drop_members(g);
}

/* Completes a group whose last member has come. */
static void publish(weft_group_table_t *t, weft_group_t *built) {
  weft_group_measure_links(&t->env, built);
  weft_waiter_list_t ready = {NULL, NULL};
  weft_mutex_lock(&t->mu);
  weft_group_record_t *g = find_locked(t, built->key); /* not the one that it was built for, perhaps */
  const bool is_current = g != NULL && g->building == built;
  if (is_current) {
    g->building = NULL;
    g->group = weft_group_retain(built);
    weft_waiter_take_all(&g->waiters, &ready);
  }
  weft_mutex_unlock(&t->mu);
  weft_waiter_answer_all(&ready, t->timer, NULL, built, -1);
  weft_group_release(built);
}

/* Someone gave up: without another waiter its member leaves, while the group is forming. */
static void leave(weft_group_record_t *g, weft_str_t device) {
  if (g->group != NULL || g->building != NULL) return;
  for (const weft_waiter_t *w = g->waiters.first; w != NULL; w = w->next) {
    if (weft_str_eq(w->group.device, device)) return;
  }
  for (weft_group_came_t **at = &g->members; *at != NULL; at = &(*at)->next) {
    weft_group_came_t *m = *at;
    if (!weft_str_eq(m->device, device)) continue;
    *at = m->next;
    weft_free(m);
    g->num_members--;
    return;
  }
}

/* A member's time is over: all who have come go apart with the same answer; who comes later begins anew. */
static void scatter(weft_group_record_t *g, weft_waiter_list_t *others) {
  weft_waiter_take_all(&g->waiters, others);
  if (g->group == NULL && g->building == NULL) drop_members(g);
}

typedef struct tasks {
  const weft_str_t *all;
  int n;
} tasks_t;

static tasks_t tasks_of_cluster(const weft_group_table_t *t) {
  tasks_t c = {NULL, 0};
  if (t->env.tasks != NULL) c.all = t->env.tasks(t->env.arg, &c.n);
  return c;
}

static weft_str_t job_of(weft_str_t task) {
  return weft_str_of(task.data, (size_t)(weft_str_rfind(task, '/') + 1));
}

/* Tasks without a device in the group, of the jobs that have one: it may have been meant to have fewer, the
 * text says so. */
static void list_absent(const weft_group_record_t *g, tasks_t cluster, weft_name_list_t *out) {
  for (int i = 0; i < cluster.n; i++) {
    bool is_member = false, is_of_job = false;
    for (const weft_group_came_t *m = g->members; m != NULL && !is_member; m = m->next) {
      const weft_str_t task = weft_transport_task_of(m->device);
      is_member = weft_str_eq(task, cluster.all[i]);
      is_of_job = is_of_job || weft_str_eq(job_of(task), job_of(cluster.all[i]));
    }
    if (is_of_job && !is_member) weft_name_list_add(out, "%.*s", WEFT_STR_ARGS(cluster.all[i]));
  }
}

static weft_status_t *too_late(const weft_group_record_t *g, const weft_waiter_t *w, tasks_t cluster) {
  weft_name_list_t have = {0}, missing = {0}, absent = {0};
  weft_rank_set_t ranks = {{0}};
  for (const weft_group_came_t *m = g->members; m != NULL; m = m->next) {
    weft_name_list_add(&have, "%.*s", WEFT_STR_ARGS(m->device));
    weft_rank_set_add(&ranks, m->rank);
  }
  if (w->group.rank >= 0) weft_rank_set_list_missing(&ranks, g->size, &missing);
  list_absent(g, cluster, &absent);
  return WEFT_ERROR(
      DEADLINE_EXCEEDED,
      "Collective has timed out waiting for other workers. Group %lld: after %lld ms %d of %d members "
      "have come: %s%s%s%s%s",
      (long long)g->key, (long long)w->group.timeout_ms, g->num_members, g->size, weft_name_list_text(&have),
      missing.n > 0 ? "; missing ranks: " : "", weft_name_list_text(&missing),
      absent.n > 0 ? "; not one from: " : "", weft_name_list_text(&absent));
}

static void give_up(weft_waiter_t *w, bool is_timeout) {
  weft_group_table_t *t = w->table;
  weft_status_t *why = NULL;
  weft_waiter_list_t others = {NULL, NULL};
  weft_instance_record_t *rubbish = NULL;
  const tasks_t cluster = tasks_of_cluster(t);
  weft_mutex_lock(&t->mu);
  const bool is_mine = w->in != NULL;
  w->has_expired = is_timeout;
  if (is_mine && is_timeout)
    why = w->is_instance ? weft_instance_too_late(w->record, w) : too_late(w->record, w, cluster);
  if (is_mine) {
    weft_waiter_take(w);
    if (w->is_instance && why == NULL) {
      why = WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled at rank %d (%.*s)",
                       WEFT_STR_ARGS(w->instance.name), w->instance.rank, WEFT_STR_ARGS(w->instance.device));
    }
    if (w->is_instance) rubbish = weft_instance_leave_locked(t, w->record, weft_status_clone(why), &others);
    if (!w->is_instance && !is_timeout) leave(w->record, w->group.device);
    if (!w->is_instance && is_timeout) scatter(w->record, &others);
  }
  weft_mutex_unlock(&t->mu);
  weft_instance_record_free(rubbish);
  if (is_mine) {
    weft_waiter_answer_all(&others, t->timer, why, NULL, -1);
    if (why == NULL)
      why = WEFT_ERROR(CANCELLED, "collective group %lld: cancelled", (long long)w->group.group_key);
    weft_waiter_answer(w, t->timer, why, NULL, -1);
    weft_status_free(why);
  }
  weft_waiter_release(w);
}

static void on_cancel(void *arg) { give_up(arg, false); }
static void on_timeout(void *arg) { give_up(arg, true); }

void weft_group_table_missed(weft_waiter_t *w) {
  atomic_fetch_add(&w->refs, 1);
  give_up(w, !weft_canceller_is_cancelled(w->canceller));
}

void weft_group_table_watch(weft_group_table_t *t, weft_waiter_t *w, weft_canceller_t *canceller,
                            int64_t timeout_ms, weft_status_t **out_failed) {
  w->canceller = weft_canceller_retain(canceller);
  if (canceller != NULL) {
    atomic_fetch_add(&w->refs, 1);
    w->has_cancel = weft_canceller_register(canceller, on_cancel, w, &w->cancel_token);
    if (!w->has_cancel) {
      weft_waiter_release(w);
      *out_failed = weft_canceller_is_cancelled(canceller)
                        ? WEFT_ERROR(CANCELLED, "cancelled before the collective began")
                        : WEFT_ERROR(RESOURCE_EXHAUSTED, "waiting for a collective");
      return;
    }
  }
  if (timeout_ms <= 0) return;
  atomic_fetch_add(&w->refs, 1);
  *out_failed = weft_timer_add(t->timer, weft_clock_deadline_ns(timeout_ms), on_timeout, w, &w->timer_id);
  w->has_timer = *out_failed == NULL;
  if (!w->has_timer) weft_waiter_release(w);
}

/* Puts w where it belongs. Either it waits then, or *why or *group is its answer. Everybody else to be
 * answered with *why is in `failed`. */
static void join_locked(weft_group_table_t *t, weft_group_record_t *g, weft_waiter_t *w,
                        weft_group_came_t **came, weft_waiter_list_t *failed, weft_status_t **why,
                        weft_group_t **group, weft_group_t **built, weft_group_t **old_group,
                        weft_status_t **old_error) WEFT_REQUIRES(t->mu) {
  const weft_group_request_t *r = &w->group;
  *why = t->left == NULL ? NULL : weft_status_clone(t->left);
  if (*why != NULL) return;
  weft_group_came_t *before = weft_group_member_of(g, r->device);
  const weft_str_t task = weft_transport_task_of(r->device);
  const bool has_returned =
      (before != NULL && before->incarnation != r->incarnation) ||
      (g->lost_task_length > 0 && weft_str_eq(task, weft_str_of(g->lost_task, g->lost_task_length)));
  if (has_returned && (g->group != NULL || g->error != NULL)) {
    reset(g, old_group, old_error);
    weft_instances_drop_locked(t, g->key, failed);
    before = NULL;
  }
  if (g->error == NULL && g->members == NULL && g->group == NULL) { /* the first says what the group is */
    g->size = r->group_size;
    const size_t n =
        r->device_type.length < sizeof g->device_type ? r->device_type.length : sizeof g->device_type - 1;
    memcpy(g->device_type, r->device_type.data, n);
    g->device_type[n] = '\0';
  }
  if (g->error == NULL) {
    weft_status_t *s = weft_group_contradiction(g, r);
    if (s == NULL && (g->group != NULL || g->building != NULL) && before == NULL) {
      *why =
          WEFT_ERROR(INTERNAL, "Device %.*s is joining a group that has all its %d members (group_key=%lld)",
                     WEFT_STR_ARGS(r->device), g->size, (long long)g->key);
      return; /* its own fault alone */
    }
    if (s != NULL) {
      g->error = s;
      g->building = NULL;
      *old_group = g->group;
      g->group = NULL;
    }
  }
  if (g->error != NULL) {
    *why = weft_status_clone(g->error);
    weft_waiter_take_all(&g->waiters, failed);
    return;
  }
  if (g->group != NULL) {
    *group = weft_group_retain(g->group);
    return;
  }
  if (before != NULL) before->incarnation = r->incarnation;
  if (before == NULL) {
    (*came)->next = g->members;
    g->members = *came;
    *came = NULL;
    g->num_members++;
  }
  w->record = g;
  weft_waiter_put(&g->waiters, w);
  if (g->num_members < g->size || g->building != NULL) return;
  *built = weft_group_build(g);
  g->building = *built;
  if (*built != NULL) return;
  weft_waiter_take(w); /* that is nobody's fault: the next to come begin anew */
  *why = WEFT_ERROR(RESOURCE_EXHAUSTED, "forming collective group %lld", (long long)g->key);
  weft_waiter_take_all(&g->waiters, failed);
  drop_members(g);
}

weft_str_t weft_group_device_locked(weft_group_table_t *t, int64_t key, int rank) {
  const weft_group_record_t *g = find_locked(t, key);
  if (g == NULL || g->group == NULL || rank < 0 || rank >= g->group->size) return WEFT_STR("");
  return g->group->members[rank].device;
}

weft_status_t *weft_group_lost_locked(weft_group_table_t *t, int64_t key) {
  const weft_group_record_t *g = find_locked(t, key);
  return g == NULL || g->lost_task_length == 0 ? NULL : weft_status_clone(g->error);
}

int weft_group_rank_locked(weft_group_table_t *t, int64_t key, weft_str_t device) {
  const weft_group_record_t *g = find_locked(t, key);
  for (int i = 0; g != NULL && g->group != NULL && i < g->group->size; i++) {
    if (weft_str_eq(g->group->members[i].device, device)) return i;
  }
  return -1;
}

void weft_group_table_join(weft_group_table_t *t, const weft_group_request_t *r, weft_canceller_t *canceller,
                           weft_group_fn *fn, void *arg) {
  weft_str_t host = WEFT_STR("");
  if (t->env.host_of != NULL) host = t->env.host_of(t->env.arg, weft_transport_task_of(r->device));
  weft_waiter_list_t failed = {NULL, NULL}, unanswered = {NULL, NULL};
  weft_group_t *group = NULL, *built = NULL, *old_group = NULL;
  weft_status_t *why = NULL, *old_error = NULL;
  weft_waiter_t *w = weft_waiter_for_group(r, fn, arg);
  weft_group_came_t *came = weft_group_came_new(r, host);
  weft_group_record_t *spare = weft_calloc(1, sizeof *spare), *g = NULL, *forgotten = NULL;
  if (w == NULL || came == NULL || spare == NULL) {
    weft_status_t *s =
        WEFT_ERROR(RESOURCE_EXHAUSTED, "joining collective group %lld", (long long)r->group_key);
    weft_waiter_release(w);
    weft_free(came);
    weft_free(spare);
    fn(arg, s, NULL);
    return;
  }
  w->table = t;
  if (w->group.timeout_ms <= 0)
    w->group.timeout_ms = WEFT_GROUP_JOIN_MS; /* as of TensorFlow's workers, which say none */
  if (r->group_size < 1 || r->group_size > WEFT_MAX_GROUP) {
    why = WEFT_ERROR(INVALID_ARGUMENT, "collective group %lld cannot have %d members, only 1 to %d",
                     (long long)r->group_key, r->group_size, WEFT_MAX_GROUP);
  } else if (r->device.length > WEFT_MAX_DEVICE_TEXT || host.length > WEFT_MAX_DEVICE_TEXT) {
    why = WEFT_ERROR(INVALID_ARGUMENT, "collective group %lld: device %.*s has a name of more than %d bytes",
                     (long long)r->group_key, WEFT_STR_ARGS(r->device), WEFT_MAX_DEVICE_TEXT);
  }
  atomic_fetch_add(&w->refs, 1); /* ours, beside the taker's */
  bool waits = false, is_late = false;
  if (why == NULL) weft_group_table_watch(t, w, canceller, w->group.timeout_ms, &why);
  if (why == NULL) {
    weft_mutex_lock(&t->mu);
    g = find_locked(t, r->group_key);
    if (g == NULL) {
      g = spare;
      spare = NULL;
      g->key = r->group_key;
      forgotten = t->num_groups >= WEFT_GROUPS_KEPT ? forget_locked(t, &unanswered) : NULL;
      g->next = t->groups[(uint64_t)g->key % WEFT_GROUP_BUCKETS];
      t->groups[(uint64_t)g->key % WEFT_GROUP_BUCKETS] = g;
      t->num_groups++;
    }
    g->age = t->next_age++;
    /* A cancellation or timeout that came before we are in the list found nothing to take: look again. */
    join_locked(t, g, w, &came, &failed, &why, &group, &built, &old_group, &old_error);
    waits = w->in != NULL;
    is_late = waits && (w->has_expired || weft_canceller_is_cancelled(canceller));
    weft_mutex_unlock(&t->mu);
  }
  if (forgotten != NULL) {
    weft_status_t *s =
        WEFT_ERROR(ABORTED, "Collective group %lld is forgotten: %d others were asked for since",
                   (long long)forgotten->key, WEFT_GROUPS_KEPT);
    weft_waiter_answer_all(&unanswered, t->timer, s, NULL, -1);
    weft_status_free(s);
    record_free(forgotten);
  }
  if (failed.first != NULL && why == NULL && old_error == NULL) {
    old_error = WEFT_ERROR(ABORTED, "Collective group %lld is formed anew: %.*s has come again",
                           (long long)r->group_key, WEFT_STR_ARGS(r->device));
  }
  weft_waiter_answer_all(&failed, t->timer, why == NULL ? old_error : why, NULL, -1);
  if (built != NULL) publish(t, built);
  if (!waits) weft_waiter_answer(w, t->timer, why, group, -1);
  if (is_late) weft_group_table_missed(w);
  weft_waiter_release(w);
  weft_group_release(group);
  weft_group_release(old_group);
  weft_status_free(old_error);
  weft_status_free(why);
  weft_free(came);
  weft_free(spare);
}

void weft_group_table_lost_task(weft_group_table_t *t, weft_str_t task, const weft_status_t *why) {
  for (int i = 0; i < WEFT_GROUP_BUCKETS; i++) {
    weft_status_t *s = weft_transport_loss(task, why);
    weft_waiter_list_t failed = {NULL, NULL};
    weft_group_t *old = NULL; /* a chain of those to be let go: one at a time, below */
    bool again = true;
    while (again) {
      again = false;
      weft_status_t *mine = weft_status_clone(s);
      weft_mutex_lock(&t->mu);
      for (weft_group_record_t *g = t->groups[i]; g != NULL && !again; g = g->next) {
        bool is_member = false;
        for (const weft_group_came_t *m = g->members; m != NULL && !is_member; m = m->next) {
          is_member = weft_str_eq(weft_transport_task_of(m->device), task);
        }
        if (!is_member || g->error != NULL || task.length >= sizeof g->lost_task) continue;
        again = true;
        g->error = mine;
        mine = NULL;
        g->building = NULL;
        old = g->group;
        g->group = NULL;
        memcpy(g->lost_task, task.data, task.length);
        g->lost_task_length = task.length;
        weft_waiter_take_all(&g->waiters, &failed);
        weft_instances_drop_locked(t, g->key, &failed);
      }
      weft_mutex_unlock(&t->mu);
      weft_status_free(mine);
      weft_group_release(old);
      old = NULL;
    }
    weft_waiter_answer_all(&failed, t->timer, s, NULL, -1);
    weft_status_free(s);
  }
}

/* Takes one such group's past away; false if there is none left. */
static bool forgive_one(weft_group_table_t *t, weft_str_t task) {
  weft_group_t *old_group = NULL;
  weft_status_t *old_error = NULL;
  bool found = false;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_GROUP_BUCKETS && !found; i++) {
    for (weft_group_record_t *g = t->groups[i]; g != NULL && !found; g = g->next) {
      found = g->error != NULL && g->lost_task_length > 0 &&
              weft_str_eq(task, weft_str_of(g->lost_task, g->lost_task_length));
      if (found)
        reset(g, &old_group, &old_error); /* a group with an error has no instances and nobody who waits */
    }
  }
  weft_mutex_unlock(&t->mu);
  weft_group_release(old_group);
  weft_status_free(old_error);
  return found;
}

void weft_group_table_returned_task(weft_group_table_t *t, weft_str_t task) {
  while (forgive_one(t, task)) {
  }
}
