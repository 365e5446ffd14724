/* tools/submit/plan.h - the lanes of a job: of its graph as it is, or of what a strategy makes of it. */
#ifndef WEFT_TOOLS_SUBMIT_PLAN_H_
#define WEFT_TOOLS_SUBMIT_PLAN_H_

#include "base/str.h"
#include "tools/submit/feeds.h"
#include "tools/submit/job.h"
#include "tools/submit/lane.h"

typedef struct weft_plan_source { /* what the command line named, found in the graph as it is */
  TF_Graph *graph;
  TF_Output *feeds, *fetches;
  const TF_Operation **targets, **inits;
  int num_feeds, num_fetches, num_targets, num_inits;
} weft_plan_source_t;

/* Both: *out is to be given to weft_run_plan_deinit, also on failure. */
WEFT_MUST_CHECK weft_status_t *weft_run_plan_plain(const weft_job_spec_t *spec, const weft_plan_source_t *from, weft_run_plan_t *out);
/* Asks the master (none: this process) for its devices and applies spec->strategy to the graph's bytes. `*out_graph` (owned)
 * is the graph that was made, its variables marked (strategies/origin.h). The feeds that are cut (--batch) are its batches.
 * `agreement`: weft_strategy_request_t. Errors: as the strategy's. */
WEFT_MUST_CHECK weft_status_t *weft_run_plan_rewritten(const weft_job_spec_t *spec, const weft_feeds_t *feeds, weft_str_t graph_def,
                                                       uint64_t agreement, weft_run_plan_t *out, TF_Graph **out_graph);
void weft_run_plan_deinit(weft_run_plan_t *p);

#endif /* WEFT_TOOLS_SUBMIT_PLAN_H_ */
