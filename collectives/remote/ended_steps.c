/* collectives/remote/ended_steps.c - a ring of what has ended, and where to look in it.
 *
 * A key "RUN/agreement/what" is of the runs "RUN" and "RUN/agreement" and of the step as a whole, so a search
 * looks into one bucket for each '/' of the key, and one more.
 */
#include "collectives/remote/ended_steps.h"

#include <string.h>

#include "base/alloc.h"

/* Of a step as a whole: NULL for the run. */
static uint16_t bucket_of(int64_t step_id, weft_str_t run) {
  const uint64_t hash = (run.data == NULL ? 0 : weft_str_hash(run)) ^ (uint64_t)step_id;
  return (uint16_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 52); /* WEFT_ENDED_STEPS */
}

bool weft_ended_steps_is_in_run(weft_str_t key, const char *run) {
  size_t n = run == NULL ? 0 : strlen(run);
  return run == NULL || (key.length > n && memcmp(key.data, run, n) == 0 && key.data[n] == '/');
}

static bool is_of(const weft_ended_step_t *e, int64_t step_id, weft_str_t run, weft_str_t task) {
  if (e->step_id != step_id || (e->run == NULL) != (run.data == NULL)) return false;
  return (e->run == NULL || weft_str_is(run, e->run)) && (e->task == NULL || weft_str_is(task, e->task));
}

/* How many were added after it. */
static size_t age_of(const weft_ended_steps_t *s, const weft_ended_step_t *e) {
  return (s->next + WEFT_ENDED_STEPS - 1 - (size_t)(e - s->ring)) % WEFT_ENDED_STEPS;
}

/* The newest of the run, if it is newer than `best`. */
static const weft_ended_step_t *newer(const weft_ended_steps_t *s, const weft_ended_step_t *best,
                                      int64_t step_id, weft_str_t run, weft_str_t task) {
  for (uint16_t i = s->buckets[bucket_of(step_id, run)]; i != 0; i = s->ring[i - 1].behind) {
    const weft_ended_step_t *e = &s->ring[i - 1];
    if (is_of(e, step_id, run, task)) return best == NULL || age_of(s, e) < age_of(s, best) ? e : best;
  }
  return best;
}

weft_status_t *weft_ended_steps_find(const weft_ended_steps_t *s, int64_t step_id, weft_str_t key,
                                     weft_str_t task) {
  const weft_ended_step_t *found = newer(s, NULL, step_id, (weft_str_t){NULL, 0}, task);
  for (size_t i = 0; i < key.length; i++) {
    if (key.data[i] == '/') found = newer(s, found, step_id, weft_str_of(key.data, i), task);
  }
  return found == NULL ? NULL : weft_status_clone(found->why);
}

void weft_ended_steps_begin(weft_ended_steps_t *s, int64_t step_id) {
  const weft_str_t whole = {NULL, 0};
  for (uint16_t i = s->buckets[bucket_of(step_id, whole)]; i != 0; i = s->ring[i - 1].behind) {
    weft_ended_step_t *e = &s->ring[i - 1];
    if (e->step_id == step_id && e->run == NULL && e->task == NULL) e->step_id = 0; /* stays in its bucket */
  }
}

/* What is about to be forgotten is the oldest of all, and so the last of its bucket. */
static void unlink_oldest(weft_ended_steps_t *s, size_t at) {
  uint16_t *link = &s->buckets[s->ring[at].bucket];
  while (*link != at + 1) link = &s->ring[*link - 1].behind;
  *link = s->ring[at].behind;
}

weft_ended_step_t weft_ended_steps_add(weft_ended_steps_t *s, weft_ended_step_t e) {
  const size_t at = s->next;
  const weft_ended_step_t old = s->ring[at];
  if (old.why != NULL) unlink_oldest(s, at);
  e.bucket = bucket_of(e.step_id, e.run == NULL ? (weft_str_t){NULL, 0} : weft_str(e.run));
  e.behind = s->buckets[e.bucket];
  s->ring[at] = e;
  s->buckets[e.bucket] = (uint16_t)(at + 1);
  s->next = (at + 1) % WEFT_ENDED_STEPS;
  return old;
}

void weft_ended_step_deinit(weft_ended_step_t *e) {
  weft_free(e->run);
  weft_free(e->task);
  weft_status_free(e->why);
}

void weft_ended_steps_deinit(weft_ended_steps_t *s) {
  for (size_t i = 0; i < WEFT_ENDED_STEPS; i++) weft_ended_step_deinit(&s->ring[i]);
}
