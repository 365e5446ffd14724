/* collectives/remote/tasks.c - what a transport knows of tasks: host, incarnation, who was lost and in which
 * order. */
#include "collectives/remote/transport_impl.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"

enum {
  LATELY_MS = 2000, /* so long a call to a leader that died is not begun, and groups with the same life of a
                       member are not believed */
  FRESH_MS = 10000, /* so long a failure may be the cause of another; later nobody leaves because of it */
};

static bool is_lately(int64_t at_ns) { return weft_clock_ns() - at_ns < (int64_t)LATELY_MS * 1000000; }
static bool is_fresh(int64_t at_ns) { return weft_clock_ns() - at_ns < (int64_t)FRESH_MS * 1000000; }

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

void weft_remote_note_loss(weft_remote_t *t, weft_str_t task, const weft_status_t *why, bool has_left) {
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&t->mu);
  int i = 0;
  while (i < WEFT_REMOTE_LOSSES && t->losses[i].why != NULL && !weft_str_eq(t->losses[i].task, task)) i++;
  weft_str_t name =
      i < WEFT_REMOTE_LOSSES && t->losses[i].why == NULL ? weft_arena_str(&t->arena, task) : WEFT_STR("");
  if (name.length > 0) {
    const weft_remote_known_t *known = weft_map_get(&t->hosts, task);
    t->losses[i] =
        (weft_remote_loss_t){name, mine, known == NULL ? 0 : known->incarnation, weft_clock_ns(), has_left};
    mine = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(mine);
}

bool weft_remote_is_lost(weft_remote_t *t, weft_str_t task) {
  bool is_lost = false;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_REMOTE_LOSSES && !is_lost; i++) {
    is_lost = t->losses[i].why != NULL && weft_str_eq(t->losses[i].task, task);
  }
  weft_mutex_unlock(&t->mu);
  return is_lost;
}

weft_status_t *weft_remote_why_we_leave(weft_remote_t *t, weft_str_t *out_task) {
  weft_status_t *found = NULL;
  *out_task = WEFT_STR("");
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_REMOTE_LOSSES && found == NULL; i++) {
    const weft_remote_loss_t *l = &t->losses[i];
    if (l->why == NULL || l->has_left || !is_fresh(l->at_ns)) continue;
    found = weft_status_clone(l->why);
    *out_task = l->task;
  }
  if (found == NULL && t->failure != NULL && is_fresh(t->failed_ns)) found = weft_status_clone(t->failure);
  weft_mutex_unlock(&t->mu);
  return found;
}

void weft_remote_note_failure(weft_remote_t *t, weft_str_t run, const weft_status_t *why) {
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

void weft_remote_forget_loss(weft_remote_t *t, weft_str_t task) {
  weft_status_t *old = NULL;
  weft_mutex_lock(&t->mu);
  forget_loss_locked(t, task, &old);
  weft_mutex_unlock(&t->mu);
  weft_status_free(old);
}

/* A task is not there any more: ends what it still had to do with, and tells the worker. */
static void lose(weft_remote_t *t, weft_str_t task, const weft_host_link_t *link, const weft_status_t *why,
                 bool has_left) {
  weft_remote_note_loss(t, task, why, has_left);
  weft_remote_which_t by_link = {.link = link}, by_task = {.task = task};
  if (link != NULL) weft_remote_end_matching(t, &by_link, true, why);
  weft_remote_end_matching(t, &by_task, false, why);
  if (t->peers.lost != NULL) t->peers.lost(t->peers.arg, task, why);
}

void weft_remote_broken(void *arg, weft_host_link_t *link) {
  weft_remote_t *t = arg;
  weft_str_t task = weft_host_link_task(link), dead = {NULL, 0};
  const weft_status_t *told = NULL;
  bool has_left = weft_host_link_has_left(link, &dead, &told);
  /* Who leaves after a loss says whose: that is the cause, of which we may not have heard yet. */
  weft_host_link_t *other = dead.length == 0 ? NULL : weft_host_links_find(t->links, dead);
  bool is_news = told != NULL && dead.length > 0 && other == NULL && !weft_str_is(dead, t->task) &&
                 !weft_remote_is_lost(t, dead);
  weft_host_link_release(other);
  if (is_news) lose(t, dead, NULL, told, false);
  weft_status_t *why = WEFT_ERROR(
      UNAVAILABLE, "lost the connection to %.*s: the task has died or was stopped", WEFT_STR_ARGS(task));
  if (told != NULL) {
    weft_status_free(why);
    why = weft_status_clone(told);
  }
  if (has_left) why = weft_remote_cause(t, task, why);
  lose(t, task, link, why, has_left);
  weft_status_free(why);
}

/* Why the group of this key broke first, as far as we know: a copy. Who is lost after that may only have
 * followed. */
static bool is_member(const weft_group_t *g, weft_str_t task) {
  for (int k = 0; k < g->size; k++) {
    if (weft_str_eq(g->members[k].task, task)) return true;
  }
  return false;
}

/* The first death among a group's members; if none, who left first, if they count. A copy, or NULL. */
static weft_status_t *first_of_locked(weft_remote_t *t, const weft_group_t *g, weft_str_t but, bool with_left)
    WEFT_REQUIRES(t->mu) {
  for (int pass = 0; pass < (with_left ? 2 : 1); pass++) {
    for (int i = 0; i < WEFT_REMOTE_LOSSES; i++) {
      const weft_remote_loss_t *l = &t->losses[i];
      if (l->why == NULL || l->has_left != (pass == 1) || weft_str_eq(l->task, but)) continue;
      if (is_member(g, l->task)) return weft_status_clone(l->why);
    }
  }
  return NULL;
}

weft_status_t *weft_remote_first_loss(weft_remote_t *t, int64_t key) {
  weft_mutex_lock(&t->mu);
  const weft_group_t *g = weft_map_get_u64(&t->seen, (uint64_t)key);
  weft_status_t *found = g == NULL ? NULL : first_of_locked(t, g, WEFT_STR(""), true);
  weft_mutex_unlock(&t->mu);
  return found;
}

weft_status_t *weft_remote_cause(weft_remote_t *t, weft_str_t task, weft_status_t *status) {
  weft_status_t *found = NULL;
  weft_map_entry_t e;
  weft_mutex_lock(&t->mu);
  for (size_t at = 0; found == NULL && weft_map_next(&t->seen, &at, &e);) {
    const weft_group_t *g = e.value;
    if (is_member(g, task)) found = first_of_locked(t, g, task, false);
  }
  const weft_group_t *failed =
      t->failure == NULL || !is_fresh(t->failed_ns) ? NULL : weft_map_get_u64(&t->seen, t->failed_group);
  if (found == NULL && failed != NULL && is_member(failed, task)) found = weft_status_clone(t->failure);
  weft_mutex_unlock(&t->mu);
  if (found == NULL) return status;
  weft_status_free(status);
  return found;
}

bool weft_remote_is_lost_lately(weft_remote_t *t, weft_str_t task) {
  bool is_lost = false;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_REMOTE_LOSSES && !is_lost; i++) {
    const weft_remote_loss_t *l = &t->losses[i];
    is_lost = l->why != NULL && weft_str_eq(l->task, task) && is_lately(l->at_ns);
  }
  weft_mutex_unlock(&t->mu);
  return is_lost;
}

weft_status_t *weft_remote_loss_in(weft_remote_t *t, const weft_group_t *group) {
  weft_status_t *found = NULL;
  weft_mutex_lock(&t->mu);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < WEFT_REMOTE_LOSSES && found == NULL; i++) {
      const weft_remote_loss_t *l = &t->losses[i];
      if (l->why == NULL || l->has_left != (pass == 1) || l->incarnation == 0 || !is_lately(l->at_ns))
        continue;
      for (int k = 0; k < group->size && found == NULL; k++) {
        const weft_group_member_t *m = &group->members[k];
        if (m->incarnation == l->incarnation && weft_str_eq(m->task, l->task))
          found = weft_status_clone(l->why);
      }
    }
  }
  weft_mutex_unlock(&t->mu);
  return found;
}

void weft_remote_remember_group(weft_remote_t *t, weft_group_t *group) {
  void *old = NULL;
  for (int i = 0; i < group->size; i++) weft_remote_forget_loss(t, group->members[i].task);
  weft_mutex_lock(&t->mu);
  weft_status_t *s = weft_map_put_u64(&t->seen, (uint64_t)group->key, weft_group_retain(group), &old),
                *past = NULL;
  if (t->failed_group == (uint64_t)group->key) {
    past = t->failure;
    t->failure = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(past);
  if (s != NULL) weft_group_release(group);
  weft_status_free(s); /* a later failure may then name the wrong task of several */
  weft_group_release(old);
}
