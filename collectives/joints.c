/* collectives/joints.c - votes, decisions, and the thread that begins collectives.
 *
 * Locking: `mu` is a leaf; places are called without it. A communicator stays as long as a joint uses it, or
 * while it is broken off.
 */
#include "collectives/joints.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"

enum { MOST_REFUSALS = 2 };

typedef enum joint_state { VOTED, READY, BEGINNING, SETTLED } joint_state_t;

typedef struct joint_communicator {
  struct joint_communicator *next; /* of the list; that of broken ones is not in it */
  const weft_joint_places_t *of;
  void *it;
  int64_t group_key;
  uint64_t epoch;
  int users; /* joints and threads; one more while it is in the list */
} joint_communicator_t;

struct weft_joint {
  weft_joint_t *next; /* of those that have not ended */
  weft_group_t *group;
  const weft_joint_places_t *of;          /* NULL: its members cannot */
  weft_collective_place_t *const *places; /* lent */
  const int *ranks;                       /* lent */
  int num_own;
  uint64_t token;
  bool is_bound;
  joint_state_t state; /* guarded by mu, as all below */
  bool has_failed;
  joint_communicator_t *communicator; /* used */
  weft_joint_decision_t decision;
  const weft_collective_together_t *together;
  void (*done)(void *arg, weft_status_t *status);
  void *arg;
};

/* The last failure of a group's joints here. */
typedef struct joint_failure {
  struct joint_failure *next;
  int64_t group_key;
  uint64_t token;
  int num_refusals;      /* of its places, in a row */
  weft_group_t *refused; /* the group, with its members, after MOST_REFUSALS; else NULL */
} joint_failure_t;

/* What the decider knows of a task. */
typedef struct joint_voter {
  struct joint_voter *next;
  uint64_t life;               /* of its process: the next one is another voter */
  weft_joint_tokens_t decided; /* as joint, and perhaps not settled */
  char task[];
} joint_voter_t;

/* A group's communicator, as the decider has decided last. */
typedef struct decided_group {
  struct decided_group *next;
  weft_group_t *group;
  uint64_t epoch;
  int num_tasks;
  struct {
    uint64_t life, token; /* of the vote that it was made with */
  } made[];
} decided_group_t;

struct weft_joints {
  weft_mutex_t mu;
  weft_cond_t changed;
  uint64_t life;
  uint64_t last_token;  /* guarded by mu, as all below */
  weft_joint_t *joints; /* those that have not ended */
  joint_communicator_t *communicators;
  joint_failure_t *failures;
  char *decider; /* owned; that of num_bound joints and of all communicators */
  int num_bound;
  joint_voter_t *voters;
  decided_group_t *groups;
  uint64_t last_epoch;
  bool is_ending, has_thread;
  pthread_t thread;
};

weft_status_t *weft_joints_create(weft_joints_t **out) {
  weft_joints_t *js = weft_calloc(1, sizeof *js);
  if (js == NULL) return WEFT_NO_MEMORY("collectives with other tasks");
  weft_mutex_init(&js->mu);
  weft_cond_init(&js->changed);
  js->life = weft_random_id();
  js->last_epoch = weft_random_id();
  *out = js;
  return NULL;
}

/* ---- tokens ---- */

static bool is_in_window(const weft_joint_tokens_t *t, uint64_t token) {
  return token >= t->first && token - t->first < WEFT_JOINT_WINDOW;
}

static bool has_token(const weft_joint_tokens_t *t, uint64_t token) {
  const uint64_t i = token - t->first;
  return is_in_window(t, token) && (t->bits[i / 64] >> (i % 64) & 1) != 0;
}

static void add_token(weft_joint_tokens_t *t, uint64_t token) {
  const uint64_t i = token - t->first;
  if (is_in_window(t, token)) t->bits[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Votes come in any order: what an older one says is known already. */
static void forget_below(weft_joint_tokens_t *t, uint64_t first) {
  if (first <= t->first) return;
  enum { WORDS = WEFT_JOINT_WINDOW / 64 };
  const uint64_t by = first - t->first, words = by / 64, rest = by % 64;
  weft_joint_tokens_t kept = {.first = first};
  for (uint64_t k = 0; by < WEFT_JOINT_WINDOW && k + words < WORDS; k++) {
    const uint64_t next = k + words + 1 < WORDS ? t->bits[k + words + 1] : 0;
    kept.bits[k] = t->bits[k + words] >> rest;
    if (rest > 0) kept.bits[k] |= next << (64 - rest);
  }
  *t = kept;
}

/* ---- communicators ---- */

/* Returns one that is to be left, without the lock, or NULL. */
static joint_communicator_t *let_go_locked(joint_communicator_t *c) {
  return c != NULL && --c->users == 0 ? c : NULL;
}

static void leave(joint_communicator_t *c) {
  if (c == NULL) return;
  c->of->leave(c->it);
  weft_free(c);
}

static joint_communicator_t *find_locked(const weft_joints_t *js, int64_t group_key) WEFT_REQUIRES(js->mu) {
  joint_communicator_t *c = js->communicators;
  while (c != NULL && c->group_key != group_key) c = c->next;
  return c;
}

/* Takes the one of a group out of the list, with the list's hold. */
static joint_communicator_t *take_locked(weft_joints_t *js, int64_t group_key) WEFT_REQUIRES(js->mu) {
  for (joint_communicator_t **at = &js->communicators; *at != NULL; at = &(*at)->next) {
    if ((*at)->group_key != group_key) continue;
    joint_communicator_t *c = *at;
    *at = c->next;
    return c;
  }
  return NULL;
}

/* Breaks off one that was taken out of the list. */
static void break_off(weft_joints_t *js, joint_communicator_t *c) {
  if (c == NULL) return;
  c->of->abort(c->it);
  weft_mutex_lock(&js->mu);
  joint_communicator_t *last = let_go_locked(c);
  weft_mutex_unlock(&js->mu);
  leave(last);
}

static void unbind_locked(weft_joints_t *js) WEFT_REQUIRES(js->mu) {
  if (js->num_bound > 0 || js->communicators != NULL) return;
  weft_free(js->decider);
  js->decider = NULL;
}

/* ---- voting ---- */

static bool bind_locked(weft_joints_t *js, weft_str_t decider) WEFT_REQUIRES(js->mu) {
  unbind_locked(js);
  if (js->decider == NULL) js->decider = weft_strndup(decider.data, decider.length);
  if (js->decider == NULL || !weft_str_is(decider, js->decider)) return false;
  js->num_bound++;
  return true;
}

static joint_failure_t *find_failure_locked(const weft_joints_t *js, int64_t group_key)
    WEFT_REQUIRES(js->mu) {
  joint_failure_t *f = js->failures;
  while (f != NULL && f->group_key != group_key) f = f->next;
  return f;
}

static bool is_same_group(const weft_group_t *a, const weft_group_t *b) {
  bool is_same = a->size == b->size;
  for (int i = 0; is_same && i < a->size; i++) {
    is_same = weft_str_eq(a->members[i].device, b->members[i].device) &&
              a->members[i].incarnation == b->members[i].incarnation;
  }
  return is_same;
}

weft_status_t *weft_joints_begin(weft_joints_t *js, weft_group_t *group, weft_str_t decider,
                                 weft_collective_place_t *const *places, const int *ranks, int num_own,
                                 weft_joint_vote_t *vote, uint8_t *ids, weft_joint_t **out) {
  weft_joint_t *j = weft_calloc(1, sizeof *j);
  if (j == NULL) return WEFT_NO_MEMORY("a collective with other tasks");
  j->group = weft_group_retain(group);
  j->places = places;
  j->ranks = ranks;
  j->num_own = num_own;
  if (places != NULL) {
    weft_status_t *s = places[0]->ops->joint->identify(places, num_own, ids);
    if (s == NULL) j->of = places[0]->ops->joint;
    weft_status_free(s); /* then it goes by way of the host */
  }
  weft_mutex_lock(&js->mu);
  const joint_failure_t *failure = find_failure_locked(js, group->key);
  if (failure != NULL && failure->refused != NULL && is_same_group(failure->refused, group)) j->of = NULL;
  j->is_bound = j->of != NULL && bind_locked(js, decider);
  j->token = ++js->last_token;
  uint64_t settled = j->token;
  for (const weft_joint_t *x = js->joints; x != NULL; x = x->next) {
    if (x->state != SETTLED && x->token < settled) settled = x->token;
  }
  *vote = (weft_joint_vote_t){.life = js->life,
                              .token = j->token,
                              .settled = settled,
                              .broken = failure == NULL ? 0 : failure->token,
                              .can = j->is_bound};
  j->next = js->joints;
  js->joints = j;
  weft_mutex_unlock(&js->mu);
  *out = j;
  return NULL;
}

/* ---- deciding ---- */

static bool all_can(const weft_joint_task_t *tasks, int n) {
  for (int i = 0; i < n; i++) {
    if (tasks[i].vote->can == 0) return false;
  }
  return true;
}

/* No device is that of two ranks. */
static bool are_distinct(const weft_joint_task_t *tasks, int n) {
  for (int i = 0; i < n; i++) {
    for (int a = 0; a < tasks[i].num_ranks; a++) {
      const uint8_t *id = tasks[i].ids + (size_t)a * WEFT_PLACE_ID_BYTES;
      for (int k = 0; k <= i; k++) {
        const int end = k == i ? a : tasks[k].num_ranks;
        for (int b = 0; b < end; b++) {
          if (memcmp(id, tasks[k].ids + (size_t)b * WEFT_PLACE_ID_BYTES, WEFT_PLACE_ID_BYTES) == 0)
            return false;
        }
      }
    }
  }
  return true;
}

/* The voter of a task, with what it says is settled forgotten; NULL without memory. */
static joint_voter_t *voter_locked(weft_joints_t *js, weft_str_t task, const weft_joint_vote_t *vote)
    WEFT_REQUIRES(js->mu) {
  joint_voter_t *v = js->voters;
  while (v != NULL && !weft_str_is(task, v->task)) v = v->next;
  if (v == NULL) {
    v = weft_calloc(1, sizeof *v + task.length + 1);
    if (v == NULL) return NULL;
    memcpy(v->task, task.data, task.length);
    v->next = js->voters;
    js->voters = v;
  }
  if (v->life != vote->life) v->decided = (weft_joint_tokens_t){.first = vote->settled};
  v->life = vote->life;
  forget_below(&v->decided, vote->settled);
  return v;
}

static bool have_room_locked(weft_joints_t *js, const weft_group_t *g, const weft_joint_task_t *tasks, int n)
    WEFT_REQUIRES(js->mu) {
  bool has_room = true;
  for (int i = 0; i < n; i++) {
    const joint_voter_t *v = voter_locked(js, g->members[tasks[i].first].task, tasks[i].vote);
    has_room = has_room && v != NULL && is_in_window(&v->decided, tasks[i].vote->token);
  }
  return has_room;
}

static decided_group_t **find_decided_locked(weft_joints_t *js, int64_t key) WEFT_REQUIRES(js->mu) {
  decided_group_t **at = &js->groups;
  while (*at != NULL && (*at)->group->key != key) at = &(*at)->next;
  return at;
}

/* Does the communicator that was decided last stand at all tasks? 0: a new one is to be made. */
static uint64_t standing_epoch_locked(weft_joints_t *js, const weft_group_t *g,
                                      const weft_joint_task_t *tasks, int n) WEFT_REQUIRES(js->mu) {
  const decided_group_t *d = *find_decided_locked(js, g->key);
  if (d == NULL || d->num_tasks != n || !is_same_group(d->group, g)) return 0;
  for (int i = 0; i < n; i++) {
    if (tasks[i].vote->life != d->made[i].life || tasks[i].vote->broken >= d->made[i].token) return 0;
  }
  return d->epoch;
}

static void free_decided(decided_group_t *d) {
  if (d == NULL) return;
  weft_group_release(d->group);
  weft_free(d);
}

/* Remembers the communicator that is about to be made; false without memory. *out_old is to be freed. */
static bool remember_locked(weft_joints_t *js, weft_group_t *g, const weft_joint_task_t *tasks, int n,
                            uint64_t epoch, decided_group_t **out_old) WEFT_REQUIRES(js->mu) {
  decided_group_t *d = weft_calloc(1, sizeof *d + (size_t)n * sizeof d->made[0]);
  if (d == NULL) return false;
  d->group = weft_group_retain(g);
  d->epoch = epoch;
  d->num_tasks = n;
  for (int i = 0; i < n; i++) {
    d->made[i].life = tasks[i].vote->life;
    d->made[i].token = tasks[i].vote->token;
  }
  decided_group_t **at = find_decided_locked(js, g->key);
  *out_old = *at;
  d->next = *at == NULL ? NULL : (*at)->next;
  *at = d;
  return true;
}

/* `id`: of a new communicator; NULL: there is none. True: it needs one. */
static bool decide_locked(weft_joints_t *js, weft_group_t *g, weft_joint_task_t *tasks, int n,
                          const uint8_t *id, decided_group_t **out_old) WEFT_REQUIRES(js->mu) {
  if (!have_room_locked(js, g, tasks, n)) return false;
  uint64_t epoch = standing_epoch_locked(js, g, tasks, n);
  const bool is_new = epoch == 0;
  if (is_new && id == NULL) return true;
  if (is_new) {
    if (++js->last_epoch == 0) js->last_epoch++;
    epoch = js->last_epoch;
    if (!remember_locked(js, g, tasks, n, epoch, out_old)) return false;
  }
  for (int i = 0; i < n; i++) {
    joint_voter_t *v = voter_locked(js, g->members[tasks[i].first].task, tasks[i].vote);
    weft_joint_decision_t *d = tasks[i].decision;
    d->epoch = epoch;
    d->is_new = is_new;
    d->before = v->decided;
    if (is_new) memcpy(d->id, id, WEFT_JOINT_ID_BYTES);
    add_token(&v->decided, tasks[i].vote->token);
  }
  return false;
}

void weft_joints_decide(weft_joints_t *js, const weft_joint_t *j, weft_joint_task_t *tasks, int num_tasks) {
  decided_group_t *old = NULL;
  uint8_t id[WEFT_JOINT_ID_BYTES];
  for (int i = 0; i < num_tasks; i++) memset(tasks[i].decision, 0, sizeof *tasks[i].decision);
  if (!all_can(tasks, num_tasks) || !are_distinct(tasks, num_tasks)) return;
  weft_mutex_lock(&js->mu);
  const bool needs_id = decide_locked(js, j->group, tasks, num_tasks, NULL, &old);
  weft_mutex_unlock(&js->mu);
  if (!needs_id) return;
  weft_status_t *s = j->of->unique_id(j->places, j->num_own, id);
  if (s == NULL) {
    weft_mutex_lock(&js->mu);
    (void)decide_locked(js, j->group, tasks, num_tasks, id, &old);
    weft_mutex_unlock(&js->mu);
  }
  weft_status_free(s);
  free_decided(old);
}

/* ---- in its turn ---- */

/* One that may begin, or has failed before. */
static weft_joint_t *next_locked(weft_joints_t *js) WEFT_REQUIRES(js->mu) {
  for (weft_joint_t *j = js->joints; j != NULL; j = j->next) {
    if (j->state != READY) continue;
    bool may_begin = true;
    for (const weft_joint_t *x = js->joints; !j->has_failed && x != NULL; x = x->next)
      may_begin = may_begin && (x == j || x->state == SETTLED || !has_token(&j->decision.before, x->token));
    if (may_begin) return j;
  }
  return NULL;
}

static weft_status_t *broken(const weft_joint_t *j) {
  return WEFT_ERROR(ABORTED, "the communicator of collective group %lld was broken off",
                    (long long)j->group->key);
}

/* The joint's communicator, from the list or made. */
static weft_status_t *find_communicator(weft_joints_t *js, weft_joint_t *j) {
  weft_mutex_lock(&js->mu);
  joint_communicator_t *c = find_locked(js, j->group->key);
  const bool is_it = c != NULL && c->epoch == j->decision.epoch;
  if (is_it) {
    c->users++;
    j->communicator = c;
  }
  joint_communicator_t *old = c != NULL && !is_it ? take_locked(js, j->group->key) : NULL;
  weft_mutex_unlock(&js->mu);
  break_off(js, old);
  if (is_it) return NULL;
  if (j->decision.is_new == 0) return broken(j);
  c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a communicator");
  *c = (joint_communicator_t){
      .of = j->of, .group_key = j->group->key, .epoch = j->decision.epoch, .users = 2}; /* list, joint */
  weft_status_t *s = j->of->join(j->places, j->ranks, j->num_own, j->group->size, j->decision.id, &c->it);
  if (s != NULL) {
    weft_free(c);
    return s;
  }
  weft_mutex_lock(&js->mu);
  c->next = js->communicators;
  js->communicators = c;
  j->communicator = c;
  weft_mutex_unlock(&js->mu);
  return NULL;
}

static void settle(weft_joints_t *js, weft_joint_t *j) {
  weft_mutex_lock(&js->mu);
  j->state = SETTLED;
  weft_cond_broadcast(&js->changed);
  weft_mutex_unlock(&js->mu);
}

/* Without memory the next vote says nothing of it: then its collective is broken off, too, and says so. */
static joint_failure_t *note_failure_locked(weft_joints_t *js, int64_t group_key, uint64_t token)
    WEFT_REQUIRES(js->mu) {
  joint_failure_t *f = find_failure_locked(js, group_key);
  if (f == NULL) {
    f = weft_calloc(1, sizeof *f);
    if (f == NULL) return NULL;
    f->group_key = group_key;
    f->next = js->failures;
    js->failures = f;
  }
  if (f->token < token) f->token = token;
  return f;
}

/* The places have failed by themselves: they may fail again. */
static void refuse(weft_joints_t *js, const weft_joint_t *j, const weft_status_t *why) {
  weft_group_t *old = NULL;
  weft_mutex_lock(&js->mu);
  joint_failure_t *f = note_failure_locked(js, j->group->key, j->token);
  const bool is_last = f != NULL && ++f->num_refusals == MOST_REFUSALS;
  if (is_last) {
    old = f->refused;
    f->refused = weft_group_retain(j->group);
    f->num_refusals = 0;
  }
  weft_mutex_unlock(&js->mu);
  weft_group_release(old);
  if (!is_last) return;
  weft_log(WEFT_LOG_WARNING,
           "collectives of group %lld with other tasks go by way of the host from now on: %s",
           (long long)j->group->key, weft_status_message(why));
}

static bool is_of_places(const weft_status_t *s) {
  return s != NULL && weft_status_code(s) != WEFT_ABORTED && weft_status_code(s) != WEFT_UNIMPLEMENTED;
}

/* `j` may be gone as soon as it is done, and it may be done as soon as it has begun. */
static void begin_one(weft_joints_t *js, weft_joint_t *j) {
  void (*done)(void *, weft_status_t *) = j->done;
  void *arg = j->arg;
  weft_status_t *s = find_communicator(js, j);
  joint_communicator_t *c = j->communicator;
  weft_mutex_lock(&js->mu);
  if (s == NULL && j->has_failed) s = broken(j);
  if (s == NULL) c->users++; /* while it begins */
  weft_mutex_unlock(&js->mu);
  if (s != NULL) {
    if (is_of_places(s)) refuse(js, j, s);
    settle(js, j);
    done(arg, s);
    return;
  }
  s = c->of->run(c->it, j->together, done, arg);
  if (s != NULL) {
    if (is_of_places(s)) refuse(js, j, s);
    settle(js, j);
    done(arg, s);
  }
  weft_mutex_lock(&js->mu);
  joint_communicator_t *last = let_go_locked(c);
  weft_mutex_unlock(&js->mu);
  leave(last);
}

static void *run_thread(void *arg) {
  weft_joints_t *js = arg;
  weft_mutex_lock(&js->mu);
  for (;;) {
    weft_joint_t *j = next_locked(js);
    if (j == NULL && js->is_ending) break;
    if (j == NULL) {
      weft_cond_wait(&js->changed, &js->mu);
      continue;
    }
    const uint64_t token = j->token;
    const bool has_failed = j->has_failed;
    j->state = has_failed ? SETTLED : BEGINNING;
    weft_mutex_unlock(&js->mu);
    if (has_failed) j->done(j->arg, broken(j));
    if (!has_failed) begin_one(js, j);
    weft_mutex_lock(&js->mu);
    for (weft_joint_t *x = js->joints; x != NULL; x = x->next) { /* it may have ended */
      if (x->token == token) x->state = SETTLED;
    }
  }
  weft_mutex_unlock(&js->mu);
  return NULL;
}

void weft_joints_run(weft_joints_t *js, weft_joint_t *j, const weft_joint_decision_t *d,
                     const weft_collective_together_t *t, void (*done)(void *arg, weft_status_t *status),
                     void *arg) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&js->mu);
  if (!js->has_thread) js->has_thread = pthread_create(&js->thread, NULL, run_thread, js) == 0;
  if (!js->has_thread) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for collectives with other tasks");
  j->decision = *d;
  j->together = t;
  j->done = done;
  j->arg = arg;
  if (s == NULL) j->state = READY;
  weft_cond_broadcast(&js->changed);
  weft_mutex_unlock(&js->mu);
  if (s != NULL) done(arg, s);
}

void weft_joints_fail(weft_joints_t *js, weft_joint_t *j) {
  weft_mutex_lock(&js->mu);
  j->has_failed = true;
  joint_communicator_t *c = j->communicator;
  if (c != NULL) c->users++;
  weft_cond_broadcast(&js->changed);
  weft_mutex_unlock(&js->mu);
  break_off(js, c);
}

void weft_joints_end(weft_joints_t *js, weft_joint_t *j, bool has_failed) {
  joint_communicator_t *taken = NULL;
  weft_mutex_lock(&js->mu);
  weft_joint_t **at = &js->joints;
  while (*at != j) at = &(*at)->next;
  *at = j->next;
  if (has_failed && j->is_bound) {
    taken = find_locked(js, j->group->key);
    if (taken != NULL && j->decision.epoch != 0 && taken->epoch != j->decision.epoch) taken = NULL;
    if (taken != NULL) taken = take_locked(js, j->group->key);
    (void)note_failure_locked(js, j->group->key, taken != NULL ? js->last_token : j->token);
  }
  const bool is_right = !has_failed && j->decision.epoch != 0;
  joint_failure_t *before = is_right ? find_failure_locked(js, j->group->key) : NULL;
  if (before != NULL) before->num_refusals = 0;
  joint_communicator_t *last = let_go_locked(j->communicator);
  if (j->is_bound) js->num_bound--;
  unbind_locked(js);
  weft_cond_broadcast(&js->changed);
  weft_mutex_unlock(&js->mu);
  leave(last);
  break_off(js, taken);
  weft_group_release(j->group);
  weft_free(j);
}

void weft_joints_destroy(weft_joints_t *js) {
  if (js == NULL) return;
  weft_mutex_lock(&js->mu);
  js->is_ending = true;
  weft_cond_broadcast(&js->changed);
  const bool has_thread = js->has_thread;
  weft_mutex_unlock(&js->mu);
  if (has_thread) pthread_join(js->thread, NULL);
  for (joint_communicator_t *c = js->communicators, *next; c != NULL; c = next) {
    next = c->next;
    leave(c);
  }
  for (joint_failure_t *f = js->failures, *next; f != NULL; f = next) {
    next = f->next;
    weft_group_release(f->refused);
    weft_free(f);
  }
  for (joint_voter_t *v = js->voters, *next; v != NULL; v = next) {
    next = v->next;
    weft_free(v);
  }
  for (decided_group_t *d = js->groups, *next; d != NULL; d = next) {
    next = d->next;
    free_decided(d);
  }
  weft_free(js->decider);
  weft_cond_deinit(&js->changed);
  weft_mutex_deinit(&js->mu);
  weft_free(js);
}
