/* membership/membership_impl.h - what a task's membership is made of; for membership.c and asked.c alone. */
#ifndef WEFT_MEMBERSHIP_MEMBERSHIP_IMPL_H_
#define WEFT_MEMBERSHIP_MEMBERSHIP_IMPL_H_

#include "base/arena.h"
#include "base/mutex.h"
#include "base/timer.h"
#include "membership/keeper.h"
#include "membership/keeper_client.h"
#include "membership/task_membership.h"

enum { WEFT_MAX_WATCHERS = 16 };

typedef struct weft_member_view {
  weft_member_state_t state, told_state;
  uint64_t incarnation, told_incarnation;
  int64_t silent_ms; /* at `heard_ns` */
  bool has_left;
  uint64_t losses, told_losses; /* how often it was lost for us, or we for it */
  uint64_t seen_losses;         /* in the record that came last */
  int64_t unknown_since_ns;     /* alive for us, but not (yet) for a keeper that was restarted; 0: no */
} weft_member_view_t;

/* A question about keys and values under way. */
typedef struct weft_asked {
  struct weft_asked *prev, *next; /* guarded by mu */
  weft_membership_t *ms;
  weft_canceller_t *canceller; /* a child of the caller's; owned */
  weft_value_fn *fn;
  void *arg;
} weft_asked_t;

struct weft_membership {
  weft_membership_options_t o; /* tasks: owned */
  weft_arena_t arena;
  weft_timer_t *timer;          /* owned */
  weft_keeper_t *keeper;        /* owned; NULL: another task keeps the record */
  weft_keeper_client_t *client; /* owned */
  weft_keeper_client_t *self;   /* owned; of the keeper's task: its own address; may be NULL */
  weft_canceller_t *canceller;  /* of all calls; cancelled by the stop */
  struct {
    weft_member_changed_fn *fn;
    void *arg;
  } watchers[WEFT_MAX_WATCHERS]; /* constant after the start */
  int num_watchers;
  weft_membership_tick_fn *on_tick;
  void *on_tick_arg;
  weft_membership_replaced_fn *on_replaced;
  void *on_replaced_arg;
  uint64_t secret; /* tells this process from others with its name and incarnation; constant */
  weft_mutex_t mu;
  weft_cond_t idle;          /* in_flight became 0, or nobody tells any more */
  weft_member_view_t *views; /* guarded by mu, with all that follows */
  uint64_t epoch;
  int64_t heard_ns;     /* when the record came */
  int64_t keeper_ns;    /* when the keeper last answered */
  uint64_t lost_keeper; /* how often it was lost */
  int64_t tick_ns;      /* the last tick */
  int num_presences;    /* in flight */
  int64_t presence_ns;  /* when the last began */
  int in_flight;        /* calls and ticks */
  weft_asked_t *asked;  /* that wait for an answer */
  int64_t refused_ns;   /* since when the keeper takes another process for this task; 0: it does not */
  bool is_member;       /* the keeper has taken a beat */
  bool is_replaced;     /* and that was told */
  bool is_leaving, is_saying_goodbye;
  bool started, stopping, beating, watching, telling, has_complained;
};

void weft_membership_leave(weft_membership_t *ms); /* a call or a tick has ended */
weft_keeper_caller_t weft_membership_self(weft_membership_t *ms);

/* asked.c: ends the questions about keys and values that wait. */
void weft_membership_cancel_asked(weft_membership_t *ms);

#endif /* WEFT_MEMBERSHIP_MEMBERSHIP_IMPL_H_ */
