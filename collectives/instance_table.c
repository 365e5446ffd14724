/* collectives/instance_table.c - are all ranks of an instance about to do the same?
 *
 * A record gathers one request of each rank for one step, compares each newcomer
 * with the first, and goes when it has answered. A contradiction stays for a while
 * (ERRORS_KEPT), so that ranks which come later in that step hear of it.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "collectives/group_records.h"

enum {
  ERRORS_KEPT = 256, /* steps that failed and whose late ranks have not come yet; a handful in practice */
  AGREED_KEPT = 128, /* per bucket, the newest: eager TensorFlow clients use a new key for each call */
};

static size_t bucket_of(int64_t group_key, int64_t instance_key) {
  const uint64_t x = ((uint64_t)group_key * 0x9e3779b97f4a7c15u) ^ (uint64_t)instance_key;
  return (size_t)((x * 0x9e3779b97f4a7c15u) >> 32) % WEFT_INSTANCE_BUCKETS;
}

static const char *kind_name(weft_collective_kind_t k) {
  static const char *const names[] = {"broadcast", "scatter",    "gather",         "all-gather", "all-to-all",
                                      "reduce",    "all-reduce", "reduce-scatter", "permute",    "barrier"};
  return (unsigned)k < sizeof names / sizeof names[0] ? names[k] : "unknown";
}

static const char *reduction_name(const weft_instance_request_t *r) {
  static const char *const names[] = {"sum", "prod", "min", "max"};
  if (r->is_mean) return "mean";
  return (unsigned)r->reduction < sizeof names / sizeof names[0] ? names[r->reduction] : "unknown";
}

/* What `a` and `b` disagree in, and the two values as text; NULL if in nothing. */
static const char *difference(const weft_instance_request_t *a, const weft_instance_request_t *b, char *left,
                              char *right, size_t n) {
  weft_shape_text_t text;
#define PUT(f, x, y) (snprintf(left, n, f, (x)), snprintf(right, n, f, (y)))
  if (a->kind != b->kind) return PUT("%s", kind_name(a->kind), kind_name(b->kind)), "kind";
  if (a->group_size != b->group_size) return PUT("%d", a->group_size, b->group_size), "group size";
  if (a->dtype != b->dtype) return PUT("%s", weft_dtype_name(a->dtype), weft_dtype_name(b->dtype)), "type";
  if (!weft_shape_eq(&a->shape, &b->shape)) {
    snprintf(left, n, "%s", weft_shape_print(&a->shape, &text));
    snprintf(right, n, "%s", weft_shape_print(&b->shape, &text));
    return "shape";
  }
  if (a->reduction != b->reduction || a->is_mean != b->is_mean) {
    return PUT("%s", reduction_name(a), reduction_name(b)), "reduction";
  }
  if (a->algorithm != b->algorithm) {
    return PUT("%s", weft_collective_algorithm_name(a->algorithm),
               weft_collective_algorithm_name(b->algorithm)),
           "algorithm";
  }
  if (a->root != b->root) return PUT("%d", a->root, b->root), "root";
  const uint64_t mine = a->details & ~WEFT_INSTANCE_DOUBT, other = b->details & ~WEFT_INSTANCE_DOUBT;
  if (mine != other) {
    return PUT("%llx", (unsigned long long)mine, (unsigned long long)other), "details (targets or splits)";
  }
#undef PUT
  return NULL;
}

static weft_status_t *contradiction(const weft_instance_request_t *first, const weft_instance_request_t *r) {
  char left[WEFT_MAX_DIMS * 21 + 16], right[WEFT_MAX_DIMS * 21 + 16];
  const char *what = difference(first, r, left, right, sizeof left);
  if (what == NULL && first->is_source && r->is_source && first->rank != r->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Collective %.*s (group_key=%lld, instance_key=%lld) has two sources: rank %d (%.*s) "
                      "and rank %d (%.*s)",
                      WEFT_STR_ARGS(r->name), (long long)r->group_key, (long long)r->instance_key,
                      first->rank, WEFT_STR_ARGS(first->device), r->rank, WEFT_STR_ARGS(r->device));
  }
  if (what == NULL) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Collective %.*s (group_key=%lld, instance_key=%lld): its ranks disagree in %s: rank %d "
                    "(%.*s) has %s, but "
                    "rank %d (%.*s) has %s",
                    WEFT_STR_ARGS(r->name), (long long)r->group_key, (long long)r->instance_key, what,
                    first->rank, WEFT_STR_ARGS(first->device), left, r->rank, WEFT_STR_ARGS(r->device),
                    right);
}

static weft_instance_record_t *find_locked(weft_group_table_t *t, const weft_instance_request_t *q)
    WEFT_REQUIRES(t->mu) {
  weft_instance_record_t *r = t->instances[bucket_of(q->group_key, q->instance_key)];
  while (r != NULL &&
         (r->group_key != q->group_key || r->instance_key != q->instance_key || r->step_id != q->step_id)) {
    r = r->next;
  }
  return r;
}

static weft_instance_agreed_t *agreed_locked(weft_group_table_t *t, const weft_instance_request_t *q)
    WEFT_REQUIRES(t->mu) {
  weft_instance_agreed_t *a = t->agreed[bucket_of(q->group_key, q->instance_key)];
  while (a != NULL && (a->what.group_key != q->group_key || a->what.instance_key != q->instance_key))
    a = a->next;
  return a;
}

static void unlink_locked(weft_group_table_t *t, weft_instance_record_t *r) WEFT_REQUIRES(t->mu) {
  weft_instance_record_t **at = &t->instances[bucket_of(r->group_key, r->instance_key)];
  while (*at != r) at = &(*at)->next;
  *at = r->next;
  if (r->error != NULL) t->num_errors--;
}

void weft_instance_record_free(weft_instance_record_t *r) {
  if (r == NULL) return;
  weft_status_free(r->error);
  weft_free(r);
}

void weft_instances_drop_locked(weft_group_table_t *t, int64_t group_key, weft_waiter_list_t *failed) {
  for (int i = 0; i < WEFT_INSTANCE_BUCKETS; i++) {
    for (weft_instance_record_t **at = &t->instances[i]; *at != NULL;) {
      weft_instance_record_t *r = *at;
      if (r->group_key != group_key) {
        at = &r->next;
        continue;
      }
      weft_waiter_take_all(&r->waiters, failed);
      if (r->error != NULL) t->num_errors--;
      *at = r->next;
      weft_instance_record_free(r);
    }
    for (weft_instance_agreed_t **at = &t->agreed[i]; *at != NULL;) {
      weft_instance_agreed_t *a = *at;
      if (a->what.group_key != group_key) {
        at = &a->next;
        continue;
      }
      *at = a->next;
      weft_free(a);
    }
  }
}

void weft_instances_free_all(weft_group_table_t *t) {
  for (int i = 0; i < WEFT_INSTANCE_BUCKETS; i++) {
    while (t->instances[i] != NULL) {
      weft_instance_record_t *r = t->instances[i];
      t->instances[i] = r->next;
      weft_instance_record_free(r);
    }
    while (t->agreed[i] != NULL) {
      weft_instance_agreed_t *a = t->agreed[i];
      t->agreed[i] = a->next;
      weft_free(a);
    }
  }
}

weft_status_t *weft_instance_too_late(const weft_instance_record_t *r, const weft_waiter_t *w) {
  weft_name_list_t missing = {0};
  weft_rank_set_t ranks = {{0}};
  for (const weft_waiter_t *x = r->waiters.first; x != NULL; x = x->next)
    weft_rank_set_add(&ranks, x->instance.rank);
  weft_rank_set_list_missing(&ranks, w->instance.group_size, &missing);
  return WEFT_ERROR(
      DEADLINE_EXCEEDED,
      "Collective has timed out waiting for other workers. %.*s (group_key=%lld, instance_key=%lld, step "
      "%lld): after %lld ms these ranks have not come: %s",
      WEFT_STR_ARGS(w->instance.name), (long long)r->group_key, (long long)r->instance_key,
      (long long)r->step_id, (long long)w->instance.timeout_ms, weft_name_list_text(&missing));
}

/* The oldest error is forgotten when there are too many; returned to be freed. */
static weft_instance_record_t *forget_locked(weft_group_table_t *t) WEFT_REQUIRES(t->mu) {
  if (t->num_errors <= ERRORS_KEPT) return NULL;
  weft_instance_record_t *oldest = NULL;
  for (int i = 0; i < WEFT_INSTANCE_BUCKETS; i++) {
    for (weft_instance_record_t *r = t->instances[i]; r != NULL; r = r->next) {
      if (r->error != NULL && (oldest == NULL || r->age < oldest->age)) oldest = r;
    }
  }
  if (oldest != NULL) unlink_locked(t, oldest);
  return oldest;
}

weft_instance_record_t *weft_instance_leave_locked(weft_group_table_t *t, weft_instance_record_t *r,
                                                   weft_status_t *why, weft_waiter_list_t *others) {
  r->error = why;
  r->age = t->next_age++;
  t->num_errors++;
  weft_waiter_take_all(&r->waiters, others);
  return forget_locked(t);
}

static bool is_agreed(const weft_instance_agreed_t *a, const weft_instance_request_t *q) {
  char left[512], right[512];
  if (a == NULL || difference(&a->what, q, left, right, sizeof left) != NULL) return false;
  return a->what.root >= 0 || a->source < 0 || q->is_source == (q->rank == a->source);
}

typedef struct outcome {
  weft_status_t *why; /* owned */
  bool is_answered;   /* the newcomer need not wait */
  int source;
  weft_waiter_list_t others; /* to be answered alike */
  weft_instance_record_t *rubbish;
  weft_instance_agreed_t *forgotten; /* a chain, to be freed */
} outcome_t;

/* What comes after the first `most` of a chain. */
static weft_instance_agreed_t *cut(weft_instance_agreed_t *a, int most) {
  while (a != NULL && --most > 0) a = a->next;
  weft_instance_agreed_t *rest = a == NULL ? NULL : a->next;
  if (a != NULL) a->next = NULL;
  return rest;
}

static bool waits(const weft_waiter_list_t *list, int rank) {
  const weft_waiter_t *w = list->first;
  while (w != NULL && w->instance.rank != rank) w = w->next;
  return w != NULL;
}

static void fail_locked(weft_group_table_t *t, weft_instance_record_t *r, weft_status_t *why, outcome_t *o)
    WEFT_REQUIRES(t->mu) {
  r->error = why;
  r->age = t->next_age++;
  t->num_errors++;
  o->why = weft_status_clone(why);
  weft_waiter_take_all(&r->waiters, &o->others);
  o->rubbish = forget_locked(t);
}

/* All ranks have come and want the same. */
static void agree_locked(weft_group_table_t *t, weft_instance_record_t *r, weft_instance_agreed_t **spare,
                         outcome_t *o) WEFT_REQUIRES(t->mu) {
  const weft_instance_request_t *q = &r->waiters.first->instance;
  int source = q->root;
  for (const weft_waiter_t *w = r->waiters.first; w != NULL && q->root < 0; w = w->next) {
    if (w->instance.is_source) source = w->instance.rank;
  }
  if (source < 0 && (q->kind == WEFT_BROADCAST || q->kind == WEFT_SCATTER)) {
    fail_locked(
        t, r,
        WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s (group_key=%lld, instance_key=%lld) has no source",
                   WEFT_STR_ARGS(q->name), (long long)q->group_key, (long long)q->instance_key),
        o);
    return;
  }
  weft_instance_agreed_t *a = agreed_locked(t, q);
  if (a == NULL) {
    a = *spare;
    *spare = NULL;
    const size_t at = bucket_of(q->group_key, q->instance_key);
    a->next = t->agreed[at];
    t->agreed[at] = a;
    o->forgotten = cut(a, AGREED_KEPT);
  }
  a->what = *q;
  a->what.name = a->what.device = (weft_str_t){NULL, 0};
  a->source = o->source = source;
  weft_waiter_take_all(&r->waiters, &o->others);
  unlink_locked(t, r);
  o->rubbish = r;
}

/* One of two requests says that its rank does in this step what was agreed before, by which another rank than
 * the other request's is the source; that one need not come: it may be done already. */
static weft_status_t *second_source_locked(weft_group_table_t *t, const weft_instance_request_t *a,
                                           const weft_instance_request_t *b) WEFT_REQUIRES(t->mu) {
  const bool is_old = (a->details & WEFT_INSTANCE_DOUBT) != 0,
             is_other_old = (b->details & WEFT_INSTANCE_DOUBT) != 0;
  const weft_instance_request_t *claim = is_old ? b : a;
  const weft_instance_agreed_t *agreed = agreed_locked(t, a);
  if (is_old == is_other_old || !claim->is_source || claim->root >= 0 || agreed == NULL || agreed->source < 0)
    return NULL;
  weft_instance_request_t old = agreed->what;
  old.rank = agreed->source;
  old.is_source = true;
  old.device = weft_group_device_locked(t, a->group_key, agreed->source);
  return contradiction(&old, claim);
}

static void join_locked(weft_group_table_t *t, weft_waiter_t *w, weft_instance_record_t **spare,
                        weft_instance_agreed_t **spare_agreed, outcome_t *o) WEFT_REQUIRES(t->mu) {
  const weft_instance_request_t *q = &w->instance;
  if (t->left != NULL) {
    o->why = weft_status_clone(t->left);
    o->is_answered = true;
    return;
  }
  weft_instance_record_t *r = find_locked(t, q);
  if (r == NULL) {
    const weft_instance_agreed_t *a = agreed_locked(t, q);
    if ((q->details & WEFT_INSTANCE_DOUBT) == 0 && is_agreed(a, q)) {
      o->is_answered = true;
      o->source = a->source;
      return;
    }
    r = *spare;
    *spare = NULL;
    r->group_key = q->group_key;
    r->instance_key = q->instance_key;
    r->step_id = q->step_id;
    const size_t at = bucket_of(q->group_key, q->instance_key);
    r->next = t->instances[at];
    t->instances[at] = r;
  }
  if (r->error != NULL) {
    o->why = weft_status_clone(r->error);
    o->is_answered = true;
    return;
  }
  w->record = r;
  weft_status_t *s = r->waiters.first == NULL ? NULL : contradiction(&r->waiters.first->instance, q);
  for (const weft_waiter_t *x = r->waiters.first; x != NULL && s == NULL && q->is_source; x = x->next) {
    if (x->instance.is_source) s = contradiction(&x->instance, q);
  }
  for (const weft_waiter_t *x = r->waiters.first; x != NULL && s == NULL; x = x->next)
    s = second_source_locked(t, &x->instance, q);
  if (!waits(&r->waiters, q->rank)) r->num_ranks++;
  weft_waiter_put(&r->waiters, w);
  if (s != NULL) {
    fail_locked(t, r, s, o);
    return;
  }
  if (r->num_ranks == q->group_size) agree_locked(t, r, spare_agreed, o);
}

void weft_group_table_join_instance(weft_group_table_t *t, const weft_instance_request_t *q,
                                    weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  weft_waiter_t *w = weft_waiter_for_instance(q, fn, arg);
  weft_instance_record_t *spare = weft_calloc(1, sizeof *spare);
  weft_instance_agreed_t *spare_agreed = weft_calloc(1, sizeof *spare_agreed);
  if (w == NULL || spare == NULL || spare_agreed == NULL) {
    weft_waiter_release(w);
    weft_free(spare);
    weft_free(spare_agreed);
    fn(arg, WEFT_ERROR(RESOURCE_EXHAUSTED, "joining collective %.*s", WEFT_STR_ARGS(q->name)), -1);
    return;
  }
  w->table = t;
  outcome_t o = {.source = -1};
  bool is_late = false;
  /* A rank may have been given its group just before the leader heard of a loss: the others will not come. */
  weft_mutex_lock(&t->mu);
  o.why = weft_group_lost_locked(t, q->group_key);
  if (q->rank < 0 && o.why == NULL) /* a request like TensorFlow's has a device only */
    w->instance.rank = weft_group_rank_locked(t, q->group_key, q->device);
  weft_mutex_unlock(&t->mu);
  q = &w->instance;
  if (o.why == NULL && (q->rank < 0 || q->rank >= q->group_size || q->group_size > WEFT_MAX_GROUP)) {
    o.why = WEFT_ERROR(INVALID_ARGUMENT, "collective %.*s: rank %d of %d, where %d ranks can be",
                       WEFT_STR_ARGS(q->name), q->rank, q->group_size, WEFT_MAX_GROUP);
  }
  atomic_fetch_add(&w->refs, 1); /* ours, beside the taker's */
  if (o.why == NULL) weft_group_table_watch(t, w, canceller, q->timeout_ms, &o.why);
  if (o.why != NULL) o.is_answered = true;
  if (!o.is_answered) {
    weft_mutex_lock(&t->mu);
    join_locked(t, w, &spare, &spare_agreed, &o);
    is_late = w->in != NULL && (w->has_expired || weft_canceller_is_cancelled(canceller));
    weft_mutex_unlock(&t->mu);
  }
  weft_waiter_answer_all(&o.others, t->timer, o.why, NULL, o.source);
  if (o.is_answered) weft_waiter_answer(w, t->timer, o.why, NULL, o.source);
  if (is_late) weft_group_table_missed(w);
  weft_waiter_release(w);
  weft_instance_record_free(o.rubbish);
  while (o.forgotten != NULL) {
    weft_instance_agreed_t *a = o.forgotten;
    o.forgotten = a->next;
    weft_free(a);
  }
  weft_free(spare);
  weft_free(spare_agreed);
  weft_status_free(o.why);
}
