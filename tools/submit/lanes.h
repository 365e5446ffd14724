/* tools/submit/lanes.h - runs the lanes of a plan, each on a thread of its own, until all steps are done.
 *
 * Without an update lane the steps are shared out evenly among the lanes. With
 * one, a step is an update: the others run as often, or less, and are cancelled if
 * they wait for more updates than come. Where lanes share each batch, a step is done when all lanes have
 * done theirs, and its values are the whole batch's (join.h). The first failure ends all lanes.
 */
#ifndef WEFT_TOOLS_SUBMIT_LANES_H_
#define WEFT_TOOLS_SUBMIT_LANES_H_

#include "base/mutex.h"
#include "tools/submit/deal.h"
#include "tools/submit/join.h"
#include "tools/submit/lane.h"
#include "tools/submit/trace.h"
#include "tools/submit/watch.h"

/* After each run of a lane, one at a time. `values`: of the lane's fetches, NULL for an update lane; what is left in the
 * array is freed. `counts`: it was one of the steps. Errors end the job. */
typedef weft_status_t *weft_lane_ran_fn(void *arg, TF_Tensor **values, int64_t done, bool counts);

typedef struct weft_lanes { /* Set what comes first; zero the rest. */
  const weft_run_plan_t *plan;
  TF_Session *session;
  weft_dealer_t *dealer;
  weft_watch_t *watch;
  weft_trace_t *trace; /* NULL: none */
  int64_t steps;
  weft_lane_ran_fn *ran;
  void *arg;

  int num_fed;            /* lanes that are no update lanes */
  weft_mutex_t mu;
  weft_joiner_t joiner;   /* guarded by mu */
  weft_cond_t ended;      /* a lane has */
  int running;            /* guarded by mu: lanes that have not ended */
  int64_t done;           /* guarded by mu, like all below */
  bool is_over;
  weft_status_t *failure; /* owned */
} weft_lanes_t;

/* Waits for all. *out_done: how many steps were. */
WEFT_MUST_CHECK weft_status_t *weft_lanes_run(weft_lanes_t *l, int64_t *out_done);

#endif /* WEFT_TOOLS_SUBMIT_LANES_H_ */
