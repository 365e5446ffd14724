/* jobs/stale_variables.h - variables of a former job that the initialisers of the next would look at.
 *
 * Variables on servers live on after a job: a job without initialisers goes on with them. With initialisers
 * it starts afresh. But an initialiser may ask whether a variable has a value and then use that value, as
 * Variable.initialized_value() and all initial values do that are made of other variables; on servers that
 * were used before it would start from what a former job has trained. So a variable that an initialiser
 * assigns in every case, and that one asks about, loses its value before the initialisers run, as on fresh
 * servers. One that is only assigned in a branch of a conditional keeps it: such an initialiser means to keep
 * it.
 */
#ifndef WEFT_JOBS_STALE_VARIABLES_H_
#define WEFT_JOBS_STALE_VARIABLES_H_

#include "base/status.h"
#include "jobs/plan.h"

typedef struct weft_job_stale {
  const TF_Operation **clears; /* targets to run before the initialisers; owned array */
  int n;
} weft_job_stale_t;

/* Adds to the plan's graph what takes those variables their values. *out is to be given to
 * weft_job_stale_deinit, also on failure. Source of the walk: a node is in a branch if more Switch than Merge
 * nodes are above it. Cost: linear in the initialisers' nodes and edges. */
WEFT_MUST_CHECK weft_status_t *weft_job_stale_init(weft_job_stale_t *out, const weft_job_plan_t *plan);
void weft_job_stale_deinit(weft_job_stale_t *f);

#endif /* WEFT_JOBS_STALE_VARIABLES_H_ */
