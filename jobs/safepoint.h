/* jobs/safepoint.h - stops all worker loops between two steps, so that the variables have the state after one
 * step.
 *
 * A worker loop asks before each run whether it may start. From step `pause_at` on the answer is no, as soon
 * as no other loop depends on that run. When no loop runs and none may start, the safepoint is reached, and a
 * waiting loop performs the pause's work. Loops that wait for each other within runs continue until all have
 * started equally many.
 */
#ifndef WEFT_JOBS_SAFEPOINT_H_
#define WEFT_JOBS_SAFEPOINT_H_

#include "jobs/plan.h"

typedef enum weft_job_safepoint_kind {
  WEFT_SAFEPOINT_IN_STEP, /* the n-th run of every loop is the n-th step */
  WEFT_SAFEPOINT_FREE,    /* every run is a step; loops do not wait for each other */
  WEFT_SAFEPOINT_BOUND,   /* every run is a step; loops may wait for slower ones (bounded staleness) */
  WEFT_SAFEPOINT_UPDATE, /* the runs of the update loop are the steps, and the only ones that change variables
                          */
} weft_job_safepoint_kind_t;

typedef struct weft_job_safepoint { /* Thread-compatible. */
  weft_job_safepoint_kind_t kind;
  int num_loops;
  int64_t first, pause_at; /* steps done before the first run; where to stop, INT64_MAX: nowhere */
  struct weft_job_safepoint_loop {
    int64_t started; /* runs */
    bool is_busy, has_ended, is_update;
  } * loops; /* owned */
} weft_job_safepoint_t;

WEFT_MUST_CHECK weft_status_t *weft_job_safepoint_init(weft_job_safepoint_t *g, const weft_job_plan_t *plan,
                                                       int64_t first);
void weft_job_safepoint_deinit(weft_job_safepoint_t *g);
/* `done`: steps that are complete. */
bool weft_job_safepoint_may_start(const weft_job_safepoint_t *g, int loop, int64_t done);
bool weft_job_safepoint_is_still(const weft_job_safepoint_t *g, int64_t done);
/* Sets pause_at to the next step at which it is possible to stop, a multiple of `round` after the first. */
void weft_job_safepoint_stop_soon(weft_job_safepoint_t *g, int64_t done, int64_t round);

#endif /* WEFT_JOBS_SAFEPOINT_H_ */
