/* collectives/remote/endings.c - names of transfers, and what has ended already.
 *
 * Names are "step;to_device;key". Steps that ended, runs that failed, and peers that
 * ended a step are kept in a ring for those who come late; the oldest are forgotten. A small
 * table of counts by the hash of the step says at once that nothing of a step has ended.
 */
#include "collectives/remote/transport_impl.h"

#include "base/alloc.h"

/* "step;to_device;key", and `more` behind its '\0'. *out_key and *out_more are views of it. */
char *weft_remote_name(int64_t step_id, weft_str_t to_device, weft_str_t key, weft_str_t more,
                       weft_str_t *out_key, weft_str_t *out_more) {
  size_t size = 0;
  if (!weft_add_size(to_device.length, key.length, &size) || !weft_add_size(size, more.length + 32, &size))
    return NULL;
  char *name = weft_malloc(size), *p = name;
  if (name == NULL) return NULL;
  for (uint64_t id = (uint64_t)step_id; id != 0; id >>= 6) *p++ = (char)('0' + (id & 63));
  *p++ = ';';
  if (to_device.length > 0) memcpy(p, to_device.data, to_device.length);
  p += to_device.length;
  *p++ = ';';
  if (key.length > 0) memcpy(p, key.data, key.length);
  *out_key = weft_str_of(p, key.length);
  p += key.length;
  *p++ = '\0';
  if (more.length > 0) memcpy(p, more.data, more.length);
  if (out_more != NULL) *out_more = weft_str_of(p, more.length);
  return name;
}

bool weft_remote_is_in_run(weft_str_t key, const char *run) {
  size_t n = run == NULL ? 0 : strlen(run);
  return run == NULL || (key.length > n && memcmp(key.data, run, n) == 0 && key.data[n] == '/');
}

static size_t hint_of(int64_t step_id) {
  return (size_t)(((uint64_t)step_id * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
}

/* Why a transfer of this step and key cannot be: a copy, or NULL. `task`: whom it is with. */
weft_status_t *weft_remote_ended_locked(weft_remote_t *t, int64_t step_id, weft_str_t key, weft_str_t task)
    WEFT_REQUIRES(t->mu) {
  if (t->hints[hint_of(step_id)] == 0) return NULL;
  for (size_t i = 0; i < WEFT_REMOTE_ENDINGS; i++) {
    const weft_remote_ending_t *e =
        &t->endings[(t->next_ending + WEFT_REMOTE_ENDINGS - 1 - i) % WEFT_REMOTE_ENDINGS];
    if (e->why == NULL) break; /* from the newest on: the first free place is the end */
    if (e->step_id != step_id || !weft_remote_is_in_run(key, e->run)) continue;
    if (e->task == NULL || weft_str_is(task, e->task)) return weft_status_clone(e->why);
  }
  return NULL;
}

/* Consumes all. */
void weft_remote_add_ending(weft_remote_t *t, int64_t step_id, char *run, char *task, weft_status_t *why) {
  weft_mutex_lock(&t->mu);
  weft_remote_ending_t *e = &t->endings[t->next_ending], old = *e;
  t->next_ending = (t->next_ending + 1) % WEFT_REMOTE_ENDINGS;
  *e = (weft_remote_ending_t){step_id, run, task, why};
  if (old.why != NULL) t->hints[hint_of(old.step_id)]--;
  t->hints[hint_of(step_id)]++;
  weft_mutex_unlock(&t->mu);
  weft_free(old.run);
  weft_free(old.task);
  weft_status_free(old.why);
}

void weft_remote_mark_step_locked(weft_remote_t *t, int64_t step_id) WEFT_REQUIRES(t->mu) {
  if (t->last_step == step_id || weft_map_get_u64(&t->steps, (uint64_t)step_id) != NULL) return;
  t->last_step = step_id;
  weft_status_free(weft_map_put_u64(&t->steps, (uint64_t)step_id, t,
                                    NULL)); /* without it, peers are not told that it ended */
}

void weft_remote_begin_locked(weft_remote_t *t, int64_t step_id) WEFT_REQUIRES(t->mu) {
  t->num_busy++;
  weft_remote_mark_step_locked(t, step_id);
}

void weft_remote_end_busy(weft_remote_t *t) {
  weft_mutex_lock(&t->mu);
  if (--t->num_busy == 0) weft_cond_broadcast(&t->idle);
  weft_mutex_unlock(&t->mu);
}
