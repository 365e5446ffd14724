/* jobs/rewrite_graph.h - a serialized graph under a strategy, as commands and jobs ask for it. */
#ifndef WEFT_JOBS_REWRITE_GRAPH_H_
#define WEFT_JOBS_REWRITE_GRAPH_H_

#include "strategies/strategy.h"

/* Reads a GraphDef and applies the strategy "name:options" as `request` says; its graph is not set. Without
 * any fetch, target or init, all nodes without consumers that are made of placeholders are the targets,
 * others without outputs the inits; without feeds, all placeholders are fed. `marks_variables`:
 * strategies/origin.h. The caller deinits *out in any case. Errors: as the strategy's; NOT_FOUND naming a
 * name that the graph lacks, and what may have been meant. */
WEFT_MUST_CHECK weft_status_t *weft_job_rewrite(weft_str_t graph_def, const char *strategy,
                                                const weft_strategy_request_t *request, bool marks_variables,
                                                weft_rewrite_t *out);

/* The graph as it is, with functions lowered as a master lowers them: a rewrite without a strategy, of one
 * worker loop, for what shows what a step runs. What `request` leaves out is filled in likewise. `takes_all`:
 * nodes that no step runs are kept, too; ops that are not known are as they are. The caller deinits *out in
 * any case. Errors: as weft_job_rewrite's.
 */
WEFT_MUST_CHECK weft_status_t *weft_job_keep(weft_str_t graph_def, const weft_strategy_request_t *request,
                                             bool takes_all, weft_rewrite_t *out);

#endif /* WEFT_JOBS_REWRITE_GRAPH_H_ */
