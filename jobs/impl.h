/* jobs/impl.h - a job: job.c sets it up, session.c opens its session, run.c runs its steps.
 *
 * Locking: `callback_mu`, then `mu`, then the leaves (the watch's, the splitter's, the loops'). Callbacks of
 * the program are called with `callback_mu` alone, so that they come one at a time and in order;
 * WEFT_JobStop(), which they may call, takes `mu` only.
 */
#ifndef WEFT_JOBS_IMPL_H_
#define WEFT_JOBS_IMPL_H_

#include "graph/passes/optimize.h"
#include "jobs/iterators.h"
#include "jobs/job.h"
#include "jobs/logging.h"
#include "jobs/saving.h"
#include "jobs/stale_variables.h"
#include "jobs/worker_loops.h"

struct WEFT_Job {
  /* The configuration; it changes in state CREATED only. */
  const weft_job_words_t *words;
  weft_arena_t arena;                                     /* texts */
  const char *master, *strategy, *container, *trace_path; /* NULL: none */
  bool is_isolated;                                       /* shares no state with other sessions */
  bool has_passes; /* `passes` is what the session asks for; else the master decides */
  weft_pass_settings_t passes;
  int64_t master_wait_ns; /* how long a master is waited for that does not listen yet */
  weft_strbuf_t graph_def;
  TF_Graph *graph; /* the single-device graph; made anew when the job begins anew */
  weft_job_inputs_t inputs;
  weft_job_names_t fetches, targets, inits;
  weft_job_saving_spec_t saving_spec;
  weft_job_log_spec_t log_spec;
  WEFT_JobStepFn on_step; /* NULL: none */
  WEFT_JobEventFn on_event;
  void *step_arg, *event_arg;

  /* From weft_job_open to weft_job_close. Confined to the thread that calls the job's functions, and to the
   * loops that it runs. */
  weft_job_watch_t watch;
  weft_job_saving_t saving; /* all zero: nothing is saved or restored */
  weft_job_plan_t plan;
  TF_Graph *rewritten; /* the graph as rewritten by the strategy, or NULL */
  weft_job_stale_t stale;
  weft_job_iterators_t iterators;
  int64_t run_ns;  /* the time that its steps took */
  int64_t run_end; /* the last step of this WEFT_JobRun; 0: the program asks for one at a time */
  TF_Session *session;
  weft_job_splitter_t splitter;
  weft_job_loops_t loops;
  weft_job_logging_t logging;
  TF_Status *status;
  bool was_opened; /* once; then nodes were added to the graph */

  weft_mutex_t callback_mu;
  TF_Tensor **values;     /* of the last step, one per fetch; guarded by callback_mu */
  weft_job_wait_t *waits; /* of the last run; owned; num_waits of them */
  int num_waits;
  double wait_ns, wait_steps; /* over which these were: time, and steps of each task */
  weft_mutex_t mu;
  WEFT_JobState state;                             /* guarded by mu, like what follows */
  bool is_busy, is_stopping, has_watch, has_loops; /* is_busy: a function is in progress */
  atomic_llong done;                               /* steps; written by one loop at a time */
};

/* session.c: rewrites, opens a session, initialises and restores; `resumes`: from the newest checkpoint. On
 * failure the caller closes. */
WEFT_MUST_CHECK weft_status_t *weft_job_open(WEFT_Job *j, bool resumes);
/* Closes the session, and drops all that weft_job_open made; values stay. */
void weft_job_close(WEFT_Job *j);

/* run.c: runs until `steps` are done; `ends`: then saves and writes the trace. *out_stops: no more steps can
 * follow. */
WEFT_MUST_CHECK weft_status_t *weft_job_run_steps(WEFT_Job *j, int64_t steps, bool ends, bool *out_stops);
WEFT_MUST_CHECK weft_status_t *weft_job_save_now(WEFT_Job *j);

/* logging.c: what goes into the job's log, and when; nothing, where it has none. */
/* Before a session is opened: finds what is logged beside the fetches, and adds nodes to graph_def.
 * *out_grows: the graph is to be made anew. */
WEFT_MUST_CHECK weft_status_t *weft_job_logging_prepare(WEFT_Job *j, bool *out_grows);
/* With that graph: adds the fetches. */
WEFT_MUST_CHECK weft_status_t *weft_job_logging_fetch(WEFT_Job *j);
/* Once the plan is made: a file with the graphs. */
WEFT_MUST_CHECK weft_status_t *weft_job_logging_open(WEFT_Job *j);
void weft_job_logging_close(WEFT_Job *j);
/* Before the steps of a run, which ends with step `steps`. */
WEFT_MUST_CHECK weft_status_t *weft_job_logging_run(WEFT_Job *j, int64_t steps);
/* Of how many steps one is traced; 0: none. */
int64_t weft_job_logging_profiles(const WEFT_Job *j);
/* A loop ran, with callback_mu held; what was fetched is in j->values. */
WEFT_MUST_CHECK weft_status_t *weft_job_logging_ran(WEFT_Job *j, const weft_job_ran_t *run);
/* No loop ran for so long. */
WEFT_MUST_CHECK weft_status_t *weft_job_logging_paused(WEFT_Job *j, int64_t paused_ns);
/* A run has ended; `asks`: its session can be asked how long steps waited for input. */
WEFT_MUST_CHECK weft_status_t *weft_job_logging_ended(WEFT_Job *j, bool asks);

/* job_state.c. */
void weft_job_set_state(WEFT_Job *j, WEFT_JobState state);
void weft_job_drop_values(WEFT_Job *j);
void weft_job_notify(WEFT_Job *j,
                     const WEFT_JobEvent *event); /* with callback_mu held, or while no loop runs */
/* The failure of a job that was stopped or lost its master, whatever its step says; `s` itself otherwise.
 * Consumes `s`. */
WEFT_MUST_CHECK weft_status_t *weft_job_cause(WEFT_Job *j, weft_status_t *s);

#endif /* WEFT_JOBS_IMPL_H_ */
