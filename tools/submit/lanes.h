/* tools/submit/lanes.h - runs the lanes of a plan, each on a thread of its own, until all steps are done.
 *
 * Without an update lane the steps are shared out evenly among the lanes. With
 * one, a step is an update: the others run as often, or less, and are cancelled if
 * they wait for more updates than come. The first failure ends all lanes.
 */
#ifndef WEFT_TOOLS_SUBMIT_LANES_H_
#define WEFT_TOOLS_SUBMIT_LANES_H_

#include "base/mutex.h"
#include "tools/submit/deal.h"
#include "tools/submit/gate.h"
#include "tools/submit/lane.h"
#include "tools/submit/trace.h"
#include "tools/submit/watch.h"

/* Lanes stop for it: after step `done` nothing runs until it returns. Sets the step of the next pause (INT64_MAX: none is
 * known). Errors end the job. */
typedef weft_status_t *weft_lanes_pause_fn(void *arg, int64_t done, int64_t *out_next);
/* Is it time for a pause, for reasons of its own? Asked after each step. */
typedef bool weft_lanes_due_fn(void *arg);
/* After each run of a lane, one at a time. `values`: of the lane's fetches, NULL for an update lane; what is left in the
 * array is freed. `counts`: it was one of the steps. Errors end the job. */
typedef weft_status_t *weft_lane_ran_fn(void *arg, TF_Tensor **values, int64_t done, bool counts);

typedef struct weft_lanes { /* Set what comes first; zero the rest. */
  const weft_run_plan_t *plan;
  TF_Session *session;
  weft_dealer_t *dealer;
  weft_watch_t *watch;
  weft_trace_t *trace; /* NULL: none */
  int64_t first, steps; /* steps that were done before; all in the end */
  weft_lane_ran_fn *ran;
  weft_lanes_due_fn *is_due;   /* NULL: there are no pauses */
  weft_lanes_pause_fn *pause;
  int64_t pause_at, round; /* the first pause, INT64_MAX: none is known; pauses are at multiples of `round` */
  void *arg;

  weft_mutex_t mu;
  weft_gate_t gate;       /* guarded by mu */
  weft_cond_t changed;    /* a lane's run is over, a lane has ended, a pause is over, or all is */
  int running;            /* guarded by mu: lanes that have not ended */
  int64_t done;           /* guarded by mu, like all below */
  bool is_pausing, is_over;
  weft_status_t *failure; /* owned */
} weft_lanes_t;

/* Waits for all. *out_done: how many steps are done, those before the run included. */
WEFT_MUST_CHECK weft_status_t *weft_lanes_run(weft_lanes_t *l, int64_t *out_done);

#endif /* WEFT_TOOLS_SUBMIT_LANES_H_ */
