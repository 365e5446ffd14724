/* master/session_table.c - see the header.
 *
 * Locking: `mu` is a leaf.
 */
#include "master/session_table.h"

#include "base/alloc.h"
#include "master/ended_sessions.h"

struct weft_session_table {
  weft_str_t task; /* lent */
  weft_ended_sessions_t *ended;
  weft_mutex_t mu;
  weft_cond_t idle;    /* signalled when busy falls to 0 */
  weft_map_t sessions; /* guarded by mu: handle -> weft_master_session_t (one reference) */
  int busy;            /* guarded by mu: what is under way */
  bool is_stopped;     /* guarded by mu */
};

weft_status_t *weft_session_table_create(weft_str_t task, weft_session_table_t **out) {
  weft_session_table_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("a table of sessions");
  t->task = task;
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->idle);
  weft_status_t *s = weft_ended_sessions_create(task, &t->ended);
  if (s != NULL) {
    weft_session_table_destroy(t);
    return s;
  }
  *out = t;
  return NULL;
}

void weft_session_table_stop(weft_session_table_t *t) {
  weft_mutex_lock(&t->mu);
  t->is_stopped = true;
  weft_mutex_unlock(&t->mu);
}

void weft_session_table_wait(weft_session_table_t *t) {
  weft_mutex_lock(&t->mu);
  while (t->busy > 0) weft_cond_wait(&t->idle, &t->mu); /* woken by weft_session_table_end() */
  weft_mutex_unlock(&t->mu);
}

void weft_session_table_destroy(weft_session_table_t *t) {
  if (t == NULL) return;
  weft_ended_sessions_destroy(t->ended);
  weft_map_deinit(&t->sessions);
  weft_cond_deinit(&t->idle);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

/* ---- what is under way ---- */

static weft_status_t *stopping_locked(const weft_session_table_t *t) {
  if (!t->is_stopped) return NULL;
  return WEFT_ERROR(UNAVAILABLE, "The task %.*s, the master, was shut down", WEFT_STR_ARGS(t->task));
}

weft_status_t *weft_session_table_begin(weft_session_table_t *t) {
  weft_mutex_lock(&t->mu);
  weft_status_t *s = stopping_locked(t);
  if (s == NULL) t->busy++;
  weft_mutex_unlock(&t->mu);
  return s;
}

void weft_session_table_end(weft_session_table_t *t) {
  weft_mutex_lock(&t->mu);
  if (--t->busy == 0) weft_cond_broadcast(&t->idle);
  weft_mutex_unlock(&t->mu);
}

weft_status_t *weft_session_table_blame(weft_session_table_t *t, weft_status_t *status) {
  if (status == NULL) return NULL;
  weft_mutex_lock(&t->mu);
  weft_status_t *stop = stopping_locked(t);
  weft_mutex_unlock(&t->mu);
  if (stop == NULL) return status;
  weft_status_free(status);
  return stop;
}

/* ---- sessions ---- */

weft_status_t *weft_session_table_add(weft_session_table_t *t, weft_master_session_t *s) {
  weft_mutex_lock(&t->mu);
  weft_status_t *status = stopping_locked(t);
  if (status == NULL) status = weft_map_put(&t->sessions, s->handle, s, NULL);
  if (status == NULL) weft_master_session_retain(s);
  weft_mutex_unlock(&t->mu);
  return status;
}

int64_t weft_session_table_count(weft_session_table_t *t) {
  weft_mutex_lock(&t->mu);
  const int64_t n = (int64_t)t->sessions.count;
  weft_mutex_unlock(&t->mu);
  return n;
}

weft_master_session_t *weft_session_table_find(weft_session_table_t *t, weft_str_t handle) {
  weft_mutex_lock(&t->mu);
  weft_master_session_t *s = weft_master_session_retain(weft_map_get(&t->sessions, handle));
  weft_mutex_unlock(&t->mu);
  return s;
}

weft_status_t *weft_session_table_unknown(weft_session_table_t *t, weft_code_t code, weft_str_t handle,
                                          const char *unknown) {
  return weft_ended_sessions_error(t->ended, code, handle, unknown);
}

/* Takes the session if it is still there. Why it ended is noted first, so that a call in between is told it.
 */
static weft_master_session_t *take(weft_session_table_t *t, weft_str_t handle, const char *why,
                                   bool is_busy) {
  weft_ended_sessions_add(t->ended, handle, why);
  weft_mutex_lock(&t->mu);
  weft_master_session_t *s = weft_map_remove(&t->sessions, handle);
  if (s != NULL && is_busy) t->busy++;
  weft_mutex_unlock(&t->mu);
  return s;
}

weft_master_session_t *weft_session_table_take(weft_session_table_t *t, weft_str_t handle, const char *why) {
  weft_master_session_t *found = weft_session_table_find(t, handle);
  weft_master_session_t *s = found == NULL ? NULL : take(t, handle, why, false);
  weft_master_session_release(found);
  return s;
}

static weft_master_session_t *find_one(weft_session_table_t *t, uint64_t life) {
  weft_master_session_t *found = NULL;
  weft_map_entry_t e;
  weft_mutex_lock(&t->mu);
  for (size_t at = 0; found == NULL && weft_map_next(&t->sessions, &at, &e);) {
    weft_master_session_t *s = e.value;
    if (life == 0 || s->life == life) found = weft_master_session_retain(s);
  }
  weft_mutex_unlock(&t->mu);
  return found;
}

weft_master_session_t *weft_session_table_take_one(weft_session_table_t *t, uint64_t life, const char *why) {
  weft_master_session_t *found, *s = NULL;
  while (s == NULL && (found = find_one(t, life)) != NULL) {
    s = take(t, found->handle, why, true); /* NULL: another thread has taken it */
    weft_master_session_release(found);
  }
  return s;
}
