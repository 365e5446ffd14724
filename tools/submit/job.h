/* tools/submit/job.h - a graph file run step by step in a session of the C API. */
#ifndef WEFT_TOOLS_SUBMIT_JOB_H_
#define WEFT_TOOLS_SUBMIT_JOB_H_

#include "base/status.h"
#include "tools/submit/progress.h"

typedef struct weft_job_spec {
  const char *graph_path, *master; /* master NULL: a local session */
  const char *const *feeds, *const *inits, *const *targets, *const *fetches, *const *saves; /* as on the command line */
  int num_feeds, num_inits, num_targets, num_fetches, num_saves;
  int64_t steps, batch;
  bool is_shuffled;
  uint64_t seed;
  weft_progress_style_t style;
} weft_job_spec_t;

/* Runs it and prints what it does. Errors name what is wrong and what to do. */
WEFT_MUST_CHECK weft_status_t *weft_job_run(const weft_job_spec_t *spec);

#endif /* WEFT_TOOLS_SUBMIT_JOB_H_ */
