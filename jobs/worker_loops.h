/* jobs/worker_loops.h - runs the worker loops of a plan, each on a thread of its own, until a number of steps
 * is done.
 *
 * Without an update loop the steps are split evenly between the loops; one whose own data end leaves the rest
 * of its steps to the others. With one, a step is an update: the
 * other loops run at most as often, and are cancelled if they wait for an update that will not come. A run
 * ends when its steps are done, when the step callback asks for it, when the inputs have ended (those of all
 * loops, where each reads its own part and can leave the others), at weft_job_loops_stop(), or with the
 * first failure, which ends all loops.
 */
#ifndef WEFT_JOBS_WORKER_LOOPS_H_
#define WEFT_JOBS_WORKER_LOOPS_H_

#include "base/mutex.h"
#include "jobs/batch_splitter.h"
#include "jobs/safepoint.h"
#include "jobs/trace.h"
#include "jobs/watch.h"

/* Called in a pause: after step `done` no loop runs until it returns. Sets the step of the next pause
 * (INT64_MAX: not known yet). Errors end the job. */
typedef weft_status_t *weft_job_pause_fn(void *arg, int64_t done, int64_t *out_next);
/* Is a pause due that does not depend on the step (a timer)? Called after each run. */
typedef bool weft_job_pause_due_fn(void *arg);
/* A run of a loop that has ended. */
typedef struct weft_job_ran { /* all lent */
  TF_Tensor **values;         /* of the loop's fetches, NULL for an update loop; what is left is freed */
  int64_t done;               /* steps in all */
  int64_t rows;               /* of what was fed */
  bool counts;                /* it was one of the steps */
  weft_str_t statistics;      /* a RunMetadata; length 0: the run was not traced */
  int64_t traced_step;        /* that it was a part of */
} weft_job_ran_t;
/* After each run of a loop, one at a time. *out_stops: the run of loops is to end. Errors end the job. */
typedef weft_status_t *weft_job_ran_fn(void *arg, const weft_job_ran_t *ran, bool *out_stops);

typedef enum weft_job_end {
  WEFT_JOB_END_STEPS, /* all steps are done, or one failed */
  WEFT_JOB_END_ASKED, /* by the step callback */
  WEFT_JOB_END_INPUT, /* the inputs have ended */
} weft_job_end_t;

typedef struct weft_job_loop_run weft_job_loop_run_t; /* a loop with its thread, in worker_loops.c */

typedef struct weft_job_loops { /* Set what comes first; zero the rest. */
  const weft_job_plan_t *plan;
  TF_Session *session;
  weft_job_splitter_t *splitter;
  weft_job_watch_t *watch;
  weft_job_ran_fn *ran;
  weft_job_pause_due_fn *is_due; /* NULL: there are no pauses */
  weft_job_pause_fn *pause;
  int64_t round; /* pauses are at multiples of it */
  void *arg;
  weft_mutex_t
      *callback_mu; /* borrowed; `ran` is called with it, so that calls are in order; taken before mu */

  weft_job_trace_t *trace; /* of this run's last steps; NULL: none */
  int64_t profile_every;   /* steps that are traced for `ran`; 0: none but those for `trace` */
  weft_mutex_t mu;
  weft_cond_t changed; /* a loop's run has ended, a loop has ended, a pause or the whole run is over */
  weft_job_safepoint_t safepoint; /* guarded by mu, like all below */
  weft_job_loop_run_t *loops;     /* owned; one per loop of the plan */
  bool shares_steps;              /* there is no update loop */
  int64_t done, steps;            /* steps that are done, earlier ones included; where the run ends */
  bool has_values;                /* a loop that fetches has ended a run */
  bool is_pausing, is_over,
      is_stopped;   /* is_over: no further run starts, also not of a later weft_job_loops_run */
  bool is_draining; /* the inputs have ended: updates with a complete set of gradients are still applied */
  bool is_closed;   /* runs had to be cancelled: the session cannot be used again */
  weft_job_end_t end;
  weft_status_t *failure; /* owned */
} weft_job_loops_t;

/* `first`: steps done before. The caller deinits in any case. */
WEFT_MUST_CHECK weft_status_t *weft_job_loops_init(weft_job_loops_t *l, int64_t first);
void weft_job_loops_deinit(weft_job_loops_t *l); /* also of one that is all zero */
/* Runs until `steps` are done in all; the first pause is at `pause_at` (INT64_MAX: none is known). Waits for
 * all loops. *out_end: why it ended, if without failure. May be called again while is_over is false. */
WEFT_MUST_CHECK weft_status_t *weft_job_loops_run(weft_job_loops_t *l, int64_t steps, int64_t pause_at,
                                                  weft_job_end_t *out_end);
/* The runs that a loop has ended, also those of earlier weft_job_loops_run. -1: its inputs have ended, or it
 * is an update loop. Any thread. */
int64_t weft_job_loops_runs(weft_job_loops_t *l, int loop);
/* No further run of a loop starts; those in flight end with their session's status. Any thread. */
void weft_job_loops_stop(weft_job_loops_t *l);

#endif /* WEFT_JOBS_WORKER_LOOPS_H_ */
