/* collectives/local_transport.c - the hub: where offers and fetches of one process meet.
 *
 * Each task has a table of meeting places by (step, key). A place holds an offer, a fetch,
 * or both: then it is on its way (`due` in the hub's heap, with a link model) or held by a
 * partition. Whoever takes a place out of its table under the lock ends it, after giving the lock back.
 *
 * Locking: `mu` is a leaf. Places are allocated before it is taken.
 */
#include "collectives/local_transport.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/timer.h"
#include "collectives/group_table.h"

enum {
  BLOCK = 256 << 10, /* bytes handed to consume() at once: what stays in a core's cache */
  STEPS_KEPT = 64,   /* ended steps that are remembered for late comers */
};

typedef struct task task_t;
typedef struct place {
  atomic_int refs;           /* the table's or whoever took it; the canceller's; the timer's */
  struct place *next, *prev; /* all places of the task */
  task_t *owner;             /* who offers */
  weft_local_hub_t *hub;
  char *key;                 /* "step;key", in the same block */
  size_t key_length, key_at; /* where the key begins, after the step */
  int64_t step_id;
  bool is_in_table; /* guarded by mu */
  /* the offer */
  bool has_offer;
  const char *data;
  size_t bytes;
  weft_transfer_done_fn *offer_done;
  void *offer_arg;
  task_t *offer_to;
  /* the fetch */
  bool has_fetch;
  task_t *fetcher;
  weft_fetch_t fetch; /* texts: not kept */
  weft_transfer_done_fn *fetch_done;
  void *fetch_arg;
  weft_canceller_t *canceller;
  uint64_t cancel_token;
  bool has_cancel;
  /* under way */
  bool is_due, is_held, was_fetched;
  int64_t due_ns;
  uint64_t order;
} place_t;

typedef struct failed_run {
  struct failed_run *next;
  int64_t step_id;
  char *run;
  size_t run_length;
  weft_status_t *why;
} failed_run_t;

typedef struct ended_step {
  int64_t step_id;
  weft_status_t *why; /* NULL: no such */
} ended_step_t;

typedef struct local_transport {
  weft_transport_t base;
  weft_local_hub_t *hub;
  task_t *task;
} local_transport_t;

struct task {
  task_t *next;
  char *name, *host;
  uint64_t incarnation;
  weft_status_t *dead; /* NULL while alive */
  weft_map_t places;
  place_t *first;
  failed_run_t *failed;
  ended_step_t ended[STEPS_KEPT];
  int next_ended;
  int64_t sends_until, receives_until; /* ns of the model's time */
};

typedef struct link_rule {
  struct link_rule *next;
  char *from, *to;
  weft_link_model_t model;
} link_rule_t;

struct weft_local_hub {
  weft_mutex_t mu;
  task_t *tasks;      /* guarded by mu, as all below; tasks live as long as the hub */
  link_rule_t *rules; /* newest first */
  bool has_virtual_time;
  int64_t now_ns;
  uint64_t next_order, random;
  place_t **heap;
  int num_heap, max_heap;
  int num_places;
  weft_timer_t *timer;
  weft_group_table_t *table;
  weft_link_counters_t *counters;
};

static weft_str_t text_of(const char *t) { return weft_str(t); }

static task_t *find_task(weft_local_hub_t *h, weft_str_t name) {
  task_t *t = h->tasks;
  while (t != NULL && !weft_str_is(name, t->name)) t = t->next;
  return t;
}

static weft_str_t host_of(void *arg, weft_str_t task) {
  weft_local_hub_t *h = arg;
  weft_mutex_lock(&h->mu);
  const task_t *t = find_task(h, task);
  weft_mutex_unlock(&h->mu);
  return t == NULL ? WEFT_STR("") : text_of(t->host); /* hosts never change */
}

static const weft_link_model_t *model_of(const weft_local_hub_t *h, weft_str_t from, weft_str_t to) {
  for (const link_rule_t *r = h->rules; r != NULL; r = r->next) {
    if ((r->from[0] == '\0' || weft_str_is(from, r->from)) && (r->to[0] == '\0' || weft_str_is(to, r->to)))
      return &r->model;
  }
  return NULL;
}

static double message_s(const weft_link_model_t *m, size_t bytes) {
  return m->alpha_us * 1e-6 + (m->bytes_per_s > 0 ? (double)bytes / m->bytes_per_s : 0);
}

static double hub_cost(void *arg, weft_str_t from, weft_str_t to, size_t bytes) {
  weft_local_hub_t *h = arg;
  weft_mutex_lock(&h->mu);
  const weft_link_model_t *m = model_of(h, from, to);
  const double s =
      m == NULL ? 2e-6 + (double)bytes / 5e9 : message_s(m, bytes); /* a closure and memory's pace */
  weft_mutex_unlock(&h->mu);
  return s;
}

weft_status_t *weft_local_hub_create(bool has_virtual_time, weft_local_hub_t **out) {
  weft_local_hub_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a hub of tasks");
  weft_mutex_init(&h->mu);
  h->has_virtual_time = has_virtual_time;
  h->random = 88172645463325252u;
  const weft_group_table_env_t env = {host_of, hub_cost, h};
  weft_status_t *s = weft_timer_create(&h->timer);
  if (s == NULL) s = weft_group_table_create(&env, &h->table);
  if (s == NULL) s = weft_link_counters_create(&h->counters);
  if (s != NULL) {
    weft_local_hub_destroy(h);
    return s;
  }
  *out = h;
  return NULL;
}

static void place_release(place_t *p) {
  if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  weft_canceller_release(p->canceller);
  weft_free(p);
}

/* ---- ending places ---- */

/* Takes a place out of its table; the table's reference is the caller's now. */
static void take_locked(weft_local_hub_t *h, place_t *p) WEFT_REQUIRES(h->mu) {
  weft_map_remove(&p->owner->places, weft_str_of(p->key, p->key_length));
  if (p->prev != NULL) p->prev->next = p->next;
  if (p->prev == NULL) p->owner->first = p->next;
  if (p->next != NULL) p->next->prev = p->prev;
  p->next = p->prev = NULL;
  p->is_in_table = false;
  h->num_places--;
}

/* Ends a taken place with `why` (copied; NULL: both got what they wanted) and gives it back. */
static void end(place_t *p, const weft_status_t *why) {
  if (p->has_cancel && weft_canceller_try_deregister(p->canceller, p->cancel_token)) place_release(p);
  if (p->has_fetch) p->fetch_done(p->fetch_arg, why == NULL ? NULL : weft_status_clone(why));
  if (p->has_offer) p->offer_done(p->offer_arg, why == NULL ? NULL : weft_status_clone(why));
  place_release(p);
}

static void deliver(place_t *p) { /* taken, with both sides */
  if (p->bytes != p->fetch.bytes) {
    weft_status_t *s = WEFT_ERROR(INTERNAL, "%s: offered are %zu bytes, wanted %zu", p->key + p->key_at,
                                  p->bytes, p->fetch.bytes);
    end(p, s);
    weft_status_free(s);
    return;
  }
  if (p->fetch.to != NULL && p->bytes > 0) memcpy(p->fetch.to, p->data, p->bytes);
  for (size_t at = 0; p->fetch.consume != NULL && at < p->bytes; at += BLOCK) {
    p->fetch.consume(p->fetch.consume_arg, at, p->data + at, p->bytes - at < BLOCK ? p->bytes - at : BLOCK);
  }
  end(p, NULL);
}

/* A taken list, linked by `next`. */
static void end_all(place_t *list, const weft_status_t *why) {
  while (list != NULL) {
    place_t *p = list;
    list = p->next;
    p->next = NULL;
    end(p, why);
  }
}

/* ---- the model ---- */

static bool is_earlier(const place_t *a, const place_t *b) {
  return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void heap_push_locked(weft_local_hub_t *h, place_t *p)
    WEFT_REQUIRES(h->mu) { /* room was made before */
  int i = h->num_heap++;
  for (; i > 0 && is_earlier(p, h->heap[(i - 1) / 2]); i = (i - 1) / 2) h->heap[i] = h->heap[(i - 1) / 2];
  h->heap[i] = p;
  atomic_fetch_add(&p->refs, 1);
}

static place_t *heap_pop_locked(weft_local_hub_t *h) WEFT_REQUIRES(h->mu) { /* with the heap's reference */
  place_t *top = h->heap[0], *last = h->heap[--h->num_heap];
  int i = 0;
  for (int child = 1; child < h->num_heap; child = 2 * i + 1) {
    if (child + 1 < h->num_heap && is_earlier(h->heap[child + 1], h->heap[child])) child++;
    if (!is_earlier(h->heap[child], last)) break;
    h->heap[i] = h->heap[child];
    i = child;
  }
  if (h->num_heap > 0) h->heap[i] = last;
  return top;
}

static void pump(void *arg);

static int64_t now_locked(weft_local_hub_t *h) WEFT_REQUIRES(h->mu) {
  return h->has_virtual_time ? h->now_ns : weft_clock_ns();
}

static bool is_lost_locked(weft_local_hub_t *h, double percent) WEFT_REQUIRES(h->mu) {
  h->random ^= h->random << 13; /* xorshift: the same losses in every run */
  h->random ^= h->random >> 7;
  h->random ^= h->random << 17;
  return percent > 0 && (double)(h->random >> 11) / 9007199254740992.0 * 100 < percent;
}

/* Both sides are there. False: they are to be served at once. Otherwise the place is under way or held; *sent
 * says how often. */
static bool depart_locked(weft_local_hub_t *h, place_t *p, int *sent) WEFT_REQUIRES(h->mu) {
  *sent = 1;
  const weft_link_model_t *m = model_of(h, text_of(p->owner->name), text_of(p->fetcher->name));
  p->is_held = m != NULL && m->is_partitioned;
  if (m == NULL) return false;
  if (p->is_held) {
    *sent = 0;
    return true;
  }
  const int64_t now = now_locked(h), one = (int64_t)(message_s(m, p->bytes) * 1e9);
  int64_t start =
      p->owner->sends_until > p->fetcher->receives_until ? p->owner->sends_until : p->fetcher->receives_until;
  if (start < now) start = now;
  int64_t took = one;
  while (is_lost_locked(h, m->drop_percent) && *sent < 1000) {
    took += (int64_t)(4 * m->alpha_us * 1e3) + one;
    ++*sent;
  }
  p->owner->sends_until = p->fetcher->receives_until = start + took;
  p->due_ns = start + took;
  p->order = h->next_order++;
  p->is_due = true;
  heap_push_locked(h, p);
  return true;
}

static void set_alarm(weft_local_hub_t *h, place_t *p) { /* real time: somebody must look when it is due */
  if (h->has_virtual_time) return;
  uint64_t id = 0;
  weft_status_t *s = weft_timer_add(h->timer, p->due_ns, pump, h, &id);
  weft_status_free(s); /* without memory the next alarm serves this one, too */
}

static void count(weft_local_hub_t *h, const place_t *p, int sent) {
  for (int i = 0; i < sent; i++) {
    weft_link_counters_add(h->counters, text_of(p->owner->name), text_of(p->fetcher->name),
                           p->fetch.is_control ? WEFT_TRAFFIC_CONTROL : WEFT_TRAFFIC_COLLECTIVE, p->bytes);
  }
}

/* The next place that is due; NULL if none is. Virtual time goes there. */
static place_t *next_due(weft_local_hub_t *h) {
  place_t *p = NULL;
  bool is_mine = false;
  while (!is_mine) {
    weft_mutex_lock(&h->mu);
    const bool has_one = h->num_heap > 0 && (h->has_virtual_time || h->heap[0]->due_ns <= weft_clock_ns());
    p = has_one ? heap_pop_locked(h) : NULL;
    is_mine = p == NULL;
    if (p != NULL && h->has_virtual_time && p->due_ns > h->now_ns) h->now_ns = p->due_ns;
    if (p != NULL && p->is_in_table && p->is_due) {
      take_locked(h, p);
      is_mine = true;
    }
    weft_mutex_unlock(&h->mu);
    place_release(p); /* the heap's; the table's is still held if it is mine */
  }
  return p;
}

static void pump(void *arg) {
  for (place_t *p = next_due(arg); p != NULL; p = next_due(arg)) deliver(p);
}

int weft_local_hub_run_some(weft_local_hub_t *h, int most) {
  int n = 0;
  for (; n < most; n++) {
    place_t *p = next_due(h);
    if (p == NULL) break;
    deliver(p);
  }
  return n;
}

int weft_local_hub_run(weft_local_hub_t *h) { return weft_local_hub_run_some(h, INT32_MAX); }

double weft_local_hub_seconds(weft_local_hub_t *h) {
  weft_mutex_lock(&h->mu);
  const double s = (double)h->now_ns * 1e-9;
  weft_mutex_unlock(&h->mu);
  return s;
}

/* ---- meeting ---- */

static place_t *place_new(weft_local_hub_t *h, int64_t step_id, weft_str_t key) {
  char step[24];
  const int n = snprintf(step, sizeof step, "%lld;", (long long)step_id);
  place_t *p = weft_calloc(1, sizeof *p + (size_t)n + key.length + 1);
  if (p == NULL) return NULL;
  atomic_init(&p->refs, 1);
  p->hub = h;
  p->step_id = step_id;
  p->key = (char *)(p + 1);
  p->key_at = (size_t)n;
  p->key_length = (size_t)n + key.length;
  memcpy(p->key, step, (size_t)n);
  memcpy(p->key + n, key.data, key.length);
  return p;
}

static bool is_of_run(const place_t *p, int64_t step_id, weft_str_t run) {
  const size_t n = p->key_length - p->key_at;
  return p->step_id == step_id && n > run.length && p->key[p->key_at + run.length] == '/' &&
         memcmp(p->key + p->key_at, run.data, run.length) == 0;
}

/* Why nothing can be done under this key at this task; lent under the lock. */
static const weft_status_t *obstacle(const task_t *t, const place_t *p) {
  if (t->dead != NULL) return t->dead;
  for (const failed_run_t *f = t->failed; f != NULL; f = f->next) {
    if (is_of_run(p, f->step_id, weft_str_of(f->run, f->run_length))) return f->why;
  }
  for (int i = 0; i < STEPS_KEPT; i++) {
    if (t->ended[i].why != NULL && t->ended[i].step_id == p->step_id) return t->ended[i].why;
  }
  return NULL;
}

static void move_offer(place_t *to, const place_t *from) {
  to->has_offer = true;
  to->data = from->data;
  to->bytes = from->bytes;
  to->offer_done = from->offer_done;
  to->offer_arg = from->offer_arg;
  to->offer_to = from->offer_to;
}

static void move_fetch(place_t *to, place_t *from) {
  to->has_fetch = true;
  to->fetcher = from->fetcher;
  to->fetch = from->fetch;
  to->fetch_done = from->fetch_done;
  to->fetch_arg = from->fetch_arg;
  to->canceller = from->canceller;
  from->canceller = NULL;
}

/* Ends the fetch of a place with CANCELLED; an offer stays, its owner is told by who gives up
 * (weft_transport_ops_t.fail). */
static void end_fetch(place_t *p) {
  weft_local_hub_t *h = p->hub;
  weft_mutex_lock(&h->mu);
  const bool is_mine = p->is_in_table && p->has_fetch, goes = is_mine && !p->has_offer;
  weft_transfer_done_fn *done = p->fetch_done;
  void *done_arg = p->fetch_arg;
  if (goes) take_locked(h, p);
  if (is_mine) p->has_fetch = p->is_due = p->is_held = false;
  p->was_fetched = true;
  weft_mutex_unlock(&h->mu);
  if (is_mine) done(done_arg, WEFT_ERROR(CANCELLED, "fetching %s was cancelled", p->key + p->key_at));
  if (goes) place_release(p); /* the table's */
}

static void on_cancel(void *arg) {
  end_fetch(arg);
  place_release(arg);
}

/* Makes room in the heap for every place there is. */
static bool reserve_locked(weft_local_hub_t *h) WEFT_REQUIRES(h->mu) {
  if (h->num_heap + h->num_places + 2 <= h->max_heap) return true;
  const int more = h->max_heap * 2 + 64;
  place_t **heap = weft_realloc(h->heap, (size_t)more, sizeof *heap);
  if (heap == NULL) return false;
  h->heap = heap;
  h->max_heap = more;
  return true;
}

/* One side arrives at `owner`'s table, as a place of its own. */
static void arrive(weft_local_hub_t *h, task_t *owner, task_t *self, place_t *mine,
                   weft_canceller_t *canceller) {
  weft_status_t *failed = NULL;
  place_t *served = NULL, *left = NULL, *waits = NULL;
  int sent = 0;
  bool departs = false;
  mine->canceller = mine->has_fetch ? weft_canceller_retain(canceller) : NULL;
  weft_mutex_lock(&h->mu);
  mine->owner = owner;
  const weft_status_t *why = obstacle(owner, mine);
  if (why == NULL) why = obstacle(self, mine);
  if (why == NULL && mine->has_offer && mine->offer_to != NULL) why = mine->offer_to->dead;
  place_t *there =
      why == NULL ? weft_map_get(&owner->places, weft_str_of(mine->key, mine->key_length)) : NULL;
  const bool is_twice =
      there != NULL && (mine->has_offer ? there->has_offer : there->has_fetch || there->was_fetched);
  if (why != NULL) failed = weft_status_clone(why);
  if (is_twice)
    failed = WEFT_ERROR(INTERNAL, "%s is %s twice", mine->key + mine->key_at,
                        mine->has_offer ? "offered" : "fetched");
  if (failed == NULL && !reserve_locked(h))
    failed = WEFT_ERROR(RESOURCE_EXHAUSTED, "a transfer of %s", mine->key + mine->key_at);
  if (failed == NULL && there == NULL) {
    failed = weft_map_put(&owner->places, weft_str_of(mine->key, mine->key_length), mine, NULL);
    if (failed == NULL) {
      mine->next = owner->first;
      if (owner->first != NULL) owner->first->prev = mine;
      owner->first = mine;
      mine->is_in_table = true;
      h->num_places++;
      waits = mine;
    }
  } else if (failed == NULL) {
    if (mine->has_offer) move_offer(there, mine);
    if (mine->has_fetch) move_fetch(there, mine);
    left = mine;
    departs = depart_locked(h, there, &sent);
    if (!departs) take_locked(h, there);
    served = there;
  }
  /* A fetch that must wait can be cancelled from now on; the callback finds it in the table. */
  place_t *watched = waits != NULL && waits->has_fetch                     ? waits
                     : departs && served->has_fetch && !served->has_cancel ? served
                                                                           : NULL;
  bool is_cancelled = false;
  if (watched != NULL && watched->canceller != NULL) {
    atomic_fetch_add(&watched->refs, 1);
    watched->has_cancel =
        weft_canceller_register(watched->canceller, on_cancel, watched, &watched->cancel_token);
    is_cancelled =
        !watched->has_cancel; /* or without memory: it cannot wait; its reference is given back below */
  }
  if (departs && !is_cancelled && served->is_due) set_alarm(h, served);
  place_t *to_count = served != NULL && !is_cancelled ? served : NULL;
  if (to_count != NULL) count(h, to_count, sent);
  weft_mutex_unlock(&h->mu);
  if (is_cancelled) {
    end_fetch(watched);
    place_release(watched);
  } else if (served != NULL && !departs) {
    deliver(served);
  }
  if (failed != NULL) end(mine, failed);
  weft_status_free(failed);
  place_release(left);
}

static void no_memory(weft_transfer_done_fn *done, void *arg, weft_str_t key) {
  done(arg, WEFT_ERROR(RESOURCE_EXHAUSTED, "a transfer of %.*s", WEFT_STR_ARGS(key)));
}

static void local_offer(weft_transport_t *base, int64_t step_id, weft_str_t key, weft_str_t to_task,
                        weft_str_t to_device, const void *data, size_t bytes, bool is_kept,
                        weft_transfer_done_fn *done, void *arg) {
  (void)to_device; /* is in the key */
  (void)is_kept;   /* all offers are */
  local_transport_t *t = (local_transport_t *)base;
  weft_local_hub_t *h = t->hub;
  place_t *p = place_new(h, step_id, key);
  if (p == NULL) {
    no_memory(done, arg, key);
    return;
  }
  weft_mutex_lock(&h->mu);
  p->offer_to = find_task(h, to_task);
  weft_mutex_unlock(&h->mu);
  p->has_offer = true;
  p->data = data;
  p->bytes = bytes;
  p->offer_done = done;
  p->offer_arg = arg;
  arrive(h, t->task, t->task, p, NULL);
}

static void local_fetch(weft_transport_t *base, const weft_fetch_t *f, weft_canceller_t *canceller,
                        weft_transfer_done_fn *done, void *arg) {
  local_transport_t *t = (local_transport_t *)base;
  weft_local_hub_t *h = t->hub;
  weft_mutex_lock(&h->mu);
  task_t *from = find_task(h, f->from_task);
  weft_mutex_unlock(&h->mu);
  if (from == NULL) {
    done(arg, WEFT_ERROR(UNAVAILABLE, "task %.*s is not here", WEFT_STR_ARGS(f->from_task)));
    return;
  }
  place_t *p = place_new(h, f->step_id, f->key);
  if (p == NULL) {
    no_memory(done, arg, f->key);
    return;
  }
  p->has_fetch = true;
  p->fetcher = t->task;
  p->fetch = *f;
  p->fetch_done = done;
  p->fetch_arg = arg;
  arrive(h, from, t->task, p, canceller);
}

/* ---- endings ---- */

typedef bool ends_fn(const place_t *p, const void *arg);

/* Takes all places of t for which it is time; linked by `next`. */
static place_t *take_those_locked(weft_local_hub_t *h, task_t *t, ends_fn *is_time, const void *arg)
    WEFT_REQUIRES(h->mu) {
  place_t *list = NULL;
  for (place_t *p = t->first; p != NULL;) {
    place_t *next = p->next;
    if (is_time(p, arg)) {
      take_locked(h, p);
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

static bool is_run(const place_t *p, const void *arg) {
  const run_id_t *id = arg;
  return is_of_run(p, id->step_id, id->run);
}

static void fail_at(weft_local_hub_t *h, task_t *t, run_id_t id, const weft_status_t *why) {
  failed_run_t *f = weft_calloc(1, sizeof *f);
  char *run = weft_strndup(id.run.data, id.run.length);
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&h->mu);
  bool is_first = true;
  for (const failed_run_t *x = t->failed; x != NULL && is_first; x = x->next) {
    is_first = x->step_id != id.step_id || !weft_str_eq(weft_str_of(x->run, x->run_length), id.run);
  }
  place_t *list = is_first ? take_those_locked(h, t, is_run, &id) : NULL;
  if (is_first && f != NULL && run != NULL) {
    *f = (failed_run_t){t->failed, id.step_id, run, id.run.length, mine};
    t->failed = f;
    f = NULL;
    run = NULL;
    mine = NULL;
  }
  weft_mutex_unlock(&h->mu);
  end_all(list, why);
  weft_status_free(mine);
  weft_free(run);
  weft_free(f);
}

static void local_fail(weft_transport_t *base, int64_t step_id, weft_str_t run, const weft_group_t *group,
                       const weft_status_t *why) {
  local_transport_t *t = (local_transport_t *)base;
  const run_id_t id = {step_id, run};
  weft_mutex_lock(&t->hub->mu);
  const bool is_dead = t->task->dead != NULL;
  weft_mutex_unlock(&t->hub->mu);
  fail_at(t->hub, t->task, id, why);
  for (int i = 0; group != NULL && !is_dead && i < group->size; i++) { /* the dead tell no tales */
    weft_mutex_lock(&t->hub->mu);
    task_t *peer = find_task(t->hub, group->members[i].task);
    weft_mutex_unlock(&t->hub->mu);
    if (peer != NULL && peer != t->task) fail_at(t->hub, peer, id, why);
  }
}

static bool is_step(const place_t *p, const void *arg) { return p->step_id == *(const int64_t *)arg; }

static void local_end_step(weft_transport_t *base, int64_t step_id, const weft_status_t *why) {
  local_transport_t *t = (local_transport_t *)base;
  weft_local_hub_t *h = t->hub;
  task_t *task = t->task;
  weft_status_t *mine =
      why == NULL ? WEFT_ERROR(ABORTED, "step %lld has ended", (long long)step_id) : weft_status_clone(why);
  failed_run_t *gone = NULL;
  weft_mutex_lock(&h->mu);
  place_t *list = take_those_locked(h, task, is_step, &step_id);
  for (failed_run_t **at = &task->failed; *at != NULL;) {
    failed_run_t *f = *at;
    if (f->step_id != step_id) {
      at = &f->next;
      continue;
    }
    *at = f->next;
    f->next = gone;
    gone = f;
  }
  ended_step_t *slot = &task->ended[task->next_ended];
  task->next_ended = (task->next_ended + 1) % STEPS_KEPT;
  weft_status_t *old = slot->why;
  *slot = (ended_step_t){step_id, weft_status_clone(mine)};
  weft_mutex_unlock(&h->mu);
  end_all(list, mine);
  weft_status_free(old);
  weft_status_free(mine);
  while (gone != NULL) {
    failed_run_t *f = gone;
    gone = f->next;
    weft_status_free(f->why);
    weft_free(f->run);
    weft_free(f);
  }
}

static bool is_with(const place_t *p, const void *arg) {
  const task_t *t = arg;
  return p->owner == t || (p->has_fetch && p->fetcher == t) || (p->has_offer && p->offer_to == t);
}

static void end_all_with(weft_local_hub_t *h, const task_t *dead, const weft_status_t *why) {
  for (task_t *t = h->tasks; t != NULL; t = t->next) { /* tasks are only added at the front */
    weft_mutex_lock(&h->mu);
    place_t *list = take_those_locked(h, t, is_with, dead);
    weft_mutex_unlock(&h->mu);
    end_all(list, why);
  }
}

void weft_local_hub_kill(weft_local_hub_t *h, weft_str_t task) {
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "task %.*s was killed", WEFT_STR_ARGS(task));
  weft_mutex_lock(&h->mu);
  task_t *t = find_task(h, task);
  if (t != NULL && t->dead == NULL) t->dead = weft_status_clone(why);
  weft_mutex_unlock(&h->mu);
  if (t != NULL) {
    end_all_with(h, t, why);
    weft_group_table_lost_task(h->table, task, why);
  }
  weft_status_free(why);
}

static void local_lost_task(weft_transport_t *base, weft_str_t task, const weft_status_t *why) {
  local_transport_t *t = (local_transport_t *)base;
  weft_group_table_lost_task(t->hub->table, task, why);
}

/* ---- the leader ---- */

static void local_complete_group(weft_transport_t *base, const weft_group_request_t *r,
                                 weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  local_transport_t *t = (local_transport_t *)base;
  weft_group_request_t q = *r;
  weft_mutex_lock(&t->hub->mu);
  if (q.incarnation == 0) q.incarnation = t->task->incarnation;
  weft_status_t *dead = t->task->dead == NULL ? NULL : weft_status_clone(t->task->dead);
  weft_mutex_unlock(&t->hub->mu);
  if (dead != NULL)
    fn(arg, dead, NULL);
  else
    weft_group_table_join(t->hub->table, &q, canceller, fn, arg);
}

static void local_complete_instance(weft_transport_t *base, const weft_instance_request_t *r,
                                    weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  local_transport_t *t = (local_transport_t *)base;
  weft_mutex_lock(&t->hub->mu);
  weft_status_t *dead = t->task->dead == NULL ? NULL : weft_status_clone(t->task->dead);
  weft_mutex_unlock(&t->hub->mu);
  if (dead != NULL)
    fn(arg, dead, -1);
  else
    weft_group_table_join_instance(t->hub->table, r, canceller, fn, arg);
}

static double local_cost(weft_transport_t *base, weft_str_t from, weft_str_t to, size_t bytes) {
  return hub_cost(((local_transport_t *)base)->hub, from, to, bytes);
}

static void local_destroy(weft_transport_t *base) { weft_free(base); }

static const weft_transport_ops_t local_ops = {.offer = local_offer,
                                               .fail = local_fail,
                                               .lost_task = local_lost_task,
                                               .end_step = local_end_step,
                                               .fetch = local_fetch,
                                               .complete_group = local_complete_group,
                                               .complete_instance = local_complete_instance,
                                               .cost = local_cost,
                                               .destroy = local_destroy};

void weft_transport_destroy(weft_transport_t *t) {
  if (t != NULL) t->ops->destroy(t);
}

weft_status_t *weft_local_transport_create(weft_local_hub_t *h, weft_str_t task, weft_str_t host,
                                           uint64_t incarnation, weft_transport_t **out) {
  weft_status_t *s = NULL, *was_dead = NULL;
  local_transport_t *t = weft_calloc(1, sizeof *t);
  task_t *mine = weft_calloc(1, sizeof *mine);
  if (mine != NULL) {
    mine->name = weft_strndup(task.data, task.length);
    mine->host = weft_strndup(host.data == NULL ? "" : host.data, host.length);
  }
  if (t == NULL || mine == NULL || mine->name == NULL || mine->host == NULL) {
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "task %.*s", WEFT_STR_ARGS(task));
    goto done;
  }
  weft_mutex_lock(&h->mu);
  task_t *there = find_task(h, task);
  if (there == NULL) {
    mine->next = h->tasks;
    h->tasks = there = mine;
    mine = NULL;
  }
  was_dead = there->dead;
  there->dead = NULL;
  there->incarnation = incarnation;
  weft_mutex_unlock(&h->mu);
  *t = (local_transport_t){{&local_ops}, h, there};
  *out = &t->base;
  t = NULL;
done:
  weft_status_free(was_dead);
  weft_free(t);
  if (mine != NULL) {
    weft_free(mine->name);
    weft_free(mine->host);
  }
  weft_free(mine);
  return s;
}

weft_status_t *weft_local_hub_set_link(weft_local_hub_t *h, weft_str_t from, weft_str_t to,
                                       weft_link_model_t m) {
  link_rule_t *r = weft_calloc(1, sizeof *r);
  if (r != NULL) r->from = weft_strndup(from.data == NULL ? "" : from.data, from.length);
  if (r != NULL) r->to = weft_strndup(to.data == NULL ? "" : to.data, to.length);
  if (r == NULL || r->from == NULL || r->to == NULL) {
    if (r != NULL) {
      weft_free(r->from);
      weft_free(r->to);
    }
    weft_free(r);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "a link's model");
  }
  r->model = m;
  place_t *freed = NULL;
  weft_mutex_lock(&h->mu);
  r->next = h->rules;
  h->rules = r;
  for (task_t *t = h->tasks; t != NULL; t = t->next) {
    for (place_t *p = t->first, *next = NULL; p != NULL; p = next) {
      next = p->next;
      if (!p->is_held || p->is_due) continue;
      int sent = 0;
      const bool departs = depart_locked(h, p, &sent);
      count(h, p, sent);
      if (departs && p->is_due) set_alarm(h, p);
      if (departs) continue;
      take_locked(h, p);
      p->next = freed;
      freed = p;
    }
  }
  weft_mutex_unlock(&h->mu);
  while (freed != NULL) {
    place_t *p = freed;
    freed = p->next;
    p->next = NULL;
    deliver(p);
  }
  return NULL;
}

int weft_local_hub_num_waiting(weft_local_hub_t *h) {
  weft_mutex_lock(&h->mu);
  const int n = h->num_places;
  weft_mutex_unlock(&h->mu);
  return n;
}

weft_link_counters_t *weft_local_hub_counters(weft_local_hub_t *h) { return h->counters; }

void weft_local_hub_destroy(weft_local_hub_t *h) {
  if (h == NULL) return;
  weft_timer_destroy(h->timer);
  weft_group_table_destroy(h->table);
  weft_status_t *why = WEFT_ERROR(CANCELLED, "the hub ends");
  while (h->tasks != NULL) {
    task_t *t = h->tasks;
    weft_mutex_lock(&h->mu);
    place_t *list = t->first;
    for (place_t *p = list; p != NULL; p = p->next) p->is_in_table = false;
    t->first = NULL;
    weft_mutex_unlock(&h->mu);
    end_all(list, why);
    h->tasks = t->next;
    weft_map_deinit(&t->places);
    while (t->failed != NULL) {
      failed_run_t *f = t->failed;
      t->failed = f->next;
      weft_status_free(f->why);
      weft_free(f->run);
      weft_free(f);
    }
    for (int i = 0; i < STEPS_KEPT; i++) weft_status_free(t->ended[i].why);
    weft_status_free(t->dead);
    weft_free(t->name);
    weft_free(t->host);
    weft_free(t);
  }
  weft_status_free(why);
  while (h->num_heap > 0) place_release(h->heap[--h->num_heap]);
  weft_free(h->heap);
  while (h->rules != NULL) {
    link_rule_t *r = h->rules;
    h->rules = r->next;
    weft_free(r->from);
    weft_free(r->to);
    weft_free(r);
  }
  weft_link_counters_destroy(h->counters);
  weft_mutex_deinit(&h->mu);
  weft_free(h);
}
