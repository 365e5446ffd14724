/* collectives/meetings.c - a list of meetings that are not complete, and a ring of runs that have failed.
 *
 * A step may last as long as its process, and have any number of runs that failed: the last ones are
 * remembered. They are found by the hashes of step and run, which lie side by side.
 */
#include "collectives/meetings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"

typedef struct meeting {
  struct meeting *next;
  int64_t step_id;
  char *name;
  size_t length;
  int n, num_there;
  void **members; /* by rank */
} meeting_t;

enum { FAILED_KEPT = 1024 };

typedef struct failed_run {
  int64_t step_id;
  weft_status_t *why; /* owned; NULL: a free place */
  char *name;         /* owned */
  size_t length;
} failed_run_t;

struct weft_meetings {
  weft_meeting_left_fn *left;
  weft_mutex_t mu;              /* a leaf */
  meeting_t *meetings;          /* guarded by mu, as all below */
  uint64_t hashes[FAILED_KEPT]; /* of `failed`; 0: a free place */
  failed_run_t failed[FAILED_KEPT];
  size_t next; /* the oldest */
  int num_failed;
};

weft_status_t *weft_meetings_create(weft_meeting_left_fn *left, weft_meetings_t **out) {
  weft_meetings_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("meetings");
  weft_mutex_init(&m->mu);
  m->left = left;
  *out = m;
  return NULL;
}

static void free_meeting(meeting_t *x) {
  weft_free(x->name);
  weft_free(x->members);
  weft_free(x);
}

static void free_failed(failed_run_t f) {
  weft_status_free(f.why);
  weft_free(f.name);
}

void weft_meetings_destroy(weft_meetings_t *m) {
  if (m == NULL) return;
  for (meeting_t *x = m->meetings, *next; x != NULL; x = next) {
    next = x->next;
    free_meeting(x);
  }
  for (int i = 0; i < FAILED_KEPT; i++) free_failed(m->failed[i]);
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

/* Is `name` "run" or "run/..."? */
static bool is_of_run(const char *name, size_t length, const char *run, size_t run_length) {
  return length >= run_length && memcmp(name, run, run_length) == 0 &&
         (length == run_length || name[run_length] == '/');
}

/* ---- runs that have failed ---- */

static uint64_t hash_of(int64_t step_id, weft_str_t run) {
  return (weft_str_hash(run) ^ ((uint64_t)step_id * UINT64_C(0x9e3779b97f4a7c15))) | 1;
}

static const failed_run_t *find_failed_locked(const weft_meetings_t *m, int64_t step_id, weft_str_t run) {
  const uint64_t hash = hash_of(step_id, run);
  for (int i = 0; i < FAILED_KEPT; i++) {
    const failed_run_t *f = &m->failed[i];
    if (m->hashes[i] == hash && f->step_id == step_id && weft_str_eq(weft_str_of(f->name, f->length), run))
      return f;
  }
  return NULL;
}

/* The failure of the run that a meeting is of: its name up to its end or a '/'. */
static const failed_run_t *find_failure_locked(const weft_meetings_t *m, int64_t step_id, weft_str_t name) {
  const failed_run_t *found = NULL;
  for (size_t i = 1; i <= name.length && found == NULL; i++) {
    if (i == name.length || name.data[i] == '/')
      found = find_failed_locked(m, step_id, weft_str_of(name.data, i));
  }
  return found;
}

/* ---- coming ---- */

static meeting_t *meeting_new(int64_t step_id, weft_str_t name, int n) {
  meeting_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return NULL;
  *x = (meeting_t){.step_id = step_id,
                   .name = weft_strndup(name.data, name.length),
                   .length = name.length,
                   .n = n,
                   .members = weft_calloc((size_t)n, sizeof *x->members)};
  if (x->name != NULL && x->members != NULL) return x;
  free_meeting(x);
  return NULL;
}

static weft_status_t *come_locked(weft_meetings_t *m, int64_t step_id, weft_str_t name, int n, int rank,
                                  void *member, meeting_t **out_full) WEFT_REQUIRES(m->mu) {
  const failed_run_t *failed = find_failure_locked(m, step_id, name);
  if (failed != NULL) return weft_status_clone(failed->why);
  meeting_t **at = &m->meetings, *x = NULL;
  for (; *at != NULL; at = &(*at)->next) {
    x = *at;
    if (x->step_id == step_id && x->length == name.length && memcmp(x->name, name.data, name.length) == 0)
      break;
  }
  if (*at == NULL) {
    *at = meeting_new(step_id, name, n);
    if (*at == NULL) return WEFT_NO_MEMORY("a meeting of %d", n);
  }
  x = *at;
  if (rank < 0) rank = x->num_there;
  if (x->n != n || x->members[rank] != NULL) {
    return WEFT_ERROR(INTERNAL, "rank %d of %d has come to %.*s already", rank, n, WEFT_STR_ARGS(name));
  }
  x->members[rank] = member;
  if (++x->num_there < n) return NULL;
  *at = x->next;
  *out_full = x;
  return NULL;
}

weft_status_t *weft_meetings_come(weft_meetings_t *m, int64_t step_id, weft_str_t name, int n, int rank,
                                  void *member, void ***out) {
  meeting_t *full = NULL;
  weft_mutex_lock(&m->mu);
  weft_status_t *s = come_locked(m, step_id, name, n, rank, member, &full);
  weft_mutex_unlock(&m->mu);
  *out = NULL;
  if (full == NULL) return s;
  *out = full->members;
  full->members = NULL;
  free_meeting(full);
  return NULL;
}

/* ---- failing ---- */

/* Without memory those that come later wait for the end of their step, or for their timeout. Returns what is
 * forgotten. */
static failed_run_t remember_locked(weft_meetings_t *m, int64_t step_id, weft_str_t run,
                                    const weft_status_t *why) WEFT_REQUIRES(m->mu) {
  const failed_run_t none = {.why = NULL};
  if (find_failed_locked(m, step_id, run) != NULL) return none;
  const failed_run_t f = {step_id, weft_status_clone(why), weft_strndup(run.data, run.length), run.length};
  if (f.why == NULL || f.name == NULL) return f;
  const size_t at = m->next;
  const failed_run_t old = m->failed[at];
  m->failed[at] = f;
  if (old.why == NULL) m->num_failed++;
  m->hashes[at] = hash_of(step_id, run);
  m->next = (at + 1) % FAILED_KEPT;
  return old;
}

void weft_meetings_fail(weft_meetings_t *m, int64_t step_id, weft_str_t run, const weft_status_t *why) {
  meeting_t *taken = NULL;
  weft_mutex_lock(&m->mu);
  const failed_run_t forgotten = remember_locked(m, step_id, run, why);
  for (meeting_t **at = &m->meetings; *at != NULL;) {
    meeting_t *x = *at;
    if (x->step_id != step_id || !is_of_run(x->name, x->length, run.data, run.length)) {
      at = &x->next;
      continue;
    }
    *at = x->next;
    x->next = taken;
    taken = x;
  }
  weft_mutex_unlock(&m->mu);
  free_failed(forgotten);
  for (meeting_t *next; taken != NULL; taken = next) {
    next = taken->next;
    for (int i = 0; i < taken->n; i++) {
      if (taken->members[i] != NULL) m->left(taken->members[i], weft_status_clone(why));
    }
    free_meeting(taken);
  }
}

/* Takes out one that failed in the step, from the place `at` on. */
static failed_run_t take_failed(weft_meetings_t *m, int64_t step_id, int *at) {
  failed_run_t taken = {.why = NULL};
  weft_mutex_lock(&m->mu);
  if (m->num_failed == 0) *at = FAILED_KEPT;
  for (; *at < FAILED_KEPT && taken.why == NULL; (*at)++) {
    if (m->hashes[*at] == 0 || m->failed[*at].step_id != step_id) continue;
    taken = m->failed[*at];
    m->failed[*at] = (failed_run_t){.why = NULL};
    m->hashes[*at] = 0;
    m->num_failed--;
  }
  weft_mutex_unlock(&m->mu);
  return taken;
}

void weft_meetings_forget_step(weft_meetings_t *m, int64_t step_id) {
  for (int at = 0; at < FAILED_KEPT;) free_failed(take_failed(m, step_id, &at));
}
