/* collectives/remote/tasks.c - what a transport knows of tasks: host, incarnation, who was lost and in which order. */
#include "collectives/remote/transport_impl.h"

#include "base/alloc.h"
#include "base/clock.h"

enum { LEADER_LOST_MS = 2000 }; /* so long a call to a leader that died is not begun: it would wait until it is there again */

weft_str_t weft_remote_host_of(void *arg, weft_str_t task) {
  weft_remote_t *t = arg;
  weft_mutex_lock(&t->mu);
  const weft_remote_known_t *known = weft_map_get(&t->hosts, task);
  weft_str_t text = known == NULL ? WEFT_STR("") : known->host;
  weft_mutex_unlock(&t->mu);
  return text;
}

void weft_remote_note_task(weft_remote_t *t, weft_str_t task, weft_str_t host, uint64_t incarnation) {
  weft_mutex_lock(&t->mu);
  weft_remote_known_t *known = weft_map_get(&t->hosts, task);
  if (known == NULL || !weft_str_eq(known->host, host)) {
    weft_remote_known_t *entry = weft_arena_calloc(&t->arena, 1, sizeof *entry);
    weft_str_t name = weft_arena_str(&t->arena, task);
    if (entry != NULL) entry->host = weft_arena_str(&t->arena, host);
    if (entry != NULL && entry->host.data != NULL && name.data != NULL) {
      weft_map_remove(&t->hosts, task);
      weft_status_t *s = weft_map_put(&t->hosts, name, entry, NULL);
      known = s == NULL ? entry : NULL;
      weft_status_free(s); /* unknown, then: no links to it */
    }
  }
  if (known != NULL) known->incarnation = incarnation;
  weft_mutex_unlock(&t->mu);
}

uint64_t weft_remote_incarnation_of(weft_remote_t *t, weft_str_t task) {
  weft_mutex_lock(&t->mu);
  const weft_remote_known_t *known = weft_map_get(&t->hosts, task);
  uint64_t incarnation = known == NULL ? 0 : known->incarnation;
  weft_mutex_unlock(&t->mu);
  return incarnation;
}

static void forget_loss_locked(weft_remote_t *t, weft_str_t task, weft_status_t **old) WEFT_REQUIRES(t->mu) {
  int n = 0;
  for (int i = 0; i < WEFT_REMOTE_LOSSES; i++) {
    weft_remote_loss_t l = t->losses[i];
    bool is_it = l.why != NULL && *old == NULL && weft_str_eq(l.task, task);
    if (is_it) *old = l.why;
    t->losses[i] = (weft_remote_loss_t){.why = NULL};
    if (l.why != NULL && !is_it) t->losses[n++] = l;
  }
}

void weft_remote_note_loss(weft_remote_t *t, weft_str_t task, const weft_status_t *why) {
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&t->mu);
  int i = 0;
  while (i < WEFT_REMOTE_LOSSES && t->losses[i].why != NULL && !weft_str_eq(t->losses[i].task, task)) i++;
  weft_str_t name = i < WEFT_REMOTE_LOSSES && t->losses[i].why == NULL ? weft_arena_str(&t->arena, task) : WEFT_STR("");
  if (name.length > 0) {
    t->losses[i] = (weft_remote_loss_t){name, mine, weft_clock_ns()};
    mine = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(mine);
}

void weft_remote_forget_loss(weft_remote_t *t, weft_str_t task) {
  weft_status_t *old = NULL;
  weft_mutex_lock(&t->mu);
  forget_loss_locked(t, task, &old);
  weft_mutex_unlock(&t->mu);
  weft_status_free(old);
}

void weft_remote_broken(void *arg, weft_host_link_t *link) {
  weft_remote_t *t = arg;
  weft_str_t task = weft_host_link_task(link);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s: the task has died or was stopped", WEFT_STR_ARGS(task));
  weft_remote_note_loss(t, task, why);
  weft_remote_which_t by_link = {.link = link}, by_task = {.task = task};
  weft_remote_end_matching(t, &by_link, true, why);
  weft_remote_end_matching(t, &by_task, false, why);
  if (t->peers.lost != NULL) t->peers.lost(t->peers.arg, task, why);
  weft_status_free(why);
}

/* Why the group of this key broke first, as far as we know: a copy. Who is lost after that may only have followed. */
weft_status_t *weft_remote_first_loss(weft_remote_t *t, int64_t key) {
  weft_status_t *found = NULL;
  weft_mutex_lock(&t->mu);
  const weft_group_t *g = weft_map_get_u64(&t->seen, (uint64_t)key);
  for (int i = 0; g != NULL && i < WEFT_REMOTE_LOSSES && found == NULL; i++) {
    const weft_remote_loss_t *l = &t->losses[i];
    if (l->why == NULL) continue;
    for (int k = 0; k < g->size && found == NULL; k++) {
      if (weft_str_eq(g->members[k].task, l->task)) found = weft_status_clone(l->why);
    }
  }
  weft_mutex_unlock(&t->mu);
  return found;
}

bool weft_remote_is_lost_lately(weft_remote_t *t, weft_str_t task) {
  bool is_lost = false;
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_REMOTE_LOSSES && !is_lost; i++) {
    const weft_remote_loss_t *l = &t->losses[i];
    is_lost = l->why != NULL && weft_str_eq(l->task, task) && now - l->at_ns < (int64_t)LEADER_LOST_MS * 1000000;
  }
  weft_mutex_unlock(&t->mu);
  return is_lost;
}

void weft_remote_remember_group(weft_remote_t *t, weft_group_t *group) {
  void *old = NULL;
  for (int i = 0; i < group->size; i++) weft_remote_forget_loss(t, group->members[i].task);
  weft_mutex_lock(&t->mu);
  weft_status_t *s = weft_map_put_u64(&t->seen, (uint64_t)group->key, weft_group_retain(group), &old);
  weft_mutex_unlock(&t->mu);
  if (s != NULL) weft_group_release(group);
  weft_status_free(s); /* a later failure may then name the wrong task of several */
  weft_group_release(old);
}
