/* collectives/group_losses.c - a ring of losses, and a map of the steps of older sessions.
 *
 * A task that has seen no loss has no such steps, and looks at two numbers only.
 *
 * Locking: `mu` is a leaf.
 */
#include "collectives/group_losses.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"

enum { MAX_LOSSES = 256 };

typedef struct group_loss {
  int64_t key, number; /* number: 1 is the first one; 0: a free place */
  weft_status_t *why;
} group_loss_t;

typedef struct old_step {
  int64_t begun;
} old_step_t;

struct weft_group_losses {
  weft_mutex_t mu;
  group_loss_t ring[MAX_LOSSES]; /* guarded by mu, as the map: step id -> old_step_t, owned */
  weft_map_t steps;
  atomic_llong count;   /* written under mu */
  atomic_int num_steps; /* written under mu; read without it */
};

weft_status_t *weft_group_losses_create(weft_group_losses_t **out) {
  weft_group_losses_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return WEFT_NO_MEMORY("the losses of collective groups");
  weft_mutex_init(&l->mu);
  *out = l;
  return NULL;
}

void weft_group_losses_destroy(weft_group_losses_t *l) {
  if (l == NULL) return;
  for (int i = 0; i < MAX_LOSSES; i++) weft_status_free(l->ring[i].why);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&l->steps, &at, &e);) weft_free(e.value);
  weft_map_deinit(&l->steps);
  weft_mutex_deinit(&l->mu);
  weft_free(l);
}

void weft_group_losses_add(weft_group_losses_t *l, int64_t key, const weft_status_t *why) {
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&l->mu);
  const int64_t number = atomic_load(&l->count) + 1;
  group_loss_t *place = &l->ring[number % MAX_LOSSES];
  weft_status_t *old = place->why;
  *place = (group_loss_t){key, number, mine};
  atomic_store(&l->count, number);
  weft_mutex_unlock(&l->mu);
  weft_status_free(old);
}

int64_t weft_group_losses_count(const weft_group_losses_t *l) { return atomic_load(&l->count); }

weft_status_t *weft_group_losses_note_step(weft_group_losses_t *l, int64_t step_id, int64_t begun) {
  if (begun >= atomic_load(&l->count)) return NULL;
  old_step_t *mine = weft_calloc(1, sizeof *mine);
  if (mine == NULL) return WEFT_NO_MEMORY("the step of an older session");
  mine->begun = begun;
  void *old = NULL;
  weft_mutex_lock(&l->mu);
  weft_status_t *s = weft_map_put_u64(&l->steps, (uint64_t)step_id, mine, &old);
  if (s == NULL && old == NULL) atomic_fetch_add(&l->num_steps, 1);
  weft_mutex_unlock(&l->mu);
  weft_free(s == NULL ? old : mine);
  return s;
}

void weft_group_losses_forget_step(weft_group_losses_t *l, int64_t step_id) {
  if (atomic_load(&l->num_steps) == 0) return;
  weft_mutex_lock(&l->mu);
  old_step_t *old = weft_map_remove_u64(&l->steps, (uint64_t)step_id);
  if (old != NULL) atomic_fetch_sub(&l->num_steps, 1);
  weft_mutex_unlock(&l->mu);
  weft_free(old);
}

weft_status_t *weft_group_losses_find(weft_group_losses_t *l, int64_t step_id, int64_t key) {
  if (atomic_load(&l->num_steps) == 0) return NULL;
  weft_status_t *found = NULL;
  weft_mutex_lock(&l->mu);
  const old_step_t *step = weft_map_get_u64(&l->steps, (uint64_t)step_id);
  int64_t last = step == NULL ? 0 : step->begun;
  for (int i = 0; step != NULL && i < MAX_LOSSES; i++) {
    const group_loss_t *loss = &l->ring[i];
    if (loss->key != key || loss->number <= last) continue;
    weft_status_free(found);
    found = weft_status_clone(loss->why);
    last = loss->number;
  }
  weft_mutex_unlock(&l->mu);
  return found;
}
