/* collectives/meetings.c - two lists: meetings that are not complete, and runs that have failed. */
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

typedef struct failed_run {
  struct failed_run *next;
  int64_t step_id;
  weft_status_t *why;
  size_t length;
  char name[];
} failed_run_t;

struct weft_meetings {
  weft_meeting_left_fn *left;
  weft_mutex_t mu;      /* a leaf */
  meeting_t *meetings;  /* guarded by mu, as the next */
  failed_run_t *failed; /* the last first */
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

static void free_failed(failed_run_t *f) {
  weft_status_free(f->why);
  weft_free(f);
}

void weft_meetings_destroy(weft_meetings_t *m) {
  if (m == NULL) return;
  for (meeting_t *x = m->meetings, *next; x != NULL; x = next) {
    next = x->next;
    free_meeting(x);
  }
  for (failed_run_t *f = m->failed, *next; f != NULL; f = next) {
    next = f->next;
    free_failed(f);
  }
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

/* Is `name` "run" or "run/..."? */
static bool is_of_run(const char *name, size_t length, const char *run, size_t run_length) {
  return length >= run_length && memcmp(name, run, run_length) == 0 &&
         (length == run_length || name[run_length] == '/');
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
  for (const failed_run_t *f = m->failed; f != NULL; f = f->next) {
    if (f->step_id == step_id && is_of_run(name.data, name.length, f->name, f->length))
      return weft_status_clone(f->why);
  }
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

/* Without memory those that come later wait for the end of their step, or for their timeout. */
static void remember_locked(weft_meetings_t *m, int64_t step_id, weft_str_t run, const weft_status_t *why)
    WEFT_REQUIRES(m->mu) {
  for (const failed_run_t *f = m->failed; f != NULL; f = f->next) {
    if (f->step_id == step_id && f->length == run.length && memcmp(f->name, run.data, run.length) == 0)
      return;
  }
  failed_run_t *f = weft_calloc(1, sizeof *f + run.length + 1);
  if (f == NULL) return;
  f->step_id = step_id;
  f->why = weft_status_clone(why);
  f->length = run.length;
  memcpy(f->name, run.data, run.length);
  f->next = m->failed;
  m->failed = f;
}

void weft_meetings_fail(weft_meetings_t *m, int64_t step_id, weft_str_t run, const weft_status_t *why) {
  meeting_t *taken = NULL;
  weft_mutex_lock(&m->mu);
  remember_locked(m, step_id, run, why);
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
  for (meeting_t *next; taken != NULL; taken = next) {
    next = taken->next;
    for (int i = 0; i < taken->n; i++) {
      if (taken->members[i] != NULL) m->left(taken->members[i], weft_status_clone(why));
    }
    free_meeting(taken);
  }
}

void weft_meetings_forget_step(weft_meetings_t *m, int64_t step_id) {
  failed_run_t *taken = NULL;
  weft_mutex_lock(&m->mu);
  for (failed_run_t **at = &m->failed; *at != NULL;) {
    failed_run_t *f = *at;
    if (f->step_id != step_id) {
      at = &f->next;
      continue;
    }
    *at = f->next;
    f->next = taken;
    taken = f;
  }
  weft_mutex_unlock(&m->mu);
  for (failed_run_t *next; taken != NULL; taken = next) {
    next = taken->next;
    free_failed(taken);
  }
}
