/* collectives/instance_table.c - the requests of one step compared, and what was agreed remembered. */
#include "collectives/instance_table.h"

#include <stdio.h>

#include "base/alloc.h"
#include "collectives/group_members.h"
#include "collectives/rank_set.h"

enum {
  BUCKETS = 1024,
  ERRORS_KEPT = 256, /* steps that failed and whose late ranks have not arrived yet; a handful in practice */
  AGREED_KEPT = 128, /* per bucket, the newest: eager TensorFlow clients use a new key for each call */
};

/* Requests of one instance in one step that wait for the other ranks; with `error` only the failure is kept.
 */
struct weft_instance_record {
  weft_instance_record_t *next;
  int64_t group_key, instance_key, step_id;
  weft_group_waiters_t waiters;
  int num_ranks; /* that wait */
  weft_status_t *error;
  uint64_t age; /* of errors: the oldest are forgotten */
};

/* What the ranks of an instance agreed on last. */
struct weft_instance_agreed {
  weft_instance_agreed_t *next;
  weft_instance_request_t what; /* texts: none */
  int source;
};

struct weft_instance_table {
  weft_instance_record_t *records[BUCKETS];
  weft_instance_agreed_t *agreed[BUCKETS];
  uint64_t next_age;
  int num_errors;
};

weft_status_t *weft_instance_table_create(weft_instance_table_t **out) {
  *out = weft_calloc(1, sizeof **out);
  return *out != NULL ? NULL : WEFT_NO_MEMORY("a table of collective instances");
}

static size_t bucket_of(int64_t group_key, int64_t instance_key) {
  const uint64_t x = ((uint64_t)group_key * 0x9e3779b97f4a7c15u) ^ (uint64_t)instance_key;
  return (size_t)((x * 0x9e3779b97f4a7c15u) >> 32) % BUCKETS;
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

static weft_instance_record_t *find_record(weft_instance_table_t *t, const weft_instance_request_t *q) {
  weft_instance_record_t *r = t->records[bucket_of(q->group_key, q->instance_key)];
  while (r != NULL &&
         (r->group_key != q->group_key || r->instance_key != q->instance_key || r->step_id != q->step_id)) {
    r = r->next;
  }
  return r;
}

static weft_instance_agreed_t *find_agreed(weft_instance_table_t *t, const weft_instance_request_t *q) {
  weft_instance_agreed_t *a = t->agreed[bucket_of(q->group_key, q->instance_key)];
  while (a != NULL && (a->what.group_key != q->group_key || a->what.instance_key != q->instance_key))
    a = a->next;
  return a;
}

static void unlink_record(weft_instance_table_t *t, weft_instance_record_t *r) {
  weft_instance_record_t **at = &t->records[bucket_of(r->group_key, r->instance_key)];
  while (*at != r) at = &(*at)->next;
  *at = r->next;
  if (r->error != NULL) t->num_errors--;
}

void weft_instance_record_free(weft_instance_record_t *r) {
  if (r == NULL) return;
  weft_status_free(r->error);
  weft_free(r);
}

void weft_instance_table_drop_group(weft_instance_table_t *t, int64_t group_key,
                                    weft_group_waiters_t *failed) {
  for (int i = 0; i < BUCKETS; i++) {
    for (weft_instance_record_t **at = &t->records[i]; *at != NULL;) {
      weft_instance_record_t *r = *at;
      if (r->group_key != group_key) {
        at = &r->next;
        continue;
      }
      weft_group_waiter_take_all(&r->waiters, failed);
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

static void free_agreed(weft_instance_agreed_t *a) {
  while (a != NULL) {
    weft_instance_agreed_t *next = a->next;
    weft_free(a);
    a = next;
  }
}

void weft_instance_table_destroy(weft_instance_table_t *t) {
  for (int i = 0; t != NULL && i < BUCKETS; i++) {
    while (t->records[i] != NULL) {
      weft_instance_record_t *r = t->records[i];
      t->records[i] = r->next;
      weft_instance_record_free(r);
    }
    free_agreed(t->agreed[i]);
  }
  weft_free(t);
}

void weft_instance_table_take_all(weft_instance_table_t *t, weft_group_waiters_t *out) {
  for (int i = 0; i < BUCKETS; i++) {
    for (weft_instance_record_t *r = t->records[i]; r != NULL; r = r->next)
      weft_group_waiter_take_all(&r->waiters, out);
  }
}

bool weft_instance_join_init(weft_instance_join_t *j) {
  *j = (weft_instance_join_t){.source = -1};
  j->record = weft_calloc(1, sizeof *j->record);
  j->agreed = weft_calloc(1, sizeof *j->agreed);
  return j->record != NULL && j->agreed != NULL;
}

void weft_instance_join_deinit(weft_instance_join_t *j) {
  weft_instance_record_free(j->record);
  weft_instance_record_free(j->removed);
  weft_free(j->agreed);
  free_agreed(j->forgotten);
  weft_status_free(j->why);
}

weft_status_t *weft_instance_too_late(const weft_group_waiter_t *w) {
  const weft_instance_record_t *r = w->record;
  weft_name_list_t missing = {0};
  weft_rank_set_t ranks = {{0}};
  for (const weft_group_waiter_t *x = r->waiters.first; x != NULL; x = x->next)
    weft_rank_set_add(&ranks, x->instance.rank);
  weft_rank_set_list_missing(&ranks, w->instance.group_size, &missing);
  return WEFT_ERROR(
      DEADLINE_EXCEEDED,
      "Collective has timed out waiting for other workers. %.*s (group_key=%lld, instance_key=%lld, step "
      "%lld): after %lld ms these ranks have not joined: %s",
      WEFT_STR_ARGS(w->instance.name), (long long)r->group_key, (long long)r->instance_key,
      (long long)r->step_id, (long long)w->instance.timeout_ms, weft_name_list_text(&missing));
}

/* The oldest error is forgotten when there are too many; returned to be freed. */
static weft_instance_record_t *forget_error(weft_instance_table_t *t) {
  if (t->num_errors <= ERRORS_KEPT) return NULL;
  weft_instance_record_t *oldest = NULL;
  for (int i = 0; i < BUCKETS; i++) {
    for (weft_instance_record_t *r = t->records[i]; r != NULL; r = r->next) {
      if (r->error != NULL && (oldest == NULL || r->age < oldest->age)) oldest = r;
    }
  }
  if (oldest != NULL) unlink_record(t, oldest);
  return oldest;
}

static void fail_record(weft_instance_table_t *t, weft_instance_record_t *r, weft_status_t *why) {
  r->error = why;
  r->age = t->next_age++;
  t->num_errors++;
}

weft_instance_record_t *weft_instance_table_leave(weft_instance_table_t *t, const weft_group_waiter_t *w,
                                                  weft_status_t *why, weft_group_waiters_t *others) {
  weft_instance_record_t *r = w->record;
  fail_record(t, r, why);
  weft_group_waiter_take_all(&r->waiters, others);
  return forget_error(t);
}

static bool is_agreed(const weft_instance_agreed_t *a, const weft_instance_request_t *q) {
  char left[512], right[512];
  if (a == NULL || difference(&a->what, q, left, right, sizeof left) != NULL) return false;
  return a->what.root >= 0 || a->source < 0 || q->is_source == (q->rank == a->source);
}

/* What comes after the first `most` of a chain. */
static weft_instance_agreed_t *cut(weft_instance_agreed_t *a, int most) {
  while (a != NULL && --most > 0) a = a->next;
  weft_instance_agreed_t *rest = a == NULL ? NULL : a->next;
  if (a != NULL) a->next = NULL;
  return rest;
}

static bool waits(const weft_group_waiters_t *list, int rank) {
  const weft_group_waiter_t *w = list->first;
  while (w != NULL && w->instance.rank != rank) w = w->next;
  return w != NULL;
}

static void fail(weft_instance_table_t *t, weft_instance_record_t *r, weft_status_t *why,
                 weft_instance_join_t *o) {
  fail_record(t, r, why);
  o->why = weft_status_clone(why);
  weft_group_waiter_take_all(&r->waiters, &o->others);
  o->removed = forget_error(t);
}

/* All ranks have joined and want the same. */
static void agree(weft_instance_table_t *t, weft_instance_record_t *r, weft_instance_join_t *o) {
  const weft_instance_request_t *q = &r->waiters.first->instance;
  int source = q->root;
  for (const weft_group_waiter_t *w = r->waiters.first; w != NULL && q->root < 0; w = w->next) {
    if (w->instance.is_source) source = w->instance.rank;
  }
  if (source < 0 && (q->kind == WEFT_BROADCAST || q->kind == WEFT_SCATTER)) {
    fail(t, r,
         WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s (group_key=%lld, instance_key=%lld) has no source",
                    WEFT_STR_ARGS(q->name), (long long)q->group_key, (long long)q->instance_key),
         o);
    return;
  }
  weft_instance_agreed_t *a = find_agreed(t, q);
  if (a == NULL) {
    a = o->agreed;
    o->agreed = NULL;
    const size_t at = bucket_of(q->group_key, q->instance_key);
    a->next = t->agreed[at];
    t->agreed[at] = a;
    o->forgotten = cut(a, AGREED_KEPT);
  }
  a->what = *q;
  a->what.name = a->what.device = (weft_str_t){NULL, 0};
  a->source = o->source = source;
  weft_group_waiter_take_all(&r->waiters, &o->others);
  unlink_record(t, r);
  o->removed = r;
}

/* One of the two requests says that its rank does in this step what was agreed before, and that agreement
 * names another source than the other request. The agreed source need not join: its part may be done already.
 */
static weft_status_t *second_source(weft_instance_table_t *t, const weft_instance_request_t *a,
                                    const weft_instance_request_t *b, const weft_group_t *group) {
  const bool is_old = (a->details & WEFT_INSTANCE_DOUBT) != 0,
             is_other_old = (b->details & WEFT_INSTANCE_DOUBT) != 0;
  const weft_instance_request_t *claim = is_old ? b : a;
  const weft_instance_agreed_t *agreed = find_agreed(t, a);
  if (is_old == is_other_old || !claim->is_source || claim->root >= 0 || agreed == NULL || agreed->source < 0)
    return NULL;
  weft_instance_request_t old = agreed->what;
  old.rank = agreed->source;
  old.is_source = true;
  if (group != NULL && old.rank < group->size) old.device = group->members[old.rank].device;
  return contradiction(&old, claim);
}

void weft_instance_table_join(weft_instance_table_t *t, weft_group_waiter_t *w, const weft_group_t *group,
                              weft_instance_join_t *o) {
  const weft_instance_request_t *q = &w->instance;
  weft_instance_record_t *r = find_record(t, q);
  if (r == NULL) {
    const weft_instance_agreed_t *a = find_agreed(t, q);
    if ((q->details & WEFT_INSTANCE_DOUBT) == 0 && is_agreed(a, q)) {
      o->is_answered = true;
      o->source = a->source;
      return;
    }
    r = o->record;
    o->record = NULL;
    r->group_key = q->group_key;
    r->instance_key = q->instance_key;
    r->step_id = q->step_id;
    const size_t at = bucket_of(q->group_key, q->instance_key);
    r->next = t->records[at];
    t->records[at] = r;
  }
  if (r->error != NULL) {
    o->why = weft_status_clone(r->error);
    o->is_answered = true;
    return;
  }
  w->record = r;
  weft_status_t *s = r->waiters.first == NULL ? NULL : contradiction(&r->waiters.first->instance, q);
  for (const weft_group_waiter_t *x = r->waiters.first; x != NULL && s == NULL && q->is_source; x = x->next) {
    if (x->instance.is_source) s = contradiction(&x->instance, q);
  }
  for (const weft_group_waiter_t *x = r->waiters.first; x != NULL && s == NULL; x = x->next)
    s = second_source(t, &x->instance, q, group);
  if (!waits(&r->waiters, q->rank)) r->num_ranks++;
  weft_group_waiter_put(&r->waiters, w);
  if (s != NULL) {
    fail(t, r, s, o);
  } else if (r->num_ranks == q->group_size) {
    agree(t, r, o);
  }
}
