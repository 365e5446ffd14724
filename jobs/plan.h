/* jobs/plan.h - the steps that the worker loops of a job repeat, and what runs before them.
 *
 * Without a strategy there is one worker loop. A strategy may have several (strategies/rewrite.h): each
 * worker of an asynchronous strategy runs its own.
 */
#ifndef WEFT_JOBS_PLAN_H_
#define WEFT_JOBS_PLAN_H_

#include "jobs/inputs.h"
#include "strategies/rewrite.h"

typedef struct weft_job_loop {
  char *name;       /* "worker 1"; owned; NULL: there is one loop, or no strategy */
  bool is_update;   /* fed nothing, fetches nothing: the chief's side of a synchronous update */
  TF_Output *feeds; /* num_feeds; in the order of the job's inputs */
  TF_Output *fetches;
  const TF_Operation **targets;
  int num_feeds, num_fetches, num_targets;
  const TF_Operation *leave; /* runs when the loop's data have ended: others no longer wait for it; NULL */
} weft_job_loop_t;

typedef struct weft_job_plan {
  TF_Graph *graph; /* borrowed */
  weft_job_loop_t *loops;
  const TF_Operation **inits; /* one after the other */
  const char **init_names;
  int num_loops, num_inits;
  bool in_step;       /* each loop runs once for each update */
  bool loops_wait;    /* a run of a loop may block until the others have caught up (a clock with bounded
                         staleness) */
  bool reads_data;    /* a step takes a batch from a source in the graph, which may end */
  bool is_follower;   /* another client runs the first replica: it saves */
  int round_steps;    /* updates come after so many steps each */
  int num_local_cpus; /* of a local session; 0: as it comes */
  bool is_soft;       /* replicas may be on devices that lack kernels: those nodes go to the host's */
  int64_t collective_graph_key; /* of every run; 0: none */
} weft_job_plan_t;

typedef struct weft_job_plan_source { /* the single-device graph, and what of it is fed, fetched and run */
  TF_Graph *graph;
  weft_str_t graph_def;
  const weft_job_inputs_t *inputs;
  const weft_job_names_t *fetches, *targets, *inits;
  const weft_job_words_t *words;
  const char *strategy, *container; /* NULL: none */
  bool is_local;                    /* the session is in this process */
  bool marks_variables;             /* strategies/origin.h */
  uint64_t agreement;               /* weft_strategy_request_t */
} weft_job_plan_source_t;

/* Both: *out is to be given to weft_job_plan_deinit, also on failure. */
WEFT_MUST_CHECK weft_status_t *weft_job_plan_plain(const weft_job_plan_source_t *from, weft_job_plan_t *out);
/* Applies the strategy for the cluster. `graph` gets the rewritten graph, with its variables marked. Inputs
 * that are batches are the strategy's batches. Errors: as the strategy's. */
WEFT_MUST_CHECK weft_status_t *weft_job_plan_rewritten(const weft_job_plan_source_t *from,
                                                       const weft_cluster_view_t *cluster, TF_Graph *graph,
                                                       weft_job_plan_t *out);
void weft_job_plan_deinit(weft_job_plan_t *p);
/* Loops that run apart and share the steps; else 1. */
int weft_job_num_sharing(const weft_job_plan_t *p);

#endif /* WEFT_JOBS_PLAN_H_ */
