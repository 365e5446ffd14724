/* collectives/remote/ended_steps.c - a ring of what has ended.
 *
 * A small table of counts by the hash of the step says at once that nothing of a step has ended.
 */
#include "collectives/remote/ended_steps.h"

#include <string.h>

#include "base/alloc.h"

static size_t hint_of(int64_t step_id) {
  return (size_t)(((uint64_t)step_id * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
}

bool weft_ended_steps_is_in_run(weft_str_t key, const char *run) {
  size_t n = run == NULL ? 0 : strlen(run);
  return run == NULL || (key.length > n && memcmp(key.data, run, n) == 0 && key.data[n] == '/');
}

weft_status_t *weft_ended_steps_find(const weft_ended_steps_t *s, int64_t step_id, weft_str_t key,
                                     weft_str_t task) {
  if (s->hints[hint_of(step_id)] == 0) return NULL;
  for (size_t i = 0; i < WEFT_ENDED_STEPS; i++) {
    const weft_ended_step_t *e = &s->ring[(s->next + WEFT_ENDED_STEPS - 1 - i) % WEFT_ENDED_STEPS];
    if (e->why == NULL) break; /* from the newest on: the first free place is the end */
    if (e->step_id != step_id || !weft_ended_steps_is_in_run(key, e->run)) continue;
    if (e->task == NULL || weft_str_is(task, e->task)) return weft_status_clone(e->why);
  }
  return NULL;
}

void weft_ended_steps_begin(weft_ended_steps_t *s, int64_t step_id) {
  if (s->hints[hint_of(step_id)] == 0) return;
  for (size_t i = 0; i < WEFT_ENDED_STEPS && s->ring[i].why != NULL; i++) {
    weft_ended_step_t *e = &s->ring[i];
    if (e->step_id != step_id || e->run != NULL || e->task != NULL) continue;
    s->hints[hint_of(step_id)]--;
    e->step_id = 0;
    s->hints[hint_of(0)]++;
  }
}

weft_ended_step_t weft_ended_steps_add(weft_ended_steps_t *s, weft_ended_step_t e) {
  weft_ended_step_t old = s->ring[s->next];
  s->ring[s->next] = e;
  s->next = (s->next + 1) % WEFT_ENDED_STEPS;
  if (old.why != NULL) s->hints[hint_of(old.step_id)]--;
  s->hints[hint_of(e.step_id)]++;
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
