/* jobs/run_options.h - the RunOptions of a job's runs. */
#ifndef WEFT_JOBS_RUN_OPTIONS_H_
#define WEFT_JOBS_RUN_OPTIONS_H_

#include <stdbool.h>
#include <stdint.h>
#include <tensorflow/c/c_api.h>

/* NULL if there is nothing to say (or no memory to say it); else the caller's. With `is_traced` the step's
 * statistics are asked for; a key other than 0 is what clients of one collective graph agree on. */
TF_Buffer *weft_job_run_options(bool is_traced, int64_t collective_graph_key);

#endif /* WEFT_JOBS_RUN_OPTIONS_H_ */
