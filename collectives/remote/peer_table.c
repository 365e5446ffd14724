/* collectives/remote/peer_table.c - tasks, losses, groups.
 *
 * Locking: `mu` is a leaf.
 */
#include "collectives/remote/peer_table.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/mutex.h"

enum {
  MAX_LOSSES = 64,
  LATELY_MS = 2000, /* so long a call to a leader that was lost is not begun, and a group that has a lost
                       member with the same incarnation is taken for outdated */
  FRESH_MS = 10000, /* so long a failure may be the cause of another one */
};

/* What is known of a task; in the arena: it stays. */
typedef struct peer_entry {
  weft_str_t host;
  uint64_t incarnation;
} peer_entry_t;

/* A task that was lost and has not returned, as far as this task knows. */
typedef struct peer_loss {
  weft_str_t task;      /* in the arena */
  weft_status_t *why;   /* NULL: a free place */
  uint64_t incarnation; /* 0: not known */
  int64_t at_ns;
  bool is_departure;
} peer_loss_t;

struct weft_peer_table {
  weft_mutex_t mu;
  atomic_bool has_losses;         /* written under mu; read without it: false until the first one */
  weft_arena_t arena;             /* guarded by mu, as all below: names and hosts of tasks */
  weft_map_t tasks;               /* task -> peer_entry_t, in the arena */
  weft_map_t groups;              /* key -> the group as it was last; retained */
  peer_loss_t losses[MAX_LOSSES]; /* in the order in which they were known */
  weft_status_t *failure; /* why a group was UNAVAILABLE first; NULL: none was, or it is complete again */
  uint64_t failed_group;  /* its key */
  int64_t failed_ns;      /* when */
};

weft_status_t *weft_peer_table_create(weft_peer_table_t **out) {
  weft_peer_table_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("the transport of collectives");
  weft_mutex_init(&t->mu);
  *out = t;
  return NULL;
}

void weft_peer_table_destroy(weft_peer_table_t *t) {
  if (t == NULL) return;
  for (int i = 0; i < MAX_LOSSES; i++) weft_status_free(t->losses[i].why);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->groups, &at, &e);) weft_group_release(e.value);
  weft_map_deinit(&t->groups);
  weft_map_deinit(&t->tasks);
  weft_status_free(t->failure);
  weft_arena_deinit(&t->arena);
  weft_mutex_deinit(&t->mu);
  weft_free(t);
}

static bool is_lately(int64_t at_ns) { return weft_clock_ns() - at_ns < (int64_t)LATELY_MS * 1000000; }
static bool is_fresh(int64_t at_ns) { return weft_clock_ns() - at_ns < (int64_t)FRESH_MS * 1000000; }

weft_str_t weft_peer_table_host_of(weft_peer_table_t *t, weft_str_t task) {
  weft_mutex_lock(&t->mu);
  const peer_entry_t *known = weft_map_get(&t->tasks, task);
  weft_str_t text = known == NULL ? WEFT_STR("") : known->host;
  weft_mutex_unlock(&t->mu);
  return text;
}

static void note_locked(weft_peer_table_t *t, weft_str_t task, weft_str_t host, uint64_t incarnation)
    WEFT_REQUIRES(t->mu) {
  peer_entry_t *known = weft_map_get(&t->tasks, task);
  if (known == NULL || !weft_str_eq(known->host, host)) {
    peer_entry_t *entry = weft_arena_calloc(&t->arena, 1, sizeof *entry);
    weft_str_t name = weft_arena_str(&t->arena, task);
    if (entry != NULL) entry->host = weft_arena_str(&t->arena, host);
    if (entry != NULL && entry->host.data != NULL && name.data != NULL) {
      weft_map_remove(&t->tasks, task);
      weft_status_t *s = weft_map_put(&t->tasks, name, entry, NULL);
      known = s == NULL ? entry : NULL;
      weft_status_free(s); /* unknown, then: no links to it */
    }
  }
  if (known != NULL) known->incarnation = incarnation;
}

void weft_peer_table_note(weft_peer_table_t *t, weft_str_t task, weft_str_t host, uint64_t incarnation) {
  weft_mutex_lock(&t->mu);
  note_locked(t, task, host, incarnation);
  weft_mutex_unlock(&t->mu);
}

uint64_t weft_peer_table_incarnation_of(weft_peer_table_t *t, weft_str_t task) {
  weft_mutex_lock(&t->mu);
  const peer_entry_t *known = weft_map_get(&t->tasks, task);
  uint64_t incarnation = known == NULL ? 0 : known->incarnation;
  weft_mutex_unlock(&t->mu);
  return incarnation;
}

static void forget_loss_locked(weft_peer_table_t *t, weft_str_t task, weft_status_t **old)
    WEFT_REQUIRES(t->mu) {
  int n = 0;
  for (int i = 0; i < MAX_LOSSES; i++) {
    peer_loss_t l = t->losses[i];
    bool is_it = l.why != NULL && *old == NULL && weft_str_eq(l.task, task);
    if (is_it) *old = l.why;
    t->losses[i] = (peer_loss_t){.why = NULL};
    if (l.why != NULL && !is_it) t->losses[n++] = l;
  }
}

bool weft_peer_table_note_loss(weft_peer_table_t *t, weft_str_t task, uint64_t incarnation,
                               const weft_status_t *why, bool is_departure) {
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&t->mu);
  const peer_entry_t *known = weft_map_get(&t->tasks, task);
  const uint64_t now = known == NULL ? 0 : known->incarnation;
  const bool has_returned = incarnation != 0 && now != 0 && now != incarnation;
  int i = has_returned ? MAX_LOSSES : 0;
  while (i < MAX_LOSSES && t->losses[i].why != NULL && !weft_str_eq(t->losses[i].task, task)) i++;
  weft_str_t name =
      i < MAX_LOSSES && t->losses[i].why == NULL ? weft_arena_str(&t->arena, task) : WEFT_STR("");
  if (name.length > 0) {
    t->losses[i] = (peer_loss_t){name, mine, now, weft_clock_ns(), is_departure};
    mine = NULL;
    atomic_store(&t->has_losses, true);
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(mine);
  return !has_returned;
}

weft_status_t *weft_peer_table_loss_of(weft_peer_table_t *t, weft_str_t task, uint64_t incarnation) {
  weft_status_t *found = NULL;
  if (!atomic_load(&t->has_losses)) return NULL;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < MAX_LOSSES && found == NULL; i++) {
    const peer_loss_t *l = &t->losses[i];
    if (l->why != NULL && l->incarnation == incarnation && weft_str_eq(l->task, task))
      found = weft_status_clone(l->why);
  }
  weft_mutex_unlock(&t->mu);
  return found;
}

bool weft_peer_table_is_lost(weft_peer_table_t *t, weft_str_t task) {
  bool is_lost = false;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < MAX_LOSSES && !is_lost; i++) {
    is_lost = t->losses[i].why != NULL && weft_str_eq(t->losses[i].task, task);
  }
  weft_mutex_unlock(&t->mu);
  return is_lost;
}

weft_status_t *weft_peer_table_departure_cause(weft_peer_table_t *t, weft_str_t *out_task) {
  weft_status_t *found = NULL;
  *out_task = WEFT_STR("");
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < MAX_LOSSES && found == NULL; i++) {
    const peer_loss_t *l = &t->losses[i];
    if (l->why == NULL || l->is_departure || !is_fresh(l->at_ns)) continue;
    found = weft_status_clone(l->why);
    *out_task = l->task;
  }
  if (found == NULL && t->failure != NULL && is_fresh(t->failed_ns)) found = weft_status_clone(t->failure);
  weft_mutex_unlock(&t->mu);
  return found;
}

void weft_peer_table_note_failure(weft_peer_table_t *t, weft_str_t run, const weft_status_t *why) {
  char digits[17] = {0}; /* a run's name begins with its group's key */
  for (size_t i = 0; i < run.length && i < sizeof digits - 1 && run.data[i] != '.'; i++)
    digits[i] = run.data[i];
  const uint64_t key = strtoull(digits, NULL, 16);
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&t->mu);
  weft_status_t *old = mine;
  if (t->failure == NULL || t->failed_group != key || !is_fresh(t->failed_ns)) {
    old = t->failure;
    t->failed_ns = weft_clock_ns();
    t->failure = mine;
    t->failed_group = key;
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(old);
}

void weft_peer_table_forget_loss(weft_peer_table_t *t, weft_str_t task) {
  weft_status_t *old = NULL;
  weft_mutex_lock(&t->mu);
  forget_loss_locked(t, task, &old);
  weft_mutex_unlock(&t->mu);
  weft_status_free(old);
}

/* The first failure among a group's members but `but`; if none, the first departure, if they count. A copy,
 * or NULL. */
static weft_status_t *first_of_locked(weft_peer_table_t *t, const weft_group_t *g, weft_str_t but,
                                      bool with_departures) WEFT_REQUIRES(t->mu) {
  for (int pass = 0; pass < (with_departures ? 2 : 1); pass++) {
    for (int i = 0; i < MAX_LOSSES; i++) {
      const peer_loss_t *l = &t->losses[i];
      if (l->why == NULL || l->is_departure != (pass == 1) || weft_str_eq(l->task, but)) continue;
      if (weft_group_has_task(g, l->task)) return weft_status_clone(l->why);
    }
  }
  return NULL;
}

weft_status_t *weft_peer_table_first_loss(weft_peer_table_t *t, int64_t key) {
  weft_mutex_lock(&t->mu);
  const weft_group_t *g = weft_map_get_u64(&t->groups, (uint64_t)key);
  weft_status_t *found = g == NULL ? NULL : first_of_locked(t, g, WEFT_STR(""), true);
  weft_mutex_unlock(&t->mu);
  return found;
}

weft_status_t *weft_peer_table_failure_of(weft_peer_table_t *t, int64_t key) {
  weft_status_t *found = weft_peer_table_first_loss(t, key);
  weft_mutex_lock(&t->mu);
  if (found == NULL && t->failure != NULL && t->failed_group == (uint64_t)key && is_fresh(t->failed_ns))
    found = weft_status_clone(t->failure);
  weft_mutex_unlock(&t->mu);
  return found;
}

weft_status_t *weft_peer_table_cause(weft_peer_table_t *t, weft_str_t task, weft_status_t *status) {
  weft_status_t *found = NULL;
  weft_map_entry_t e;
  weft_mutex_lock(&t->mu);
  for (size_t at = 0; found == NULL && weft_map_next(&t->groups, &at, &e);) {
    const weft_group_t *g = e.value;
    if (weft_group_has_task(g, task)) found = first_of_locked(t, g, task, false);
  }
  const weft_group_t *failed =
      t->failure == NULL || !is_fresh(t->failed_ns) ? NULL : weft_map_get_u64(&t->groups, t->failed_group);
  if (found == NULL && failed != NULL && weft_group_has_task(failed, task))
    found = weft_status_clone(t->failure);
  weft_mutex_unlock(&t->mu);
  if (found == NULL) return status;
  weft_status_free(status);
  return found;
}

bool weft_peer_table_is_lost_lately(weft_peer_table_t *t, weft_str_t task) {
  bool is_lost = false;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < MAX_LOSSES && !is_lost; i++) {
    const peer_loss_t *l = &t->losses[i];
    is_lost = l->why != NULL && weft_str_eq(l->task, task) && is_lately(l->at_ns);
  }
  weft_mutex_unlock(&t->mu);
  return is_lost;
}

/* A loss that the leader does not know yet: a copy, or NULL. */
static weft_status_t *late_loss_locked(weft_peer_table_t *t, const weft_group_t *group) WEFT_REQUIRES(t->mu) {
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < MAX_LOSSES; i++) {
      const peer_loss_t *l = &t->losses[i];
      if (l->why == NULL || l->is_departure != (pass == 1) || l->incarnation == 0 || !is_lately(l->at_ns))
        continue;
      for (int k = 0; k < group->size; k++) {
        const weft_group_member_t *m = &group->members[k];
        if (m->incarnation == l->incarnation && weft_str_eq(m->task, l->task))
          return weft_status_clone(l->why);
      }
    }
  }
  return NULL;
}

weft_status_t *weft_peer_table_adopt_group(weft_peer_table_t *t, weft_group_t *group) {
  void *old = NULL;
  weft_status_t *unkept = NULL, *past = NULL;
  weft_mutex_lock(&t->mu);
  weft_status_t *loss = late_loss_locked(t, group);
  for (int i = 0; i < group->size && loss == NULL; i++) {
    const weft_group_member_t *m = &group->members[i];
    weft_status_t *over = NULL;
    forget_loss_locked(t, m->task, &over);
    weft_status_free(over);
    note_locked(t, m->task, m->host, m->incarnation);
  }
  if (loss == NULL)
    unkept = weft_map_put_u64(&t->groups, (uint64_t)group->key, weft_group_retain(group), &old);
  if (loss == NULL && t->failed_group == (uint64_t)group->key) {
    past = t->failure;
    t->failure = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(past);
  if (unkept != NULL) weft_group_release(group);
  weft_status_free(unkept); /* a later failure may then name the wrong task of several */
  weft_group_release(old);
  return loss;
}
