/* membership/member_views.h - the members of a cluster as seen by one task, and the changes that its watchers
 * have been notified of.
 *
 * What watchers were told is kept per member, beside what is known; a difference is a change that they have
 * not been told yet. A restart that came as one change is told as two, a loss and a return.
 *
 * Thread-compatible: the membership makes all calls under its lock.
 */
#ifndef WEFT_MEMBERSHIP_MEMBER_VIEWS_H_
#define WEFT_MEMBERSHIP_MEMBER_VIEWS_H_

#include "base/arena.h"
#include "membership/membership.h"

typedef struct weft_member_view {
  weft_member_state_t state, told_state;
  uint64_t incarnation, told_incarnation;
  int64_t silent_ms; /* at `heard_ns` */
  bool has_left;
  uint64_t losses, told_losses; /* how often this task lost it, or it lost this task */
  uint64_t seen_losses;         /* in the cluster state that came last */
  int64_t unknown_since_ns;     /* alive here, but not (yet) for a restarted coordination service; 0: no */
} weft_member_view_t;

typedef struct weft_member_views {
  const weft_str_t *tasks; /* borrowed */
  int num_tasks, own, service_task;
  weft_member_view_t *members; /* in the arena */
  uint64_t epoch;
  int64_t heard_ns;      /* when the last cluster state came */
  int64_t answered_ns;   /* when the coordination service last answered */
  int64_t checked_ns;    /* when silence was last looked for */
  uint64_t lost_service; /* how often the coordination service was lost */
} weft_member_views_t;

/* This task alone is alive, with `incarnation`. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_member_views_init(weft_member_views_t *v, weft_arena_t *arena,
                                                      uint64_t incarnation);
/* Takes the next change without a notification; false: there is none. */
bool weft_member_views_next_change(weft_member_views_t *v, weft_member_t *out);
/* Enters the cluster state as the coordination service sent it. */
void weft_member_views_update(weft_member_views_t *v, uint64_t epoch, const weft_member_t *members, int n);
/* The coordination service is gone; nothing happens on the task that hosts it. */
void weft_member_views_lose_service(weft_member_views_t *v);
/* This task was silent and is lost for the others. They have dropped what they had in common with it; counts
 * as a loss of all others, so that this task drops it, too. */
void weft_member_views_lose_all(weft_member_views_t *v);
/* Loses the members that were silent for longer than `limit_ns`; not when this process itself was stopped. */
void weft_member_views_check_silence(weft_member_views_t *v, int64_t limit_ns);
bool weft_member_views_has_service(const weft_member_views_t *v);
weft_member_t weft_member_views_member(const weft_member_views_t *v, int i);

#endif /* WEFT_MEMBERSHIP_MEMBER_VIEWS_H_ */
