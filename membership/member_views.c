/* membership/member_views.c - the members of a cluster as seen by one task. */
#include "membership/member_views.h"

#include "base/clock.h"

weft_status_t *weft_member_views_init(weft_member_views_t *v, weft_arena_t *arena, uint64_t incarnation) {
  v->members = weft_arena_calloc(arena, (size_t)v->num_tasks + 1, sizeof *v->members);
  if (v->members == NULL) return WEFT_NO_MEMORY("a membership of %d tasks", v->num_tasks);
  weft_member_view_t *own = &v->members[v->own];
  own->state = own->told_state = WEFT_MEMBER_ALIVE;
  own->incarnation = own->told_incarnation = incarnation;
  v->epoch = v->service_task == v->own ? 1 : 0;
  return NULL;
}

bool weft_member_views_next_change(weft_member_views_t *v, weft_member_t *out) {
  for (int i = 0; i < v->num_tasks; i++) {
    weft_member_view_t *m = &v->members[i];
    bool is_other = m->incarnation != m->told_incarnation || m->losses != m->told_losses;
    if (m->state == m->told_state && !(is_other && m->state == WEFT_MEMBER_ALIVE)) continue;
    bool is_over = m->incarnation == m->told_incarnation;
    bool is_return = m->state == WEFT_MEMBER_ALIVE && m->told_state == WEFT_MEMBER_ALIVE; /* is_other, too */
    if (is_return) {
      m->told_state = WEFT_MEMBER_LOST;
    } else {
      if (m->state == WEFT_MEMBER_ALIVE) m->told_losses = m->losses;
      m->told_state = m->state;
      m->told_incarnation = m->incarnation;
    }
    *out = (weft_member_t){v->tasks[i],   m->told_incarnation,
                           m->told_state, is_return && is_over ? -1 : m->silent_ms,
                           m->losses,     m->has_left && m->told_state == WEFT_MEMBER_LOST};
    return true;
  }
  return false;
}

void weft_member_views_lose_service(weft_member_views_t *v) {
  weft_member_view_t *m = &v->members[v->service_task];
  if (v->service_task == v->own || m->state != WEFT_MEMBER_ALIVE) return;
  m->silent_ms = (weft_clock_ns() - v->answered_ns) / 1000000;
  m->state = WEFT_MEMBER_LOST;
  m->has_left = false;
  m->losses++;
  v->lost_service++;
  v->epoch++;
}

void weft_member_views_lose_all(weft_member_views_t *v) {
  for (int i = 0; i < v->num_tasks; i++) {
    if (i != v->own && v->members[i].state == WEFT_MEMBER_ALIVE) v->members[i].losses++;
  }
}

/* Losses that are not known yet: a coordination service that was restarted counts from 0 again. */
static uint64_t new_losses(weft_member_view_t *known, const weft_member_t *m) {
  uint64_t n = m->incarnation == known->incarnation && m->losses > known->seen_losses
                   ? m->losses - known->seen_losses
                   : 0;
  known->seen_losses = m->losses;
  return n;
}

/* A restarted coordination service has not heard from every task yet: a member that is known to be alive
 * stays so for a while. */
static void update_member(weft_member_views_t *v, int i, const weft_member_t *m, int64_t now) {
  weft_member_view_t *known = &v->members[i];
  known->silent_ms = m->silent_ms;
  uint64_t losses = new_losses(known, m);
  if (i == v->own) {
    if (losses > 0) weft_member_views_lose_all(v);
    return;
  }
  known->losses += losses;
  if (m->state == WEFT_MEMBER_UNKNOWN) {
    if (known->state == WEFT_MEMBER_ALIVE && known->unknown_since_ns == 0) known->unknown_since_ns = now;
    return;
  }
  known->unknown_since_ns = 0;
  known->state = m->state;
  known->has_left = m->has_left;
  known->incarnation = m->incarnation;
}

void weft_member_views_update(weft_member_views_t *v, uint64_t epoch, const weft_member_t *members, int n) {
  int64_t now = weft_clock_ns();
  v->heard_ns = now;
  if (epoch > v->epoch) v->epoch = epoch;
  for (int k = 0; k < n; k++) {
    for (int j = 0; j < v->num_tasks; j++) {
      int i = (k + j) % v->num_tasks; /* usually the same index */
      if (!weft_str_eq(v->tasks[i], members[k].task)) continue;
      update_member(v, i, &members[k], now);
      break;
    }
  }
}

void weft_member_views_check_silence(weft_member_views_t *v, int64_t limit_ns) {
  int64_t now = weft_clock_ns();
  if (v->checked_ns > 0 && now - v->checked_ns > limit_ns / 2)
    v->answered_ns = now; /* this process was stopped, not the others */
  v->checked_ns = now;
  if (now - v->answered_ns > limit_ns) weft_member_views_lose_service(v);
  for (int i = 0; i < v->num_tasks; i++) {
    weft_member_view_t *m = &v->members[i];
    if (m->unknown_since_ns == 0 || now - m->unknown_since_ns <= limit_ns) continue;
    m->unknown_since_ns = 0;
    if (m->state != WEFT_MEMBER_ALIVE || !weft_member_views_has_service(v)) continue;
    m->state = WEFT_MEMBER_LOST;
    v->epoch++;
  }
}

bool weft_member_views_has_service(const weft_member_views_t *v) {
  return v->members[v->service_task].state == WEFT_MEMBER_ALIVE;
}

weft_member_t weft_member_views_member(const weft_member_views_t *v, int i) {
  const weft_member_view_t *m = &v->members[i];
  int64_t now = weft_clock_ns();
  int64_t silent_ms = i == v->own                       ? 0
                      : i == v->service_task            ? (now - v->answered_ns) / 1000000
                      : m->state == WEFT_MEMBER_UNKNOWN ? 0
                                                        : m->silent_ms + (now - v->heard_ns) / 1000000;
  return (weft_member_t){v->tasks[i], m->incarnation, m->state, silent_ms, m->losses, m->has_left};
}
