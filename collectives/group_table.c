/* collectives/group_table.c - forming groups; the table's own life.
 *
 * A group's record is forming (members join and leave), complete (`group`), or failed (`error`). The last
 * member's thread builds the group:
 *
 *   forming --last join--> building --publish--> complete
 *      |  \--contradiction, lost task--> failed      | lost task
 *      |                                   ^---------/
 *      \<--- a member with a new incarnation, or the lost task, joins --- failed, complete
 *
 * Records live until the table ends or too many others have been asked for; only waiters and the table point
 * to them.
 *
 * Locking: one lock for groups and instances, because a group that is formed anew drops its instances in the
 * same moment, and a request for an instance must not enter after that. `mu` is a leaf. Under it we relink;
 * the few small allocations for a group that has become complete, once in its life, are made under it, too,
 * because its members could otherwise change meanwhile. Callbacks run after giving it back.
 */
#include "collectives/group_table.h"

#include "base/alloc.h"
#include "collectives/group_members.h"
#include "collectives/instance_table.h"

enum { BUCKETS = 256 };

struct weft_group_table {
  weft_group_table_env_t env;
  weft_timer_t *timer;
  weft_mutex_t mu;
  weft_group_record_t *groups[BUCKETS]; /* guarded by mu, as all below */
  weft_instance_table_t *instances;     /* owned */
  uint64_t next_age;
  int num_groups;
  weft_status_t *left; /* why the leader leaves; NULL: it stays */
};

weft_status_t *weft_group_table_create(const weft_group_table_env_t *env, weft_group_table_t **out) {
  weft_group_table_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("a table of collective groups");
  weft_status_t *s = weft_timer_create(&t->timer);
  if (s == NULL) s = weft_instance_table_create(&t->instances);
  if (s != NULL) {
    weft_timer_destroy(t->timer);
    weft_free(t);
    return s;
  }
  if (env != NULL) t->env = *env;
  weft_mutex_init(&t->mu);
  *out = t;
  return NULL;
}

static void answer_all_waiters(weft_group_table_t *t, const weft_status_t *why) {
  weft_group_waiters_t all = {NULL, NULL};
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < BUCKETS; i++) {
    for (weft_group_record_t *g = t->groups[i]; g != NULL; g = g->next)
      weft_group_waiter_take_all(&g->waiters, &all);
  }
  weft_instance_table_take_all(t->instances, &all);
  weft_mutex_unlock(&t->mu);
  weft_group_waiter_answer_all(&all, t->timer, why, NULL, -1);
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

void weft_group_table_destroy(weft_group_table_t *t) {
  if (t == NULL) return;
  weft_status_t *why = WEFT_ERROR(CANCELLED, "the leader of collective groups ends");
  answer_all_waiters(t, why);
  weft_status_free(why);
  weft_status_free(t->left);
  weft_timer_destroy(t->timer);
  for (int i = 0; i < BUCKETS; i++) {
    while (t->groups[i] != NULL) {
      weft_group_record_t *g = t->groups[i];
      t->groups[i] = g->next;
      weft_group_record_free(g);
    }
  }
  weft_instance_table_destroy(t->instances);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

static weft_group_record_t *find_locked(weft_group_table_t *t, int64_t key) WEFT_REQUIRES(t->mu) {
  weft_group_record_t *g = t->groups[(uint64_t)key % BUCKETS];
  while (g != NULL && g->key != key) g = g->next;
  return g;
}

/* Takes out the group that nothing waits for and that was asked for least recently; NULL if something waits
 * for each. What waits for its instances is moved to `unanswered`. */
static weft_group_record_t *forget_locked(weft_group_table_t *t, weft_group_waiters_t *unanswered)
    WEFT_REQUIRES(t->mu) {
  weft_group_record_t **oldest = NULL;
  for (int i = 0; i < BUCKETS; i++) {
    for (weft_group_record_t **at = &t->groups[i]; *at != NULL; at = &(*at)->next) {
      const bool is_idle = (*at)->waiters.first == NULL && (*at)->building == NULL;
      if (is_idle && (oldest == NULL || (*at)->age < (*oldest)->age)) oldest = at;
    }
  }
  if (oldest == NULL) return NULL;
  weft_group_record_t *g = *oldest;
  *oldest = g->next;
  t->num_groups--;
  weft_instance_table_drop_group(t->instances, g->key, unanswered);
  return g;
}

/* Completes a group whose last member has joined. */
static void publish(weft_group_table_t *t, weft_group_t *built) {
  weft_group_measure_links(&t->env, built);
  weft_group_waiters_t ready = {NULL, NULL};
  weft_mutex_lock(&t->mu);
  weft_group_record_t *g = find_locked(t, built->key); /* not the one that it was built for, perhaps */
  const bool is_current = g != NULL && g->building == built;
  if (is_current) {
    g->building = NULL;
    g->group = weft_group_retain(built);
    weft_group_waiter_take_all(&g->waiters, &ready);
  }
  weft_mutex_unlock(&t->mu);
  weft_group_waiter_answer_all(&ready, t->timer, NULL, built, -1);
  weft_group_release(built);
}

/* The canceller or the timeout of `w` has fired. A timeout of one member ends the wait of all members that
 * have joined, with the same answer; later requests begin anew. A member that cancels an instance ends it for
 * the others, for which that is an echo of a failure that is reported elsewhere. */
static void give_up(weft_group_waiter_t *w, bool is_timeout) {
  weft_group_table_t *t = w->table;
  weft_status_t *why = NULL;
  weft_group_waiters_t others = {NULL, NULL};
  weft_instance_record_t *removed = NULL;
  int num_tasks = 0;
  const weft_str_t *tasks = t->env.tasks == NULL ? NULL : t->env.tasks(t->env.arg, &num_tasks);
  weft_mutex_lock(&t->mu);
  const bool is_mine = w->in != NULL;
  w->has_expired = is_timeout;
  if (is_mine && is_timeout) {
    why = w->is_instance ? weft_instance_too_late(w)
                         : weft_group_too_late(w->record, &w->group, tasks, num_tasks);
  } else if (is_mine && w->is_instance) {
    why = WEFT_ERROR(CANCELLED, "Collective %.*s was cancelled at rank %d (%.*s)",
                     WEFT_STR_ARGS(w->instance.name), w->instance.rank, WEFT_STR_ARGS(w->instance.device));
  } else if (is_mine) {
    why = WEFT_ERROR(CANCELLED, "collective group %lld: cancelled", (long long)w->group.group_key);
  }
  weft_status_t *theirs = why == NULL ? NULL : weft_status_clone(why);
  if (theirs != NULL && !is_timeout) theirs = weft_status_mark_derived(theirs);
  if (is_mine) weft_group_waiter_take(w);
  if (is_mine && w->is_instance) {
    removed = weft_instance_table_leave(t->instances, w, weft_status_clone(theirs), &others);
  } else if (is_mine) {
    weft_group_record_t *g = w->record;
    if (!is_timeout) weft_group_remove_member(g, w->group.device);
    if (is_timeout) weft_group_waiter_take_all(&g->waiters, &others);
    if (is_timeout && g->group == NULL && g->building == NULL) weft_group_remove_members(g);
  }
  weft_mutex_unlock(&t->mu);
  weft_instance_record_free(removed);
  if (!is_mine) return;
  weft_group_waiter_answer_all(&others, t->timer, theirs, NULL, -1);
  weft_group_waiter_answer(w, t->timer, why, NULL, -1);
  weft_status_free(theirs);
  weft_status_free(why);
}

/* The tasks of the cluster, and which of them are lost; without the lock. None: nothing is known. */
typedef struct cluster_losses {
  const weft_str_t *tasks; /* lent */
  bool *is_lost;           /* owned */
  int n;
} cluster_losses_t;

static void look_for_losses(const weft_group_table_t *t, cluster_losses_t *out) {
  *out = (cluster_losses_t){NULL, NULL, 0};
  if (t->env.tasks == NULL || t->env.is_lost == NULL) return;
  int n = 0;
  bool is_any = false;
  out->tasks = t->env.tasks(t->env.arg, &n);
  out->is_lost = weft_calloc((size_t)n + 1, sizeof(bool));
  for (int i = 0; out->is_lost != NULL && i < n; i++) {
    out->is_lost[i] = t->env.is_lost(t->env.arg, out->tasks[i]);
    is_any = is_any || out->is_lost[i];
  }
  out->n = is_any ? n : 0;
}

/* Ends the wait for a group that cannot be completed before a lost task is back; later requests begin anew.
 * The waiters but `mine` (may be NULL), which is only taken, go to `failed`. Returns why, or NULL: something
 * may still join. Under the table's lock. */
static weft_status_t *end_lacking(weft_group_record_t *g, const cluster_losses_t *losses,
                                  weft_group_waiter_t *mine, weft_group_waiters_t *failed) {
  if (losses->n == 0 || g->error != NULL || g->group != NULL || g->building != NULL || g->members == NULL)
    return NULL;
  const weft_str_t task = weft_group_lacks(g, losses->tasks, losses->is_lost, losses->n);
  if (task.data == NULL) return NULL;
  if (mine != NULL) weft_group_waiter_take(mine);
  weft_group_waiter_take_all(&g->waiters, failed);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE,
                                  "Collective is broken: task %.*s is lost, and group %lld, which %d of %d "
                                  "members have joined, lacks it",
                                  WEFT_STR_ARGS(task), (long long)g->key, g->num_members, g->size);
  weft_group_remove_members(g);
  return why;
}

/* One request for a group, and what it led to: it waits, or `why` or `group` is its answer. */
typedef struct group_join {
  weft_group_waiter_t *w;
  weft_group_joined_t *member;             /* to be used; owned, as all below */
  weft_group_record_t *record;             /* to be used */
  weft_status_t *why, *old_error;          /* old_error: of the group as it was before */
  weft_group_t *group, *built, *old_group; /* built: complete with this request */
  weft_group_waiters_t failed;             /* other requests, which end with why, else with old_error */
  weft_group_record_t *forgotten;          /* to make room */
  weft_group_waiters_t unanswered;         /* of the forgotten one's instances */
  cluster_losses_t losses;
} group_join_t;

/* The group was complete or failed, and a member is back with another life: it is formed anew. */
static bool has_returned(const weft_group_record_t *g, const weft_group_joined_t *before,
                         const weft_group_request_t *r) {
  if (g->group == NULL && g->error == NULL) return false;
  const weft_str_t lost = weft_str_of(g->lost_task, g->lost_task_length);
  return (before != NULL && before->incarnation != r->incarnation) ||
         (lost.length > 0 && weft_str_eq(weft_transport_task_of(r->device), lost));
}

static void join_group_locked(weft_group_table_t *t, weft_group_record_t *g, group_join_t *j)
    WEFT_REQUIRES(t->mu) {
  const weft_group_request_t *r = &j->w->group;
  weft_group_joined_t *before = weft_group_find_member(g, r->device);
  if (has_returned(g, before, r)) {
    weft_group_reset(g, &j->old_group, &j->old_error);
    weft_instance_table_drop_group(t->instances, g->key, &j->failed);
    before = NULL;
  }
  if (g->error == NULL && g->members == NULL && g->group == NULL) weft_group_begin(g, r);
  if (g->error == NULL) {
    weft_status_t *s = weft_group_contradiction(g, r);
    if (s == NULL && (g->group != NULL || g->building != NULL) && before == NULL) {
      j->why =
          WEFT_ERROR(INTERNAL, "Device %.*s is joining a group that has all its %d members (group_key=%lld)",
                     WEFT_STR_ARGS(r->device), g->size, (long long)g->key);
      return; /* the group itself is not harmed */
    }
    if (s != NULL) {
      g->error = s;
      g->building = NULL;
      j->old_group = g->group;
      g->group = NULL;
    }
  }
  if (g->error != NULL) {
    j->why = weft_status_clone(g->error);
    weft_group_waiter_take_all(&g->waiters, &j->failed);
    return;
  }
  if (g->group != NULL) {
    j->group = weft_group_retain(g->group);
    return;
  }
  if (before != NULL) before->incarnation = r->incarnation;
  if (before == NULL) {
    j->member->next = g->members;
    g->members = j->member;
    j->member = NULL;
    g->num_members++;
  }
  j->w->record = g;
  weft_group_waiter_put(&g->waiters, j->w);
  if (g->num_members < g->size) j->why = end_lacking(g, &j->losses, j->w, &j->failed);
  if (g->num_members < g->size || g->building != NULL) return;
  j->built = weft_group_build(g);
  g->building = j->built;
  if (j->built != NULL) return;
  weft_group_waiter_take(j->w); /* without memory: the next requests begin anew */
  j->why = WEFT_NO_MEMORY("forming collective group %lld", (long long)g->key);
  weft_group_waiter_take_all(&g->waiters, &j->failed);
  weft_group_remove_members(g);
}

/* Finds or enters the record, and joins. */
static void join_locked(weft_group_table_t *t, group_join_t *j) WEFT_REQUIRES(t->mu) {
  const int64_t key = j->w->group.group_key;
  if (t->left != NULL) {
    j->why = weft_status_clone(t->left);
    return;
  }
  weft_group_record_t *g = find_locked(t, key);
  if (g == NULL) {
    g = j->record;
    j->record = NULL;
    g->key = key;
    j->forgotten = t->num_groups >= WEFT_GROUPS_KEPT ? forget_locked(t, &j->unanswered) : NULL;
    g->next = t->groups[(uint64_t)key % BUCKETS];
    t->groups[(uint64_t)key % BUCKETS] = g;
    t->num_groups++;
  }
  g->age = t->next_age++;
  join_group_locked(t, g, j);
}

static weft_status_t *check_group_request(const weft_group_request_t *r, weft_str_t host) {
  if (r->group_size < 1 || r->group_size > WEFT_MAX_GROUP) {
    return WEFT_ERROR(INVALID_ARGUMENT, "collective group %lld cannot have %d members, only 1 to %d",
                      (long long)r->group_key, r->group_size, WEFT_MAX_GROUP);
  }
  if (r->device.length > WEFT_MAX_DEVICE_TEXT || host.length > WEFT_MAX_DEVICE_TEXT) {
    return WEFT_ERROR(INVALID_ARGUMENT, "collective group %lld: device %.*s has a name of more than %d bytes",
                      (long long)r->group_key, WEFT_STR_ARGS(r->device), WEFT_MAX_DEVICE_TEXT);
  }
  return NULL;
}

/* Answers all other requests that this one has ended. */
static void answer_others(weft_group_table_t *t, group_join_t *j) {
  if (j->forgotten != NULL) {
    weft_status_t *s =
        WEFT_ERROR(ABORTED, "Collective group %lld is forgotten: %d others were asked for since",
                   (long long)j->forgotten->key, WEFT_GROUPS_KEPT);
    weft_group_waiter_answer_all(&j->unanswered, t->timer, s, NULL, -1);
    weft_status_free(s);
  }
  if (j->failed.first != NULL && j->why == NULL && j->old_error == NULL) {
    j->old_error = WEFT_ERROR(ABORTED, "Collective group %lld is formed anew: %.*s has joined again",
                              (long long)j->w->group.group_key, WEFT_STR_ARGS(j->w->group.device));
  }
  weft_group_waiter_answer_all(&j->failed, t->timer, j->why == NULL ? j->old_error : j->why, NULL, -1);
  if (j->built != NULL) publish(t, j->built);
}

void weft_group_table_join(weft_group_table_t *t, const weft_group_request_t *r, weft_canceller_t *canceller,
                           weft_group_fn *fn, void *arg) {
  weft_str_t host = WEFT_STR("");
  if (t->env.host_of != NULL) host = t->env.host_of(t->env.arg, weft_transport_task_of(r->device));
  group_join_t j = {.w = weft_group_waiter_for_group(r, fn, arg),
                    .member = weft_group_joined_new(r, host),
                    .record = weft_calloc(1, sizeof *j.record)};
  if (j.w == NULL || j.member == NULL || j.record == NULL) {
    fn(arg, WEFT_NO_MEMORY("joining collective group %lld", (long long)r->group_key), NULL);
    goto done;
  }
  j.w->table = t;
  if (j.w->group.timeout_ms <= 0)
    j.w->group.timeout_ms = WEFT_GROUP_JOIN_MS; /* TensorFlow's workers send no timeout */
  j.why = check_group_request(r, host);
  atomic_fetch_add(&j.w->refs, 1); /* ours, beside the taker's */
  bool waits = false, is_late = false;
  look_for_losses(t, &j.losses);
  if (j.why == NULL)
    j.why = weft_group_waiter_watch(j.w, t->timer, canceller, j.w->group.timeout_ms, give_up);
  if (j.why == NULL) {
    weft_mutex_lock(&t->mu);
    join_locked(t, &j);
    waits = j.w->in != NULL;
    is_late = weft_group_waiter_is_late(j.w);
    weft_mutex_unlock(&t->mu);
  }
  answer_others(t, &j);
  if (!waits) weft_group_waiter_answer(j.w, t->timer, j.why, j.group, -1);
  if (is_late) weft_group_waiter_repeat(j.w);
done:
  weft_group_waiter_release(j.w);
  weft_group_record_free(j.forgotten);
  weft_group_release(j.group);
  weft_group_release(j.old_group);
  weft_status_free(j.old_error);
  weft_status_free(j.why);
  weft_free(j.losses.is_lost);
  weft_free(j.member);
  weft_free(j.record);
}

/* Enters a request for an instance, unless its group is broken or it has no rank there. */
static void join_instance_locked(weft_group_table_t *t, weft_group_waiter_t *w, weft_instance_join_t *j)
    WEFT_REQUIRES(t->mu) {
  weft_instance_request_t *q = &w->instance;
  const weft_group_record_t *g = find_locked(t, q->group_key);
  const weft_group_t *group = g == NULL ? NULL : g->group;
  if (t->left != NULL) j->why = weft_status_clone(t->left);
  /* A rank may have got its group just before the leader learned of a loss: the other ranks will not join. */
  if (j->why == NULL && g != NULL && g->lost_task_length > 0) j->why = weft_status_clone(g->error);
  if (q->rank < 0)
    q->rank = weft_group_rank_of(group, q->device); /* TensorFlow's workers send a device only */
  if (j->why == NULL && (q->rank < 0 || q->rank >= q->group_size || q->group_size > WEFT_MAX_GROUP)) {
    j->why = WEFT_ERROR(INVALID_ARGUMENT, "collective %.*s: rank %d of %d, where %d ranks can be",
                        WEFT_STR_ARGS(q->name), q->rank, q->group_size, WEFT_MAX_GROUP);
  }
  j->is_answered = j->why != NULL;
  if (!j->is_answered) weft_instance_table_join(t->instances, w, group, j);
}

void weft_group_table_join_instance(weft_group_table_t *t, const weft_instance_request_t *q,
                                    weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  weft_group_waiter_t *w = weft_group_waiter_for_instance(q, fn, arg);
  weft_instance_join_t j;
  bool is_late = false;
  if (!weft_instance_join_init(&j) || w == NULL) {
    fn(arg, WEFT_NO_MEMORY("joining collective %.*s", WEFT_STR_ARGS(q->name)), -1);
    goto done;
  }
  w->table = t;
  atomic_fetch_add(&w->refs, 1); /* ours, beside the taker's */
  j.why = weft_group_waiter_watch(w, t->timer, canceller, q->timeout_ms, give_up);
  j.is_answered = j.why != NULL;
  if (!j.is_answered) {
    weft_mutex_lock(&t->mu);
    join_instance_locked(t, w, &j);
    is_late = weft_group_waiter_is_late(w);
    weft_mutex_unlock(&t->mu);
  }
  weft_group_waiter_answer_all(&j.others, t->timer, j.why, NULL, j.source);
  if (j.is_answered) weft_group_waiter_answer(w, t->timer, j.why, NULL, j.source);
  if (is_late) weft_group_waiter_repeat(w);
done:
  weft_group_waiter_release(w);
  weft_instance_join_deinit(&j);
}

/* Groups that are forming and lack a lost task end their waits, one at a time. */
static void end_all_lacking(weft_group_table_t *t) {
  cluster_losses_t losses;
  look_for_losses(t, &losses);
  for (int i = 0; losses.n > 0 && i < BUCKETS; i++) {
    weft_status_t *why = NULL;
    do {
      weft_group_waiters_t failed = {NULL, NULL};
      why = NULL;
      weft_mutex_lock(&t->mu);
      for (weft_group_record_t *g = t->groups[i]; g != NULL && why == NULL; g = g->next)
        why = end_lacking(g, &losses, NULL, &failed);
      weft_mutex_unlock(&t->mu);
      weft_group_waiter_answer_all(&failed, t->timer, why, NULL, -1);
      weft_status_free(why);
    } while (why != NULL);
  }
  weft_free(losses.is_lost);
}

void weft_group_table_lost_task(weft_group_table_t *t, weft_str_t task, const weft_status_t *why) {
  for (int i = 0; i < BUCKETS; i++) {
    weft_status_t *s = weft_transport_loss(task, why);
    weft_group_waiters_t failed = {NULL, NULL};
    weft_group_t *old = NULL; /* released without the lock */
    bool again = true;
    while (again) {
      again = false;
      weft_status_t *mine = weft_status_clone(s);
      weft_mutex_lock(&t->mu);
      for (weft_group_record_t *g = t->groups[i]; g != NULL && !again; g = g->next) {
        if (!weft_group_record_has_task(g, task) || g->error != NULL || task.length >= sizeof g->lost_task)
          continue;
        again = true;
        g->error = mine;
        mine = NULL;
        g->building = NULL;
        old = g->group;
        g->group = NULL;
        memcpy(g->lost_task, task.data, task.length);
        g->lost_task_length = task.length;
        weft_group_waiter_take_all(&g->waiters, &failed);
        weft_instance_table_drop_group(t->instances, g->key, &failed);
      }
      weft_mutex_unlock(&t->mu);
      weft_status_free(mine);
      weft_group_release(old);
      old = NULL;
    }
    weft_group_waiter_answer_all(&failed, t->timer, s, NULL, -1);
    weft_status_free(s);
  }
  end_all_lacking(t);
}

/* Resets one group that failed because `task` was lost; false if none is left. */
static bool reset_one_of(weft_group_table_t *t, weft_str_t task) {
  weft_group_t *old_group = NULL;
  weft_status_t *old_error = NULL;
  bool found = false;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < BUCKETS && !found; i++) {
    for (weft_group_record_t *g = t->groups[i]; g != NULL && !found; g = g->next) {
      found = g->error != NULL && g->lost_task_length > 0 &&
              weft_str_eq(task, weft_str_of(g->lost_task, g->lost_task_length));
      if (found)
        weft_group_reset(g, &old_group,
                         &old_error); /* a group with an error has no instances and no waiters */
    }
  }
  weft_mutex_unlock(&t->mu);
  weft_group_release(old_group);
  weft_status_free(old_error);
  return found;
}

void weft_group_table_returned_task(weft_group_table_t *t, weft_str_t task) {
  while (reset_one_of(t, task)) {
  }
}
